import type { CapturedEvent } from "@hedgerow/core/events/event";
import type { Json } from "@hedgerow/core/json";
import { sampleEvent } from "./event-log.contract.ts";
import { eventStep } from "./steps/step.ts";

/** Whom the numbered events are about in the end. */
export const USERS = 7;

export interface ModelPerson {
  readonly properties: Record<string, Json>;
  readonly distinctIds: readonly string[];
  /** Numbers of the events of the person, in order. */
  readonly numbers: readonly number[];
}

/**
 * The event of a number, the same whenever it is asked for. All kinds of person changes come in
 * turns: of fifty events one is anonymous, the next identifies who that was, and one gives an alias.
 */
export function numberedEvent(projectId: number, number: number): CapturedEvent {
  return sampleEvent({
    projectId,
    uuid: `00000000-0000-4000-8000-${number.toString(16).padStart(12, "0")}`,
    timestamp: new Date(Date.UTC(2024, 0, 1) + number),
    ...whatHappens(number),
  });
}

function whatHappens(number: number): Pick<CapturedEvent, "event" | "distinctId" | "properties"> {
  const distinctId = `user-${number % USERS}`;
  const $set = { last: number, [`set${number % 5}`]: number };
  switch (number % 50) {
    case 48: {
      const properties = { number, $set: { visited: number }, $set_once: { origin: number } };
      return { event: "visit", distinctId: `anon-${number + 1}`, properties };
    }
    case 49: {
      const properties = { number, $set, $anon_distinct_id: `anon-${number}` };
      return { event: "$identify", distinctId, properties };
    }
    case 24: {
      const properties = { number, $set, alias: `alias-${number}` };
      return { event: "$create_alias", distinctId, properties };
    }
    default: {
      const $unset = number % 3 === 0 ? [`set${(number + 1) % 5}`] : [];
      const $set_once = { first: number, [`once${number % 4}`]: number };
      return { event: "count", distinctId, properties: { number, $set, $set_once, $unset } };
    }
  }
}

/**
 * Numbers whose events the step below drops, and those beside whose events it captures another: of
 * those only that are captured once each.
 */
export const isDropped = (number: number) => number % 13 === 7;
export const isEchoed = (number: number) =>
  number % 11 === 5 && number % 20 >= 2 && !isDropped(number);

/**
 * What transformations do, for the lanes of pipelines: of numbered events it drops some, captures
 * echoes beside others, which have random uuids and so tell doubled ones, and marks all.
 */
export const transformNumbered = eventStep({
  name: "transform",
  run({ event }) {
    const { number } = event.properties;
    if (typeof number !== "number") return { kind: "keep", event };
    if (isDropped(number)) return { kind: "drop", reason: "one of thirteen" };
    const { projectId } = event;
    const properties = { echoOf: number, $process_person_profile: false };
    const echo = sampleEvent({ projectId, event: "echo", distinctId: "echo", properties });
    const changed = { ...event, properties: { ...event.properties, passed: true } };
    return { kind: "keep", event: changed, ...(isEchoed(number) && { captured: [echo] }) };
  },
});

/** The persons that some numbered events make when one is applied after the other. */
export function modelPersons(numbers: readonly number[]): ReadonlyMap<string, ModelPerson> {
  interface Draft {
    properties: Record<string, Json>;
    distinctIds: string[];
    numbers: number[];
  }
  const persons = new Map<string, Draft>();
  const personOf = (id: string) => {
    const known = persons.get(id);
    if (known) return known;
    const created: Draft = { properties: {}, distinctIds: [id], numbers: [] };
    persons.set(id, created);
    return created;
  };
  for (const number of numbers.toSorted((a, b) => a - b)) {
    const { distinctId, properties } = whatHappens(number);
    const person = personOf(distinctId);
    const otherId = properties.$anon_distinct_id ?? properties.alias;
    if (typeof otherId === "string") {
      const other = persons.get(otherId);
      person.properties = { ...other?.properties, ...person.properties };
      person.distinctIds.push(...(other?.distinctIds ?? [otherId]));
      person.numbers.push(...(other?.numbers ?? []));
      persons.set(otherId, person);
    }
    person.numbers.push(number);
    Object.assign(person.properties, {
      ...(properties.$set_once as Record<string, Json> | undefined),
      ...person.properties,
      ...(properties.$set as Record<string, Json> | undefined),
    });
    for (const name of (properties.$unset as string[] | undefined) ?? []) {
      delete person.properties[name];
    }
  }
  return persons;
}

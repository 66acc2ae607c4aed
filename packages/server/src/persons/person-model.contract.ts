import type { CapturedEvent } from "@hedgerow/core/events/event";
import type { Json, JsonObject } from "@hedgerow/core/json";
import fc from "fast-check";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { PersonStoreFixture } from "./person-store.contract.ts";
import { someEvent } from "./person-store.contract.ts";
import { personUuid } from "./person-uuid.ts";

/** The same answers as {@link ModelPersons}, whatever the runs in which events are applied. */
export function personModelContract(open: () => Promise<PersonStoreFixture>): void {
  let fixture: PersonStoreFixture;
  let position = 0;
  beforeAll(async () => {
    fixture = await open();
  });
  afterAll(() => fixture.close());

  async function expectSameAsModel(drafts: readonly Draft[], runs: readonly Run[]): Promise<void> {
    const projectId = await fixture.newProject();
    fixture.continuityFlagKeys.set(projectId, ["f", "g"]);
    const entries = drafts.map((draft) => ({
      position: ++position,
      event: someEvent({ ...draft, projectId }),
    }));
    const model = new ModelPersons(projectId);
    const expected: unknown[] = [];

    const merges = new Map<number, unknown>();
    let next = 0;
    const last: Run = { length: entries.length, replayed: 3, isLastOfProcess: false, byHand: null };
    for (const { length, replayed, isLastOfProcess, byHand } of [...runs, last]) {
      const start = Math.max(0, next - replayed);
      for (const { event } of entries.slice(next, next + length)) {
        expected.push(model.apply(event));
      }
      const outcomes = await fixture.store.applyEvents(entries.slice(start, next + length));
      for (const [index, { merged, personId, warnings }] of outcomes.entries()) {
        if (start + index < next) expect(merged).toEqual(merges.get(start + index) ?? null);
        else expect({ personId, merged, warnings }).toEqual(expected[start + index]);
        merges.set(start + index, merged);
      }
      next = Math.min(entries.length, next + length);
      if (isLastOfProcess) fixture.restart();
      if (byHand) {
        const { distinctId, $set, $unset, second } = byHand;
        const set = new Map(Object.entries($set));
        const changes = { setOnce: new Map(), set, unset: $unset };
        const now = timeOf(second);
        await fixture.changeByHand(projectId, distinctId, { changes, now });
        model.changeByHand(distinctId, { $set, $unset }, now);
      }
    }

    for (const distinctId of IDS) {
      const stored = await fixture.store.personByDistinctId(projectId, distinctId);
      const facts = await fixture.store.factsFor({
        projectId,
        distinctId,
        anonDistinctId: null,
        person: true,
        staticCohorts: true,
        hashKeyOverrides: true,
        groups: { org: "acme" },
      });
      expect({
        stored: stored && {
          uuid: stored.uuid,
          distinctIds: stored.distinctIds,
          properties: stored.properties,
          createdAt: stored.createdAt,
          isIdentified: stored.isIdentified,
        },
        facts,
      }).toEqual(model.describe(distinctId));
    }
  }

  test("[PE-11] any events, in runs of any length, replayed at will, with restarts and changes by hand in between, give what applying them one by one gives", async () => {
    await fc.assert(fc.asyncProperty(someEvents, fc.array(someRun), expectSameAsModel), {
      numRuns: 60,
    });
  });

  test("[PE-32] events that mostly say again what is known, at any times, give what applying them one by one gives", async () => {
    const runs = fc.array(someRun, { minLength: 10, maxLength: 20 });
    await fc.assert(fc.asyncProperty(someRepetitions, runs, expectSameAsModel), { numRuns: 40 });
  });
}

const IDS = ["a", "b", "c", "d", "e"];
const KEYS = ["x", "y", "__proto__"];
const start = Date.parse("2026-05-01T12:00:00Z");
const timeOf = (second: number) => new Date(start + second * 1000);

/** Events that are applied together, and what happens before the next ones. */
interface Run {
  readonly length: number;
  /** How many of the events before are applied again with them. */
  readonly replayed: number;
  readonly isLastOfProcess: boolean;
  readonly byHand: {
    readonly distinctId: string;
    readonly $set: JsonObject;
    readonly $unset: string[];
    readonly second: number;
  } | null;
}

type Draft = Pick<CapturedEvent, "event" | "distinctId" | "properties" | "timestamp">;

const someRun: fc.Arbitrary<Run> = fc.record({
  length: fc.integer({ min: 1, max: 6 }),
  replayed: fc.integer({ min: 0, max: 4 }),
  isLastOfProcess: fc.boolean(),
  byHand: fc.option(
    fc.record({
      distinctId: fc.constantFrom(...IDS),
      $set: fc.dictionary(fc.constantFrom(...KEYS), fc.nat(1)),
      $unset: fc.subarray(KEYS),
      second: fc.nat(20),
    }),
    { freq: 3 },
  ),
});

const someChanges: fc.Arbitrary<JsonObject> = fc.record(
  {
    // Often what is there already: then only its time moves.
    $set: fc.dictionary(fc.constantFrom(...KEYS), fc.nat(1)),
    $set_once: fc.dictionary(fc.constantFrom(...KEYS), fc.nat(3)),
    $unset: fc.subarray(KEYS),
    $groups: fc.constantFrom({ org: "acme" }, { team: 1 }),
    $process_person_profile: fc.constantFrom(false, true, true, true),
  },
  { requiredKeys: [] },
);

const someEvents: fc.Arbitrary<Draft[]> = fc.array(
  fc
    .record({
      distinctId: fc.constantFrom(...IDS),
      other: fc.constantFrom(...IDS, "undefined"),
      name: fc.constantFrom(
        "clicked",
        "clicked",
        "$identify",
        "$create_alias",
        "$merge_dangerously",
        "$groupidentify",
      ),
      changes: someChanges,
      second: fc.nat(20),
    })
    .map(({ distinctId, other, name, changes, second }) => ({
      event: name,
      distinctId,
      timestamp: timeOf(second),
      properties: {
        ...changes,
        ...(name === "$identify" ? { $anon_distinct_id: other } : { alias: other }),
        ...(name === "$groupidentify"
          ? { $group_type: "org", $group_key: "acme", $group_set: changes.$set ?? {} }
          : {}),
      },
    })),
  { maxLength: 25 },
);

const someRepetitions: fc.Arbitrary<Draft[]> = fc.array(
  fc
    .record({
      distinctId: fc.constantFrom("a", "a", "b"),
      name: fc.oneof(
        { arbitrary: fc.constant("clicked"), weight: 20 },
        { arbitrary: fc.constantFrom("$identify", "$merge_dangerously"), weight: 1 },
      ),
      value: fc.oneof(
        { arbitrary: fc.constant(0), weight: 4 },
        { arbitrary: fc.nat(3), weight: 1 },
      ),
      $unset: fc.oneof(
        { arbitrary: fc.constant([]), weight: 6 },
        { arbitrary: fc.subarray(KEYS), weight: 1 },
      ),
      second: fc.nat(20),
    })
    .map(({ distinctId, name, value, $unset, second }) => ({
      event: name,
      distinctId,
      timestamp: timeOf(second),
      properties: {
        $set: { x: value },
        $set_once: { y: value },
        $unset,
        ...(name === "$identify" ? { $anon_distinct_id: "b" } : { alias: "b" }),
      },
    })),
  { minLength: 20, maxLength: 40 },
);

interface Fact {
  readonly kind: "set" | "once" | "removed";
  readonly at: number;
  readonly value: Json;
}
type Facts = Map<string, Fact>;

interface ModelPerson {
  readonly uuid: string;
  readonly ids: Set<string>;
  facts: Facts;
  createdAt: number;
  isIdentified: boolean;
  readonly hashKeys: Map<string, string>;
}

/** The rules of persons in the plainest form: a list of people, changed by one event at a time. */
class ModelPersons {
  readonly #projectId: number;
  #people: ModelPerson[] = [];
  #org: Facts | undefined;

  constructor(projectId: number) {
    this.#projectId = projectId;
  }

  apply({ event, distinctId, properties, timestamp }: CapturedEvent) {
    const at = timestamp.getTime();
    const isSpecial = event.startsWith("$");
    if (properties.$process_person_profile === false) {
      return {
        personId: this.#find(distinctId)?.uuid ?? personUuid(this.#projectId, distinctId),
        merged: null,
        warnings: isSpecial ? ["invalid_event_when_process_person_profile_is_false"] : [],
      };
    }
    if (event === "$groupidentify") {
      this.#org ??= new Map();
      change(this.#org, { $set: properties.$group_set ?? {} }, at);
    }
    const warnings: string[] = [];
    const other = event === "$identify" ? properties.$anon_distinct_id : properties.alias;
    const merged =
      isSpecial && event !== "$groupidentify" && typeof other === "string"
        ? this.#link({ event, distinctId, other, at, warnings })
        : null;
    const person = this.#find(distinctId) ?? this.#create(distinctId, at);
    change(person.facts, properties, at);
    return { personId: person.uuid, merged, warnings };
  }

  changeByHand(distinctId: string, changes: JsonObject, now: Date): void {
    const person = this.#find(distinctId);
    if (person) change(person.facts, changes, now.getTime());
  }

  describe(distinctId: string) {
    const person = this.#find(distinctId);
    const groups = this.#org ? { org: values(this.#org) } : {};
    if (!person) return { stored: undefined, facts: { person: null, groups } };
    return {
      stored: {
        uuid: person.uuid,
        distinctIds: [...person.ids].sort(),
        properties: values(person.facts),
        createdAt: new Date(person.createdAt),
        isIdentified: person.isIdentified,
      },
      facts: {
        person: {
          properties: values(person.facts),
          createdAt: new Date(person.createdAt),
          staticCohortIds: new Set(),
          hashKeyOverrides: person.hashKeys,
        },
        groups,
      },
    };
  }

  #find(distinctId: string): ModelPerson | undefined {
    return this.#people.find(({ ids }) => ids.has(distinctId));
  }

  #create(distinctId: string, at: number): ModelPerson {
    const person: ModelPerson = {
      uuid: personUuid(this.#projectId, distinctId),
      ids: new Set([distinctId]),
      facts: new Map(),
      createdAt: at,
      isIdentified: false,
      hashKeys: new Map(),
    };
    this.#people.push(person);
    return person;
  }

  #link(link: {
    event: string;
    distinctId: string;
    other: string;
    at: number;
    warnings: string[];
  }): { from: string; into: string } | null {
    const { event, distinctId, other, at, warnings } = link;
    if (other === distinctId) return null;
    if (other === "undefined") {
      warnings.push("cannot_merge_with_illegal_distinct_id");
      return null;
    }
    const mine = this.#find(distinctId);
    const theirs = this.#find(other);
    if (mine && mine === theirs) return null;
    if (mine && theirs?.isIdentified && event !== "$merge_dangerously") {
      warnings.push("cannot_merge_already_identified");
      return null;
    }
    const keeps = event === "$identify" || (theirs && !mine) ? other : distinctId;
    const survivor = mine ?? theirs ?? this.#create(distinctId, at);
    let from: string;
    if (mine && theirs) {
      from = theirs.uuid;
      this.#people = this.#people.filter((person) => person !== theirs);
      for (const id of theirs.ids) survivor.ids.add(id);
      survivor.facts = joined(survivor.facts, theirs.facts);
      survivor.createdAt = Math.min(survivor.createdAt, theirs.createdAt);
      for (const [flag, key] of theirs.hashKeys) {
        if (!survivor.hashKeys.has(flag)) survivor.hashKeys.set(flag, key);
      }
    } else {
      const added = theirs ? distinctId : other;
      from = personUuid(this.#projectId, added);
      survivor.ids.add(added);
    }
    survivor.isIdentified = true;
    for (const flag of ["f", "g"]) {
      if (!survivor.hashKeys.has(flag)) survivor.hashKeys.set(flag, keeps);
    }
    return from === survivor.uuid ? null : { from, into: survivor.uuid };
  }
}

function change(facts: Facts, properties: JsonObject, at: number): void {
  for (const [name, value] of Object.entries((properties.$set_once ?? {}) as JsonObject)) {
    const fact = facts.get(name);
    const applies =
      !fact || (fact.kind === "once" ? at < fact.at : fact.kind === "removed" && at >= fact.at);
    if (applies) facts.set(name, { kind: "once", at, value });
  }
  for (const [name, value] of Object.entries((properties.$set ?? {}) as JsonObject)) {
    const fact = facts.get(name);
    if (!fact || fact.kind === "once" || at >= fact.at) facts.set(name, { kind: "set", at, value });
  }
  for (const name of (properties.$unset ?? []) as string[]) {
    const fact = facts.get(name);
    if (!fact || at >= fact.at) facts.set(name, { kind: "removed", at, value: null });
  }
}

function joined(mine: Facts, theirs: Facts): Facts {
  const all = new Map(mine);
  for (const [name, fact] of theirs) {
    const own = mine.get(name);
    if (!own || (own.kind === "removed" && fact.at > own.at)) all.set(name, fact);
  }
  return all;
}

function values(facts: Facts): JsonObject {
  return Object.fromEntries(
    [...facts].flatMap(([name, { kind, value }]) =>
      kind === "removed" ? [] : [[name, value] as const],
    ),
  );
}

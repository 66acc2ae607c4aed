import { encodeJson } from "@hedgerow/core/exact-json";
import { type Json, type JsonObject, ownValue } from "@hedgerow/core/json";
import { Refusal } from "../http/errors.ts";
import { type EventStore, QueryTooLong } from "./event-store.ts";
import { type ReachNowDeps, reachNow } from "./reach-now.ts";

export interface PropertyValuesQuery {
  readonly projectId: number;
  /** Name of the property. */
  readonly property: string;
  /** Only of these events; all where there are none. */
  readonly eventNames: readonly string[];
  /** Part of the value's text, whatever its case. */
  readonly search: string;
}

/** Values that a property of events had lately, the commonest first. */
export type PropertyValues = (query: PropertyValuesQuery) => Promise<readonly Json[]>;

/** Events whose values are looked at. */
const MAX_EVENTS = 1000;
const MAX_VALUES = 10;
const RECENT_MS = 7 * 86_400_000;
const MAX_WAIT_MS = 2000;

/** {@link PropertyValues} over stored events; those acknowledged before a call count. */
export function createPropertyValues({
  events,
  log,
  clock,
}: {
  events: Pick<EventStore, "events" | "reached">;
  log: ReachNowDeps["log"];
  clock: () => Date;
}): PropertyValues {
  return async ({ projectId, property, eventNames, search }) => {
    await reachNow({ events, log }, projectId, MAX_WAIT_MS);
    const wanted = search.toLowerCase();
    const valuesOf = (properties: JsonObject) =>
      partsOf(ownValue(properties, property)).filter((value) =>
        textOf(value).toLowerCase().includes(wanted),
      );
    const times = new Map<string, { value: Json; times: number }>();
    for (const event of eventNames.length === 0 ? [undefined] : eventNames) {
      const found = await newestEvents(events, {
        projectId,
        after: new Date(clock().getTime() - RECENT_MS),
        ...(event === undefined ? {} : { event }),
        properties: {
          requiredNames: [property],
          matches: (properties) => valuesOf(properties).length > 0,
        },
        limit: MAX_EVENTS,
        offset: 0,
        order: "newest-first",
      });
      for (const value of found.flatMap(({ properties }) => valuesOf(properties))) {
        const text = encodeJson(value);
        const known = times.get(text) ?? { value, times: 0 };
        known.times++;
        times.set(text, known);
      }
    }
    return [...times.values()]
      .toSorted((a, b) => b.times - a.times)
      .slice(0, MAX_VALUES)
      .map(({ value }) => value);
  };
}

async function newestEvents(
  events: Pick<EventStore, "events">,
  query: Parameters<EventStore["events"]>[0],
) {
  try {
    return (await events.events(query)).events;
  } catch (error) {
    if (!(error instanceof QueryTooLong)) throw error;
    throw new Refusal("invalid_input", "The search takes too long. Narrow it by event_name.", {
      attr: "key",
    });
  }
}

/** A list counts as each of its items; `null` is no value. */
function partsOf(value: Json | undefined): readonly Json[] {
  const parts = Array.isArray(value) ? (value as readonly Json[]) : [value ?? null];
  return parts.filter((part) => part !== null);
}

function textOf(value: Json): string {
  return typeof value === "string" ? value : encodeJson(value);
}

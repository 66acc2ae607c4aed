import type {
  Measure,
  MeasuredEvent,
  MeasuredProperty,
  MeasureSource,
} from "@hedgerow/core/experiments/metric";
import type { Operator } from "@hedgerow/core/flags/match-property";
import { validateComparison } from "@hedgerow/core/flags/validate-comparison";
import { isJsonObject, type Json, ownValue } from "@hedgerow/core/json";
import { Refusal } from "../http/errors.ts";
import { choiceOf, missing, type Place, refuse } from "./wire-place.ts";

export const MAX_STEPS = 20;
const MAX_FILTERS = 100;

/** The nodes of a query's series, of which there is one at least. */
export function nodesOf(query: Place): readonly [Place, ...Place[]] {
  const series = ownValue(query.object, "series");
  if (series === undefined || series === null) throw missing(query, "series");
  if (!Array.isArray(series)) throw refuse(query, "series", "Expected a list of items.");
  if (series.length > MAX_STEPS)
    throw refuse(query, "series", `A funnel has at most ${MAX_STEPS} steps.`);
  const [first, ...others] = (series as readonly Json[]).map((node, index): Place => {
    if (!isJsonObject(node)) throw refuse(query, `series__${index}`, "Expected an object.");
    return { ...query, object: node, attr: `${query.attr}__series__${index}` };
  });
  if (!first) throw refuse(query, "series", "There must be at least one event.");
  return [first, ...others];
}

const MEASURES = [
  "total",
  "sum",
  "avg",
  "min",
  "max",
  "unique_session",
  "unique_values",
  "dau",
] as const;

/** What a node measures: which events, and what of them. */
export function sourceOf(place: Place): MeasureSource {
  return { events: eventOf(place), measure: measureOf(place) };
}

function measureOf(place: Place): Measure {
  const math = choiceOf(place, "math", MEASURES) ?? "total";
  switch (math) {
    case "total":
      return { kind: "total" };
    case "dau":
      return { kind: "active" };
    case "unique_session":
      return { kind: "unique-sessions" };
    case "sum":
    case "avg":
    case "min":
    case "max":
    case "unique_values": {
      const property = ownValue(place.object, "math_property");
      if (property === undefined || property === null || property === "")
        throw missing(place, "math_property");
      if (typeof property !== "string") throw refuse(place, "math_property", "Not a valid string.");
      return { kind: math === "unique_values" ? "unique-values" : math, property };
    }
  }
}

/**
 * An event node; `null` for its name means every event. An `ActionsNode` brings its `steps`, of which any
 * counts: there are no stored actions to name by an id.
 */
export function eventOf(place: Place, kinds: readonly string[] = ["EventsNode"]): MeasuredEvent {
  const kind = choiceOf(place, "kind", [...kinds, "ActionsNode"]);
  if (kind === undefined) throw missing(place, "kind");
  return kind === "ActionsNode" ? actionOf(place) : namedEventOf(place);
}

function actionOf(place: Place): MeasuredEvent {
  const steps = ownValue(place.object, "steps") ?? null;
  if (steps === null) throw missing(place, "steps");
  if (!Array.isArray(steps)) throw refuse(place, "steps", "Expected a list of items.");
  if (steps.length > MAX_STEPS)
    throw refuse(place, "steps", `An action has at most ${MAX_STEPS} steps.`);
  const [first, ...or] = (steps as readonly Json[]).map((step, index) => {
    const at = `steps__${index}`;
    if (!isJsonObject(step)) throw refuse(place, at, "Expected an object.");
    return namedEventOf({ ...place, object: step, attr: `${place.attr}__${at}` });
  });
  if (first === undefined) throw refuse(place, "steps", "An action needs at least one step.");
  return or.length === 0 ? first : { ...first, or };
}

function namedEventOf(place: Place): MeasuredEvent {
  const event = ownValue(place.object, "event");
  if (event === undefined || event === "") throw missing(place, "event");
  if (event !== null && typeof event !== "string")
    throw refuse(place, "event", "Not a valid string.");
  return { event, filters: filtersOf(place) };
}

function filtersOf(place: Place): readonly MeasuredProperty[] {
  const sent = ownValue(place.object, "properties") ?? [];
  if (!Array.isArray(sent)) throw refuse(place, "properties", "Expected a list of items.");
  const filters = sent as readonly Json[];
  if (filters.length > MAX_FILTERS)
    throw refuse(place, "properties", `More than ${MAX_FILTERS} property filters.`);
  return filters.map((filter, index): MeasuredProperty => {
    const at = `properties__${index}`;
    if (!isJsonObject(filter)) throw refuse(place, at, "Expected an object.");
    const one = { ...place, object: filter, attr: `${place.attr}__${at}` };
    choiceOf(one, "type", ["event"]);
    const key = ownValue(filter, "key");
    if (typeof key !== "string" || key === "") throw missing(one, "key");
    const operator = ownValue(filter, "operator") ?? "exact";
    const value = ownValue(filter, "value");
    const problem = validateComparison(operator, value, place.timeZone);
    if (problem) throw new Refusal("invalid_input", problem.detail, { attr: one.attr });
    return { key, operator: operator as Operator, value };
  });
}

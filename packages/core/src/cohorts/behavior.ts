import { encodeJson } from "../exact-json.ts";
import { isOperator, type Operator } from "../flags/match-property.ts";
import { validateComparison } from "../flags/validate-comparison.ts";
import {
  createTimeZone,
  type DateExpression,
  readDateExpression,
  resolveDate,
} from "../flags/zoned-date.ts";
import { isJsonObject, type Json, type JsonObject, ownValue } from "../json.ts";

/** A condition on what a person did: an event, how often, in which period. */
export interface Behavior {
  readonly event: string;
  /** All must hold of an event for it to count. */
  readonly eventFilters: readonly EventFilter[];
  readonly period: Period;
  /** How often, from 1; `most` is `null` where there is no bound. */
  readonly least: number;
  readonly most: number | null;
  /** True when the person must not have done it before the period. */
  readonly isFirstTime: boolean;
}

/** A condition on a property of an event. */
export interface EventFilter {
  readonly key: string;
  readonly operator: Operator;
  readonly value: Json | undefined;
}

/** When events count: after a moment and before another, where they are given. */
export interface Period {
  readonly from: DateExpression | { readonly kind: "minutes"; readonly count: number } | null;
  readonly to: DateExpression | null;
}

const UNITS = { hour: "h", day: "d", week: "w", month: "m", year: "y" } as const;
const MAX_PERIOD = 9_999;
const MAX_TIMES = 1_000_000_000;
const MAX_EVENT_FILTERS = 50;
const MAX_LIST_VALUES = 1_000;

/**
 * Reads a behavioral leaf of a cohort: `value` names the kind, `key` the event, `event_filters` the
 * conditions on its properties, and either `time_value` and `time_interval` or `explicit_datetime`
 * the period; without either all time counts. A person who never did it is in none of them, whatever the number asked for: "did not"
 * is the leaf's negation.
 * @returns the behavior, or what is wrong with it
 */
export function readBehavior(leaf: JsonObject, timeZone: string): Behavior | string {
  const type = ownValue(leaf, "type");
  if (type !== "behavioral")
    return `conditions of type ${encodeJson(type ?? null)} are not supported`;
  const event = ownValue(leaf, "key");
  const eventType = ownValue(leaf, "event_type") ?? "events";
  if (eventType !== "events") {
    return `event_type must be "events", not ${encodeJson(eventType)}`;
  }
  if (typeof event !== "string" || event === "")
    return "a behavioral condition needs a key: the name of an event";
  const eventFilters = readEventFilters(ownValue(leaf, "event_filters"), timeZone);
  if (typeof eventFilters === "string") return eventFilters;
  const period = readPeriod(leaf, timeZone);
  if (typeof period === "string") return period;
  const kind = ownValue(leaf, "value") ?? "performed_event";
  const base = { event, eventFilters, period, least: 1, most: null, isFirstTime: false };
  switch (kind) {
    case "performed_event":
      return base;
    case "performed_event_first_time":
      return { ...base, isFirstTime: true };
    case "performed_event_multiple": {
      const times = readTimes(leaf);
      return typeof times === "string" ? times : { ...base, ...times };
    }
    default:
      return `behavioral conditions of kind ${encodeJson(kind)} are not supported`;
  }
}

/** The period at an instant, in milliseconds, both ends exclusive. */
export function resolvePeriod(
  { from, to }: Period,
  nowMs: number,
): { readonly afterMs: number | null; readonly beforeMs: number | null } {
  const utc = createTimeZone("UTC");
  const instantOf = (date: DateExpression) => resolveDate(date, nowMs, utc) ?? nowMs;
  const afterMs =
    from === null ? null : from.kind === "minutes" ? nowMs - from.count * 60_000 : instantOf(from);
  return {
    afterMs,
    beforeMs: to === null ? null : instantOf(to),
  };
}

function readEventFilters(
  written: Json | undefined,
  timeZone: string,
): readonly EventFilter[] | string {
  if (written === undefined || written === null) return [];
  if (!Array.isArray(written)) return "event_filters must be a list";
  if (written.length > MAX_EVENT_FILTERS) {
    return `event_filters cannot contain more than ${MAX_EVENT_FILTERS} conditions`;
  }
  const filters: EventFilter[] = [];
  for (const filter of written as readonly Json[]) {
    if (!isJsonObject(filter)) return "every entry of event_filters must be an object";
    const type = ownValue(filter, "type") ?? "event";
    if (type !== "event") return `event_filters of type ${encodeJson(type)} are not supported`;
    const key = ownValue(filter, "key");
    if (typeof key !== "string" || key === "") return "every entry of event_filters needs a key";
    const operator = ownValue(filter, "operator") ?? "exact";
    const value = ownValue(filter, "value");
    if (Array.isArray(value) && value.length > MAX_LIST_VALUES) {
      return `event_filters on ${key} cannot contain more than ${MAX_LIST_VALUES} values`;
    }
    const problem = validateComparison(operator, value, timeZone);
    if (problem !== null) return `event_filters on ${key}: ${problem.detail}`;
    if (!isOperator(operator)) return `event_filters on ${key}: Invalid operator`;
    filters.push({ key, operator, value });
  }
  return filters;
}

function readPeriod(leaf: JsonObject, timeZone: string): Period | string {
  const written = ownValue(leaf, "explicit_datetime") ?? null;
  if (written !== null && written !== "") {
    const from = readDate("explicit_datetime", written, timeZone);
    if (typeof from === "string") return from;
    const end = ownValue(leaf, "explicit_datetime_to") ?? null;
    if (end === null || end === "") return { from, to: null };
    const to = readDate("explicit_datetime_to", end, timeZone);
    return typeof to === "string" ? to : { from, to };
  }
  if ((ownValue(leaf, "time_value") ?? null) === null) return { from: null, to: null };
  const count = readCount(ownValue(leaf, "time_value"));
  if (count === null || count < 1 || count > MAX_PERIOD) {
    return `time_value must be a whole number from 1 to ${MAX_PERIOD}`;
  }
  const interval = ownValue(leaf, "time_interval") ?? "day";
  if (interval === "minute") return { from: { kind: "minutes", count }, to: null };
  if (typeof interval !== "string" || !Object.hasOwn(UNITS, interval)) {
    return "time_interval must be minute, hour, day, week, month or year";
  }
  const unit = UNITS[interval as keyof typeof UNITS];
  return { from: { kind: "relative", count, unit }, to: null };
}

function readDate(name: string, written: Json, timeZone: string): DateExpression | string {
  const date =
    typeof written === "string" ? readDateExpression(written, createTimeZone(timeZone)) : null;
  return date ?? `${name} is no date: ${encodeJson(written).slice(0, 100)}`;
}

function readTimes(leaf: JsonObject): Pick<Behavior, "least" | "most"> | string {
  const operator = ownValue(leaf, "operator") ?? "exact";
  const count = readCount(ownValue(leaf, "operator_value"));
  if (count === null || count < 1 || count > MAX_TIMES) {
    return `operator_value must be a whole number from 1 to ${MAX_TIMES}; negate the condition for persons who never did it`;
  }
  switch (operator) {
    case "gte":
      return { least: count, most: null };
    case "gt":
      return { least: count + 1, most: null };
    case "lte":
      return { least: 1, most: count };
    case "lt":
      return count === 1
        ? "operator lt needs an operator_value of at least 2; negate the condition for persons who never did it"
        : { least: 1, most: count - 1 };
    case "eq":
    case "exact":
      return { least: count, most: count };
    default:
      return `Invalid operator: ${encodeJson(operator)}: it must be gte, gt, lte, lt, eq or exact`;
  }
}

/** A whole number, or text that is one. */
function readCount(value: Json | undefined): number | null {
  if (typeof value === "number" && Number.isSafeInteger(value)) return value;
  if (typeof value === "string" && /^[0-9]{1,15}$/.test(value)) return Number(value);
  return null;
}

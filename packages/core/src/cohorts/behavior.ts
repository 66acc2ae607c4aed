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

/** A condition on what a person did. */
export type Behavior = Doing &
  (
    | {
        /** Did it in the period, from `least` to `most` times; `most` is `null` where there is no bound. */
        readonly kind: "times";
        readonly period: Period;
        readonly least: number;
        readonly most: number | null;
      }
    /** Did it in the period, and never before. */
    | { readonly kind: "first"; readonly period: Period }
    /** Did it in the period and then, no longer than `within` afterwards, did `next`. */
    | {
        readonly kind: "sequence";
        readonly period: Period;
        readonly next: string;
        readonly within: Span;
      }
    /**
     * Did it so often in at least `minPeriods` of the last `totalPeriods` spans, and in one of them
     * at all; `least` is 0 where a span without it counts.
     */
    | {
        readonly kind: "regularly";
        readonly span: Span;
        readonly least: number;
        readonly most: number | null;
        readonly minPeriods: number;
        readonly totalPeriods: number;
      }
    /** Did it since `since`, and not since `recent`. */
    | { readonly kind: "stopped"; readonly since: Span; readonly recent: Span }
    /** Did it before `since`, not from then until `recent`, and again since. */
    | { readonly kind: "restarted"; readonly since: Span; readonly recent: Span }
  );

/** What is done: an event. */
interface Doing {
  readonly event: string;
  /** All must hold of an event for it to count. */
  readonly eventFilters: readonly EventFilter[];
}

/** A condition on a property of an event. */
export interface EventFilter {
  readonly key: string;
  readonly operator: Operator;
  readonly value: Json | undefined;
}

/** When events count: after a moment and before another, where they are given. */
export interface Period {
  readonly from: DateExpression | Span | null;
  readonly to: DateExpression | null;
}

/** A length of time, reaching back from a moment; months and years by the calendar. */
export type Span =
  | { readonly kind: "minutes"; readonly count: number }
  | Extract<DateExpression, { readonly kind: "relative" }>;

const UNITS = { hour: "h", day: "d", week: "w", month: "m", year: "y" } as const;
const MAX_PERIOD = 9_999;
const MAX_TIMES = 1_000_000_000;
const MAX_EVENT_FILTERS = 50;
const MAX_LIST_VALUES = 1_000;
/** Each period is looked up by itself. */
const MAX_PERIODS = 100;

/**
 * Reads a behavioral leaf of a cohort, in PostHog's form: `value` names the kind, `key` the event,
 * `event_filters` the conditions on its properties, and either `time_value` and `time_interval` or
 * `explicit_datetime` the period; without either all time counts. A sequence names what follows as
 * `seq_event`, which no filters apply to; `seq_time_value` and `seq_time_interval` are the second
 * span of sequences and of what stopped or started again. A person who never did it is in none of
 * them, whatever the number asked for: "did not" is the leaf's negation.
 * @returns the behavior, or what is wrong with it
 */
export function readBehavior(leaf: JsonObject, timeZone: string): Behavior | string {
  const type = ownValue(leaf, "type");
  if (type !== "behavioral")
    return `conditions of type ${encodeJson(type ?? null)} are not supported`;
  const event = readEvent(leaf, "key", "event_type");
  if ("problem" in event) return event.problem;
  const eventFilters = readEventFilters(ownValue(leaf, "event_filters"), timeZone);
  if (typeof eventFilters === "string") return eventFilters;
  const doing = { event: event.name, eventFilters };
  const kind = ownValue(leaf, "value") ?? "performed_event";
  switch (kind) {
    case "performed_event":
    case "performed_event_first_time": {
      const period = readPeriod(leaf, timeZone);
      if (typeof period === "string") return period;
      return kind === "performed_event"
        ? { ...doing, kind: "times", period, least: 1, most: null }
        : { ...doing, kind: "first", period };
    }
    case "performed_event_multiple": {
      const period = readPeriod(leaf, timeZone);
      if (typeof period === "string") return period;
      const times = readTimes(leaf);
      return typeof times === "string" ? times : { ...doing, kind: "times", period, ...times };
    }
    case "performed_event_sequence": {
      const period = readPeriod(leaf, timeZone);
      if (typeof period === "string") return period;
      const next = readEvent(leaf, "seq_event", "seq_event_type");
      if ("problem" in next) return next.problem;
      const within = readSpan(leaf, "seq_time_value", "seq_time_interval");
      if (typeof within === "string") return within;
      return { ...doing, kind: "sequence", period, next: next.name, within };
    }
    case "performed_event_regularly":
      return readRegularity(leaf, doing);
    case "stopped_performing_event":
    case "restarted_performing_event": {
      const since = readSpan(leaf, "time_value", "time_interval");
      if (typeof since === "string") return since;
      const recent = readSpan(leaf, "seq_time_value", "seq_time_interval");
      if (typeof recent === "string") return recent;
      if (lengthOf(recent) >= lengthOf(since)) {
        return "seq_time_value and seq_time_interval must be shorter than time_value and time_interval";
      }
      return {
        ...doing,
        kind: kind === "stopped_performing_event" ? "stopped" : "restarted",
        since,
        recent,
      };
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
  return {
    afterMs: from === null ? null : resolveMoment(from, nowMs),
    beforeMs: to === null ? null : resolveMoment(to, nowMs),
  };
}

/** The moment some spans before an instant, in milliseconds. */
export function spanBefore(span: Span, nowMs: number, times = 1): number {
  return times === 0 ? nowMs : resolveMoment({ ...span, count: span.count * times }, nowMs);
}

function resolveMoment(moment: DateExpression | Span, nowMs: number): number {
  if (moment.kind === "minutes") return nowMs - moment.count * 60_000;
  return resolveDate(moment, nowMs, createTimeZone("UTC")) ?? nowMs;
}

/** For telling which of two spans is longer: months have 30 days. */
function lengthOf(span: Span): number {
  if (span.kind === "minutes") return span.count;
  return span.count * { h: 60, d: 1_440, w: 10_080, m: 43_200, y: 525_600 }[span.unit];
}

function readEvent(
  leaf: JsonObject,
  nameKey: "key" | "seq_event",
  typeKey: "event_type" | "seq_event_type",
): { readonly name: string } | { readonly problem: string } {
  const type = ownValue(leaf, typeKey) ?? "events";
  if (type !== "events") return { problem: `${typeKey} must be "events", not ${encodeJson(type)}` };
  const name = ownValue(leaf, nameKey);
  return typeof name === "string" && name !== ""
    ? { name }
    : { problem: `a behavioral condition needs a ${nameKey}: the name of an event` };
}

function readRegularity(leaf: JsonObject, doing: Doing): Behavior | string {
  const span = readSpan(leaf, "time_value", "time_interval");
  if (typeof span === "string") return span;
  const times = readTimes(leaf);
  if (typeof times === "string") return times;
  const totalPeriods = readCount(ownValue(leaf, "total_periods"));
  if (totalPeriods === null || totalPeriods < 1 || totalPeriods > MAX_PERIODS) {
    return `total_periods must be a whole number from 1 to ${MAX_PERIODS}`;
  }
  const minPeriods = readCount(ownValue(leaf, "min_periods"));
  if (minPeriods === null || minPeriods < 1 || minPeriods > totalPeriods) {
    return "min_periods must be a whole number from 1 to total_periods";
  }
  if (span.count * totalPeriods > MAX_PERIOD) {
    return `time_value times total_periods cannot be more than ${MAX_PERIOD}`;
  }
  const operator = ownValue(leaf, "operator");
  const least = operator === "lte" || operator === "lt" ? 0 : times.least;
  return { ...doing, kind: "regularly", span, ...times, least, minPeriods, totalPeriods };
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
  const from = readSpan(leaf, "time_value", "time_interval");
  return typeof from === "string" ? from : { from, to: null };
}

function readSpan(
  leaf: JsonObject,
  countKey: "time_value" | "seq_time_value",
  unitKey: "time_interval" | "seq_time_interval",
): Span | string {
  const count = readCount(ownValue(leaf, countKey));
  if (count === null || count < 1 || count > MAX_PERIOD) {
    return `${countKey} must be a whole number from 1 to ${MAX_PERIOD}`;
  }
  const interval = ownValue(leaf, unitKey) ?? "day";
  if (interval === "minute") return { kind: "minutes", count };
  if (typeof interval !== "string" || !Object.hasOwn(UNITS, interval)) {
    return `${unitKey} must be minute, hour, day, week, month or year`;
  }
  return { kind: "relative", count, unit: UNITS[interval as keyof typeof UNITS] };
}

function readDate(name: string, written: Json, timeZone: string): DateExpression | string {
  const date =
    typeof written === "string" ? readDateExpression(written, createTimeZone(timeZone)) : null;
  return date ?? `${name} is no date: ${encodeJson(written).slice(0, 100)}`;
}

function readTimes(
  leaf: JsonObject,
): { readonly least: number; readonly most: number | null } | string {
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

import type { Operator } from "../flags/match-property.ts";
import type { TimeZone } from "../flags/zoned-date.ts";
import type { Json } from "../json.ts";

/** A condition on one property of an event, by the flags' operators. */
export interface MeasuredProperty {
  readonly key: string;
  readonly operator: Operator;
  readonly value: Json | undefined;
}

/** Events that count: by name (`null` for all) and properties, all of which must match. */
export interface MeasuredEvent {
  readonly event: string | null;
  readonly filters: readonly MeasuredProperty[];
  /** Events that count as well: the other steps of an action. */
  readonly or?: readonly MeasuredEvent[];
}

/** The kinds of events that count, each by one name and its properties. */
export function alternativesOf({ or = [], ...first }: MeasuredEvent): readonly MeasuredEvent[] {
  return [first, ...or.flatMap(alternativesOf)];
}

/** What a unit's events come to. A unit without events has zero. */
export type Measure =
  /** How many. */
  | { readonly kind: "total" }
  /** 1 for a unit that has any. */
  | { readonly kind: "active" }
  /** How many sessions they were in. */
  | { readonly kind: "unique-sessions" }
  /** Over the values of a property that are numbers, or texts of numbers. */
  | { readonly kind: "sum" | "avg" | "min" | "max"; readonly property: string }
  /** How many values of a property there are that differ as texts. */
  | { readonly kind: "unique-values"; readonly property: string };

/** A number per unit. */
export interface MeasureSource {
  readonly events: MeasuredEvent;
  readonly measure: Measure;
}

/** Where outliers are cut, by quantiles of all units of all variants together (statistics 5.10). */
export interface Winsorization {
  readonly lowerPercentile: number | null;
  readonly upperPercentile: number | null;
  /** Zeros do not count for the upper bound. */
  readonly ignoreZeros: boolean;
}

interface AnyMetric {
  readonly goal: "increase" | "decrease";
  /** How long after its exposure a unit's events count; `null` until the experiment's end. */
  readonly conversionWindowMs: number | null;
}

/** The mean of a number per unit. */
export interface MeanMetric extends AnyMetric {
  readonly kind: "mean";
  readonly source: MeasureSource;
  readonly winsorization: Winsorization | null;
}

/** A quantile of a number per unit. */
export interface QuantileMetric extends AnyMetric {
  readonly kind: "quantile";
  readonly source: MeasureSource;
  /** Between 0 and 1. */
  readonly quantile: number;
  /** Whether units whose number is zero are left out. */
  readonly ignoresZeros: boolean;
}

/** Events that end a way through a funnel where they happen between two of its steps. */
export interface FunnelExclusion {
  readonly events: MeasuredEvent;
  /** Steps by number, 0 being the exposure; `from` is before `to`. */
  readonly from: number;
  readonly to: number;
}

/** The share of units that did all steps after their exposure. */
export interface FunnelMetric extends AnyMetric {
  readonly kind: "funnel";
  /** Without the exposure, which comes before them. */
  readonly steps: readonly MeasuredEvent[];
  readonly order: "ordered" | "unordered";
  /** Only of ordered funnels. */
  readonly exclusions?: readonly FunnelExclusion[];
}

/** The sum of one number by the sum of another. */
export interface RatioMetric extends AnyMetric {
  readonly kind: "ratio";
  readonly numerator: MeasureSource;
  readonly denominator: MeasureSource;
}

/** Of the units that started, the share that came back. */
export interface RetentionMetric extends AnyMetric {
  readonly kind: "retention";
  readonly start: MeasuredEvent;
  readonly completion: MeasuredEvent;
  /** Units of time after the start, both inclusive. */
  readonly windowStart: number;
  readonly windowEnd: number;
  readonly unit: TimeUnit;
  readonly startHandling: "first_seen" | "last_seen";
}

/** What an experiment measures (statistics 1.2). */
export type Metric = MeanMetric | QuantileMetric | FunnelMetric | RatioMetric | RetentionMetric;

/** Milliseconds of the units that windows are given in; a month has 30 days (statistics 1.1). */
export const TIME_UNIT_MS = {
  second: 1000,
  minute: 60_000,
  hour: 3_600_000,
  day: 86_400_000,
  week: 7 * 86_400_000,
  month: 30 * 86_400_000,
} as const;

export type TimeUnit = keyof typeof TIME_UNIT_MS;

/**
 * The beginning of the hour or day of the zone's calendar that holds a time, for the units that retention
 * compares by the calendar rather than to the millisecond (statistics 1.2). Days are told by the wall
 * clock, so that each is as long as the other.
 */
export function startOfUnit(unit: TimeUnit, zone: TimeZone): (atMs: number) => number {
  const unitMs = TIME_UNIT_MS[unit];
  const wallStart = (atMs: number) => Math.floor((atMs + zone.offsetMsAt(atMs)) / unitMs) * unitMs;
  if (unit === "day") return wallStart;
  if (unit === "hour") return (atMs) => wallStart(atMs) - zone.offsetMsAt(atMs);
  return (atMs) => atMs;
}

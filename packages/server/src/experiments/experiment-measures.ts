import type { MeasuredEvent, MeasuredProperty, Metric } from "@hedgerow/core/experiments/metric";
import type { TimeZone } from "@hedgerow/core/flags/zoned-date";
import type { ArmSums } from "@hedgerow/core/statistics/arm";
import type { QuantileArm } from "@hedgerow/core/statistics/quantile-metric";
import type { PropertyCondition } from "../events/event-store.ts";

/** The arm of units that got several variants, where these are left out. */
export const MULTIPLE_VARIANTS = "$multiple";

/** A day as the project's calendar has it. */
export interface CalendarDay {
  /** `2026-03-01`. */
  readonly day: string;
  /** Its beginning; it ends where the next one begins. */
  readonly from: Date;
}

/**
 * Who is exposed to an experiment: units that an exposure event with one of its variants tells of. The
 * first one is the unit's exposure, however many follow.
 */
export interface ExposureQuery {
  readonly projectId: number;
  readonly flagKey: string;
  /** Units are groups of this type; persons where `null`, those merged since counted as one. */
  readonly groupTypeIndex: number | null;
  /** Those declared; answers of a holdout count as variants of their own. */
  readonly variants: readonly string[];
  /** Inclusive. */
  readonly from: Date;
  /** Exclusive. */
  readonly to: Date;
  /** The zone of the calendar that retention goes by. */
  readonly zone: TimeZone;
  /** The days from `from` to `to`, in order; what is before the first counts for it. */
  readonly days: readonly CalendarDay[];
  /**
   * The event that exposes: the flag's calls where `null`, otherwise events that carry the variant in
   * `$feature/<key>`.
   */
  readonly marker: MeasuredEvent | null;
  /** What becomes of units with several variants: their own arm, or that of the first. */
  readonly severalVariants: "exclude" | "first-seen";
  /** What events must match to count at all, exposures included. */
  readonly everyEvent: readonly MeasuredProperty[];
  /** Persons, by uuid, whose events do not count. */
  readonly exceptPersons: readonly string[];
  /** Compiles filters of events, all of which must match; called once for each use. */
  readonly conditionOf: (filters: readonly MeasuredProperty[]) => PropertyCondition;
}

/** Units whose exposure was on one day. */
export interface ExposureCount {
  /** A declared variant, one of a holdout, or {@link MULTIPLE_VARIANTS}. */
  readonly variant: string;
  readonly day: string;
  readonly units: number;
}

/** What is wanted of every metric beside its sums. */
export interface MeasureOptions {
  /**
   * Covariates for means and ratios: the same metric over this time before each unit's exposure; `null`
   * for none.
   */
  readonly lookbackMs: number | null;
  /** A property of exposures: sums are told for each of its values too. */
  readonly breakdown: string | null;
  /** Whether sums are told for the end of each day too. */
  readonly byDay: boolean;
  /** Of the intervals of quantiles, for instance 0.95. */
  readonly level: number;
}

/** A metric's sums over the units of one variant. */
export interface ArmMeasure {
  readonly variant: string;
  /** Of a funnel, without squares; of retention, over the units that started. */
  readonly sums: ArmSums;
  /** Of a funnel: units that did at least so many steps, for each step; `null` for other metrics. */
  readonly stepCounts: readonly number[] | null;
  /** Of a quantile, where there are values. */
  readonly quantile?: QuantileArm;
}

/** The units with one value of the breakdown. */
export interface BreakdownCell {
  /** The property's value at the unit's first exposure as text; `null` where it is absent. */
  readonly value: string | null;
  /** Whether the cell holds all values but the most frequent. */
  readonly isRest: boolean;
  readonly arms: readonly ArmMeasure[];
}

/** What a metric came to by the end of a day: units exposed by then, and events until then. */
export interface DayMeasure {
  readonly day: string;
  readonly arms: readonly ArmMeasure[];
}

/** What a metric measured. */
export interface Measured {
  /** The declared variants in order, with zeros for those without units. */
  readonly arms: readonly ArmMeasure[];
  /** By units, largest first; empty without a breakdown, and for quantiles. */
  readonly cells: readonly BreakdownCell[];
  /** Empty unless asked for, and for quantiles. */
  readonly days: readonly DayMeasure[];
  /** Where values were cut; `null` without winsorization or units. */
  readonly bounds: { readonly lower: number | null; readonly upper: number | null } | null;
  /** Events with a value of the measured property that is no finite number: none of them counts. */
  readonly notNumbers: number;
  /** Events whose value was a text of a number, which counts. */
  readonly textNumbers: number;
}

/** Cells of a breakdown beside the rest. */
export const MAX_CELLS = 25;

/**
 * What stored events say of an experiment. Both reject with `QueryTooLong` when it takes too long; one
 * is answered at a time.
 */
export interface ExperimentMeasures {
  /** By day, then by variant; those without units are left out. */
  exposures(query: ExposureQuery): Promise<readonly ExposureCount[]>;

  /**
   * Measures metrics together, each as if it were alone: exposures are found once. Of a unit count
   * events at or after its exposure, before the end of the query and within the metric's conversion
   * window.
   */
  measure(
    query: ExposureQuery,
    metrics: readonly Metric[],
    options: MeasureOptions,
  ): Promise<readonly Measured[]>;

  /** Changes with every change of what is stored. */
  dataVersion(): Promise<string>;
}

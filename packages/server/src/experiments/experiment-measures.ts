import type { MeasuredEvent, MeasuredProperty, Metric } from "@hedgerow/core/experiments/metric";
import type { ArmSums } from "@hedgerow/core/statistics/arm";
import type { PropertyCondition } from "../events/event-store.ts";

/** The arm of units that got several variants, where these are left out. */
export const MULTIPLE_VARIANTS = "$multiple";
/** Answers of a flag that begin so put a unit into a holdout. */
export const HOLDOUT_PREFIX = "holdout-";

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
  /**
   * The event that exposes: the flag's calls where `null`, otherwise events that carry the variant in
   * `$feature/<key>`.
   */
  readonly marker: MeasuredEvent | null;
  /** What becomes of units with several variants: their own arm, or that of the first. */
  readonly severalVariants: "exclude" | "first-seen";
  /** Compiles filters of events, all of which must match; called once for each use. */
  readonly conditionOf: (filters: readonly MeasuredProperty[]) => PropertyCondition;
}

/** Units whose exposure was on one day. */
export interface ExposureCount {
  /** A declared variant, one of a holdout, or {@link MULTIPLE_VARIANTS}. */
  readonly variant: string;
  /** UTC, `2026-03-01`. */
  readonly day: string;
  readonly units: number;
}

/** A metric's sums over the units of one variant. */
export interface ArmMeasure {
  readonly variant: string;
  /** Of a funnel, without squares; of retention, over the units that started. */
  readonly sums: ArmSums;
  /** Of a funnel: units that did at least so many steps, for each step; `null` for other metrics. */
  readonly stepCounts: readonly number[] | null;
}

/**
 * What stored events say of an experiment. Both reject with `QueryTooLong` when it takes too long; one
 * is answered at a time.
 */
export interface ExperimentMeasures {
  /** By day, then by variant; those without units are left out. */
  exposures(query: ExposureQuery): Promise<readonly ExposureCount[]>;

  /**
   * The declared variants in order, with zeros for those without units. Of a unit count events at or
   * after its exposure, before the end of the query and within the metric's conversion window.
   */
  measure(query: ExposureQuery, metric: Metric): Promise<readonly ArmMeasure[]>;
}

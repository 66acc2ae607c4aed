import type { Metric } from "@hedgerow/core/experiments/metric";
import {
  type LegacyResult,
  legacyFunnelResult,
  legacyTrendResult,
} from "@hedgerow/core/statistics/legacy-results";
import type { ArmMeasure } from "./experiment-measures.ts";
import { CONTROL } from "./flag-of-experiment.ts";

/** A result as PostHog answered it before, computed exactly (statistics 2). */
export interface ClassicResult {
  readonly kind: "trends" | "funnels";
  /** Those with units, the control first. */
  readonly arms: readonly ArmMeasure[];
  readonly result: LegacyResult;
}

/** What is missing for a result. */
export interface MissingData {
  readonly events: boolean;
  readonly exposures: boolean;
  readonly control: boolean;
  readonly treatments: boolean;
}

/** Of an experiment that nobody was exposed to. */
export const NO_DATA: MissingData = {
  events: true,
  exposures: true,
  control: true,
  treatments: true,
};

/** What arms lack for any result; `null` when there is one. */
export function missingData(arms: readonly ArmMeasure[]): MissingData | null {
  const isFilled = ({ sums }: ArmMeasure) => sums.n > 0;
  const control = arms.find(({ variant }) => variant === CONTROL);
  const missing = {
    events: arms.every(({ sums }) => sums.sum === 0),
    exposures: !arms.some(isFilled),
    control: control === undefined || !isFilled(control),
    treatments: !arms.some((arm) => arm !== control && isFilled(arm)),
  };
  return missing.control || missing.treatments ? missing : null;
}

/**
 * The former result of arms with data; `null` for metrics that had none: ratios, retention, and what is
 * not a number of events. Variants without units are left out.
 */
export function classicResultOf(arms: readonly ArmMeasure[], metric: Metric): ClassicResult | null {
  const control = arms.find(({ variant }) => variant === CONTROL);
  const filled = [control, ...arms.filter((arm) => arm !== control)].filter(
    (arm) => arm !== undefined && arm.sums.n > 0,
  ) as readonly ArmMeasure[];
  if (metric.kind === "funnel") {
    const outcomes = filled.map(({ sums: { n, sum } }) => ({ successes: sum, failures: n - sum }));
    return { kind: "funnels", arms: filled, result: legacyFunnelResult(outcomes) };
  }
  if (metric.kind !== "mean" || "property" in metric.source.measure) return null;
  const counts = filled.map(({ sums: { n, sum } }) => ({ count: sum, exposure: n }));
  return { kind: "trends", arms: filled, result: legacyTrendResult(counts) };
}

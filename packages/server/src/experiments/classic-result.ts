import type { Metric } from "@hedgerow/core/experiments/metric";
import {
  type LegacyResult,
  legacyFunnelResult,
  legacyFunnelResultV2,
  legacyTrendResult,
  legacyTrendResultV2,
} from "@hedgerow/core/statistics/legacy-results";
import type { ArmMeasure } from "./experiment-measures.ts";
import { CONTROL } from "./flag-of-experiment.ts";

/** A result as PostHog answered it before, computed exactly (statistics 2). */
export interface ClassicResult {
  readonly kind: "trends" | "funnels";
  /** Those with units, the control first. */
  readonly arms: readonly ArmMeasure[];
  readonly result: LegacyResult;
  readonly version: ClassicVersion;
}

/** The former engine's version, of which the second has other priors and rules (statistics 2.3). */
export type ClassicVersion = 1 | 2;

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
 * not a number of events, or is more than can be counted. Variants without units are left out.
 * @param takesSums whether a sum counts as that many events, as the first version took it
 */
export function classicResultOf(
  arms: readonly ArmMeasure[],
  metric: Metric,
  { version = 1, takesSums = false }: { version?: ClassicVersion; takesSums?: boolean } = {},
): ClassicResult | null {
  const control = arms.find(({ variant }) => variant === CONTROL);
  const filled = [control, ...arms.filter((arm) => arm !== control)].filter(
    (arm) => arm !== undefined && arm.sums.n > 0,
  ) as readonly ArmMeasure[];
  if (metric.kind === "funnel") {
    const outcomes = filled.map(({ sums: { n, sum } }) => ({ successes: sum, failures: n - sum }));
    const result = version === 1 ? legacyFunnelResult(outcomes) : legacyFunnelResultV2(outcomes);
    return { kind: "funnels", arms: filled, result, version };
  }
  if (metric.kind !== "mean") return null;
  const { measure } = metric.source;
  const isSum = takesSums && measure.kind === "sum" && filled.every(({ sums }) => sums.sum >= 0);
  if ("property" in measure && !isSum) return null;
  if (filled.some(({ sums }) => !(sums.sum <= Number.MAX_SAFE_INTEGER))) return null;
  const counts = filled.map(({ sums: { n, sum } }) => ({ count: sum, exposure: n }));
  // The second version took logarithms of sums; the first one's way is the exact one there is.
  if (version === 1 || isSum)
    return { kind: "trends", arms: filled, result: legacyTrendResult(counts), version: 1 };
  return { kind: "trends", arms: filled, result: legacyTrendResultV2(counts), version };
}

import type { Estimate } from "./arm.ts";
import { type Effect, gapBetween, varianceOfMean, welchDegrees } from "./difference.ts";

/**
 * The relative difference with the usual delta-method error (statistics 1.4), whose error contains the
 * treatment's own value. What PostHog's clients are answered; {@link fiellerLift} is the fair one.
 */
export function deltaLift(control: Estimate, treatment: Estimate): Effect {
  const base = Math.abs(control.mean);
  const ratio = treatment.mean / control.mean;
  return {
    estimate: gapBetween(control, treatment) / base,
    standardError:
      Math.sqrt(varianceOfMean(treatment) + ratio * ratio * varianceOfMean(control)) / base,
    degrees: welchDegrees(control, treatment),
  };
}

/** ln(treatment / control) and its standard error; both values must be positive. */
export function logRatio(control: Estimate, treatment: Estimate): Effect {
  return {
    estimate: Math.log1p(gapBetween(control, treatment) / control.mean),
    standardError: Math.sqrt(
      varianceOfMean(treatment) / (treatment.mean * treatment.mean) +
        varianceOfMean(control) / (control.mean * control.mean),
    ),
    degrees: welchDegrees(control, treatment),
  };
}

/** The lifts that the data allow. */
export type LiftSet =
  | { readonly kind: "bounded"; readonly lower: number; readonly upper: number }
  /** Every lift but those between: the control is not told from zero. */
  | { readonly kind: "exclusive"; readonly excludedLower: number; readonly excludedUpper: number }
  | { readonly kind: "unbounded" };

/** A difference and the baseline it is divided by, with their variances and covariance. */
export interface RatioParts {
  readonly difference: number;
  readonly baseline: number;
  readonly differenceVariance: number;
  readonly baselineVariance: number;
  readonly covariance: number;
}

/** The parts of the lift of two arms: difference and baseline share the control's mean. */
export function liftParts(control: Estimate, treatment: Estimate): RatioParts {
  const controlVariance = varianceOfMean(control);
  return {
    difference: gapBetween(control, treatment),
    baseline: control.mean,
    differenceVariance: varianceOfMean(treatment) + controlVariance,
    baselineVariance: controlVariance,
    covariance: -controlVariance,
  };
}

/**
 * Fieller's set of lifts: all rho for which (N - rho D)^2 <= q^2 Var(N - rho D), with q the quantile of
 * the test of the difference (statistics 5.3). It leaves out 0 exactly when that test is significant.
 * The lift is measured by the absolute value of the baseline, which must not be zero.
 */
export function fiellerLift(parts: RatioParts, critical: number): LiftSet {
  const { difference: n, baseline: d, covariance } = parts;
  const square = critical * critical;
  const a = d * d - square * parts.baselineVariance;
  const b = n * d - square * covariance;
  const k = n * n - square * parts.differenceVariance;
  const discriminant = b * b - a * k;
  if (a === 0 || (a < 0 && discriminant <= 0)) return { kind: "unbounded" };
  // The root without cancellation first, the other from the product of both.
  const root = Math.sqrt(Math.max(0, discriminant));
  const q = b >= 0 ? b + root : b - root;
  const roots = q === 0 ? [0, 0] : [q / a, k / q];
  const signed = d < 0 ? roots.map((value) => -value) : roots;
  const lower = Math.min(...signed);
  const upper = Math.max(...signed);
  return a > 0
    ? { kind: "bounded", lower, upper }
    : { kind: "exclusive", excludedLower: lower, excludedUpper: upper };
}

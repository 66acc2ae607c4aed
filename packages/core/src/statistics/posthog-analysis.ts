import { type ArmSums, type Estimate, estimateOf, type Moments, momentsOf } from "./arm.ts";
import { differenceOf, type Effect, type Interval, testByStudent } from "./difference.ts";
import { deltaLift } from "./lift.ts";
import { believe } from "./posterior.ts";
import { confidenceSequence } from "./sequential.ts";

/** Kinds of metrics; what counts as a conversion is validated by its number. */
export type MetricKind = "mean" | "funnel" | "ratio" | "retention";

/** How PostHog's numbers are asked for (statistics 1.8). */
export interface PosthogMethod {
  readonly method: "bayesian" | "frequentist";
  /** 1 - alpha, or the level of the credible interval. */
  readonly level: number;
  readonly difference: "relative" | "absolute";
  /** The tuning of a test that may be looked at at any time; frequentist only. */
  readonly sequentialTuning?: number;
}

/** Why a variant has no statistics, in PostHog's words. */
export type ValidationFailure =
  | "not-enough-exposures"
  | "not-enough-metric-data"
  | "baseline-mean-is-zero";

/** PostHog's numbers of one treatment. */
export interface PosthogNumbers {
  /** P(effect > 0), or the p-value. */
  readonly probability: number;
  readonly interval: Interval;
  readonly significant: boolean;
}

const MIN_EXPOSURES = 50;
const MIN_CONVERSIONS = 5;

/** What of a variant PostHog's validation finds wanting, in its order (statistics 1.7). */
export function validateVariant(
  sums: ArmSums,
  kind: MetricKind,
  isBaseline: boolean,
): ValidationFailure[] {
  const failures: ValidationFailure[] = [];
  if (sums.n < MIN_EXPOSURES) failures.push("not-enough-exposures");
  if ((kind === "funnel" || kind === "retention") && sums.sum < MIN_CONVERSIONS)
    failures.push("not-enough-metric-data");
  if (isBaseline && sums.sum === 0) failures.push("baseline-mean-is-zero");
  return failures;
}

/**
 * The numbers that PostHog computes for a treatment that passed validation, as its clients know them: the
 * delta-method lift, a flat prior, significance at either end (statistics 1.4, 1.5). `null` where
 * PostHog raises: a relative effect of a control that is not positive, a conversion rate without five
 * of each outcome, arms that do not vary.
 */
export function posthogNumbers(
  control: ArmSums,
  treatment: ArmSums,
  kind: MetricKind,
  method: PosthogMethod,
): PosthogNumbers | null {
  const c = momentsOf(asConversions(control, kind));
  const t = momentsOf(asConversions(treatment, kind));
  if (typeof c === "string" || typeof t === "string") return null;
  return numbersOfEffect(effectOf(c, t, method), c.n + t.n, method);
}

/** PostHog's numbers of an effect on so many units; `null` where there is none, or it does not vary. */
export function numbersOfEffect(
  effect: Effect | null,
  units: number,
  method: PosthogMethod,
): PosthogNumbers | null {
  if (effect === null || !(effect.standardError > 0)) return null;
  const alpha = 1 - method.level;
  if (method.method === "bayesian") {
    const belief = { mean: effect.estimate, sd: effect.standardError };
    const { chanceToWin, interval } = believe(belief, method.level);
    const significant = chanceToWin > method.level || chanceToWin < alpha;
    return { probability: chanceToWin, interval, significant };
  }
  const { pValue, interval } =
    method.sequentialTuning === undefined
      ? testByStudent(effect, alpha)
      : confidenceSequence(
          effect.estimate,
          effect.standardError,
          units,
          alpha,
          method.sequentialTuning,
        );
  return { probability: pValue, interval, significant: pValue < alpha };
}

/** A funnel's conversions are values 0 and 1, whose squares say nothing new. */
function asConversions(sums: ArmSums, kind: MetricKind): ArmSums {
  return kind === "funnel" ? { n: sums.n, sum: sums.sum } : sums;
}

function effectOf(c: Moments, t: Moments, method: PosthogMethod): Effect | null {
  const control = estimateOf(c);
  const treatment = estimateOf(t);
  if (method.method === "bayesian" && !(hasBothOutcomes(c) && hasBothOutcomes(t))) return null;
  if (method.difference === "absolute") return differenceOf(control, treatment);
  return isPositive(control) ? deltaLift(control, treatment) : null;
}

function hasBothOutcomes({ isProportion, n, means }: Moments): boolean {
  if (!isProportion) return true;
  const conversions = Math.round((means[0] ?? 0) * n);
  return conversions >= MIN_CONVERSIONS && n - conversions >= MIN_CONVERSIONS;
}

function isPositive({ mean }: Estimate): boolean {
  return mean > 0;
}

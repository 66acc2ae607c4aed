import { type ArmSums, estimateOf, type Moments, momentsOf } from "./arm.ts";
import {
  type AdjustedArm,
  adjustArms,
  adjustedLiftParts,
  type CovariateForm,
  withinArmSlopes,
} from "./covariates.ts";
import {
  differenceOf,
  type Effect,
  type Interval,
  testByStudent,
  testOneSided,
  varianceOfMean,
} from "./difference.ts";
import { compareBinomials, differenceInterval, liftInterval } from "./exact-posterior.ts";
import { fiellerLift, type LiftSet, logRatio } from "./lift.ts";
import { believe, believeLift, type Prior, updateBelief } from "./posterior.ts";
import { confidenceSequence } from "./sequential.ts";

/** How arms are to be compared. */
export interface ComparisonSpec {
  /** Of intervals, for instance 0.95; a test is at 1 - level. */
  readonly level: number;
  readonly goal: "increase" | "decrease";
  /** On ln(treatment / control); `null` is flat. */
  readonly prior: Prior | null;
  /** The sample that the always-valid interval is tuned to. */
  readonly sequentialTuning: number;
  /** Whether and how covariates correct the arms. */
  readonly covariates: CovariateForm | null;
  /** The share of the control's value that a guardrail may lose; `null` for none. */
  readonly margin: number | null;
}

/** Why an effect has no statistics, or that it has them. */
export type EffectStatus =
  | "ok"
  | "not-enough-data"
  | "zero-variance"
  | "zero-baseline"
  | "invalid-input";

/** One arm as it was measured. */
export interface SampleSummary {
  readonly n: number;
  readonly mean: number;
  readonly variance: number;
  /** With covariates: the mean at the covariates' common value, and the share of variance taken away. */
  readonly adjustedMean?: number;
  readonly varianceReduction?: number;
}

/** A treatment against the control, in the numbers that our own screens show (statistics 4.2). */
export interface ArmComparison {
  readonly status: EffectStatus;
  readonly control: SampleSummary | null;
  readonly treatment: SampleSummary | null;
  /** The difference of the values, with the only p-value there is. */
  readonly absolute: {
    readonly estimate: number;
    readonly standardError: number;
    readonly degrees: number;
    readonly interval: Interval;
    /** `null` below five of either outcome, where the normal law does not hold yet. */
    readonly pValue: number | null;
  } | null;
  /** The lift by the control's value; `null` where that is zero. */
  readonly relative: { readonly estimate: number; readonly set: LiftSet } | null;
  readonly bayes: {
    readonly chanceToWin: number;
    readonly chanceToLose: number;
    /** Of the lift where both values are positive, of the difference otherwise. */
    readonly interval: Interval;
    readonly isLift: boolean;
    readonly isExact: boolean;
    readonly lossIfShipped: number;
    readonly lossIfKept: number;
  } | null;
  /** Holds at every look. */
  readonly sequential: {
    readonly interval: Interval;
    readonly pValue: number;
    readonly logEValue: number;
  } | null;
  /** That the treatment keeps at least `1 - margin` of the control's value, one-sided. */
  readonly nonInferiority: { readonly pValue: number } | null;
}

/** Fewer of either outcome than this, and there is no p-value (statistics 5.2). */
export const MIN_OUTCOMES = 5;

/** From this many of either outcome in every arm the normal approximation takes over (statistics 5.5). */
const LARGE_OUTCOMES = 1000;

const NOTHING = {
  absolute: null,
  relative: null,
  bayes: null,
  sequential: null,
  nonInferiority: null,
} as const;

/**
 * Compares each treatment with the control. Covariates correct all arms by one set of slopes, so that the
 * control's row is the same beside every treatment. A status other than `ok` says why a part is missing;
 * nothing is invented in its place.
 */
export function compareArms(
  control: ArmSums,
  treatments: readonly ArmSums[],
  spec: ComparisonSpec,
): readonly ArmComparison[] {
  const arms = [control, ...treatments].map(momentsOf);
  const known = arms.filter((arm) => typeof arm !== "string");
  const adjusted = new Map<Moments, AdjustedArm>();
  if (spec.covariates !== null) {
    const slopes = withinArmSlopes(known, spec.covariates);
    adjustArms(known, slopes, spec.covariates).forEach((arm, index) => {
      const moments = known[index];
      if (moments !== undefined) adjusted.set(moments, arm);
    });
  }
  const [first, ...others] = arms;
  return others.map((other): ArmComparison => {
    if (first === undefined || typeof first === "string" || typeof other === "string") {
      const problems = [first, other].filter((arm) => typeof arm === "string");
      return {
        status: problems.includes("invalid-input") ? "invalid-input" : "not-enough-data",
        control: summarize(first, adjusted),
        treatment: summarize(other, adjusted),
        ...NOTHING,
      };
    }
    const result = compareTwo(first, other, adjusted, spec);
    // Sums beyond what doubles can carry through, for instance of values around 1e-300.
    return isFiniteThroughout(result)
      ? result
      : { status: "invalid-input", control: null, treatment: null, ...NOTHING };
  });
}

function isFiniteThroughout(value: unknown): boolean {
  if (typeof value === "number") return Number.isFinite(value);
  return (
    typeof value !== "object" || value === null || Object.values(value).every(isFiniteThroughout)
  );
}

function compareTwo(
  c: Moments,
  t: Moments,
  adjusted: ReadonlyMap<Moments, AdjustedArm>,
  spec: ComparisonSpec,
): ArmComparison {
  const control = adjusted.get(c) ?? unadjusted(c);
  const treatment = adjusted.get(t) ?? unadjusted(t);
  const samples = { control: summarize(c, adjusted), treatment: summarize(t, adjusted) };
  const difference = differenceOf(control.adjusted, treatment.adjusted);
  if (!(difference.standardError > 0)) return { status: "zero-variance", ...samples, ...NOTHING };
  const alpha = 1 - spec.level;
  const test = testByStudent(difference, alpha);
  const base = control.unadjusted.mean;
  const sequence = confidenceSequence(
    difference.estimate,
    difference.standardError,
    c.n + t.n,
    alpha,
    spec.sequentialTuning,
  );
  const hasOutcomes = Math.min(fewestOutcomes(c), fewestOutcomes(t)) >= MIN_OUTCOMES;
  return {
    status: base === 0 ? "zero-baseline" : hasOutcomes ? "ok" : "not-enough-data",
    ...samples,
    absolute: {
      estimate: difference.estimate,
      standardError: difference.standardError,
      degrees: difference.degrees,
      interval: test.interval,
      pValue: hasOutcomes ? test.pValue : null,
    },
    relative:
      base === 0
        ? null
        : {
            estimate: difference.estimate / Math.abs(base),
            set: fiellerLift(adjustedLiftParts(control, treatment), test.critical),
          },
    bayes: beliefsOf(c, t, control, treatment, difference, spec),
    sequential: hasOutcomes
      ? { interval: sequence.interval, pValue: sequence.pValue, logEValue: sequence.logEValue }
      : null,
    nonInferiority:
      spec.margin === null || !hasOutcomes
        ? null
        : keepsEnough(control, treatment, spec.margin, spec),
  };
}

/** Beliefs of the difference or lift: exact for small conversion rates without covariates or a prior. */
function beliefsOf(
  c: Moments,
  t: Moments,
  control: AdjustedArm,
  treatment: AdjustedArm,
  difference: Effect,
  spec: ComparisonSpec,
): ArmComparison["bayes"] {
  if (
    c.isProportion &&
    t.isProportion &&
    spec.covariates === null &&
    spec.prior === null &&
    Math.min(fewestOutcomes(c), fewestOutcomes(t)) < LARGE_OUTCOMES
  ) {
    const exact = compareBinomials(outcomesOf(c), outcomesOf(t));
    const isLift = (c.means[0] ?? 0) > 0 && (t.means[0] ?? 0) > 0;
    const scale = isLift ? exact.control.mean : 1;
    return {
      chanceToWin: exact.chanceToWin,
      chanceToLose: exact.chanceToLose,
      interval: isLift
        ? liftInterval(exact.control, exact.treatment, spec.level)
        : differenceInterval(exact.control, exact.treatment, spec.level),
      isLift,
      isExact: true,
      lossIfShipped: exact.lossIfShipped / scale,
      lossIfKept: exact.lossIfKept / scale,
    };
  }
  if (control.adjusted.mean > 0 && treatment.adjusted.mean > 0) {
    const log = logRatio(control.adjusted, treatment.adjusted);
    const belief = updateBelief(log.estimate, log.standardError ** 2, spec.prior);
    const beliefs = believeLift(belief, spec.level);
    // Without a prior the chance is that of the difference, however the lift is expressed.
    const chances =
      spec.prior === null
        ? believe({ mean: difference.estimate, sd: difference.standardError }, spec.level)
        : beliefs;
    return {
      chanceToWin: chances.chanceToWin,
      chanceToLose: chances.chanceToLose,
      interval: beliefs.interval,
      isLift: true,
      isExact: false,
      lossIfShipped: beliefs.lossIfShipped,
      lossIfKept: beliefs.lossIfKept,
    };
  }
  const beliefs = believe({ mean: difference.estimate, sd: difference.standardError }, spec.level);
  return {
    chanceToWin: beliefs.chanceToWin,
    chanceToLose: beliefs.chanceToLose,
    interval: beliefs.interval,
    isLift: false,
    isExact: false,
    lossIfShipped: beliefs.lossIfShipped,
    lossIfKept: beliefs.lossIfKept,
  };
}

/** One-sided, in the direction of the goal, with the margin measured by the control's own value. */
function keepsEnough(
  control: AdjustedArm,
  treatment: AdjustedArm,
  margin: number,
  { goal, level }: ComparisonSpec,
): { pValue: number } {
  const kept = goal === "increase" ? 1 - margin : 1 + margin;
  const covariance = control.covariance / control.n;
  const gap =
    treatment.adjusted.mean - control.adjusted.mean + (1 - kept) * control.unadjusted.mean;
  const variance =
    varianceOfMean(treatment.adjusted) +
    varianceOfMean(control.adjusted) -
    2 * (1 - kept) * covariance +
    (1 - kept) ** 2 * varianceOfMean(control.unadjusted);
  const effect = {
    estimate: gap,
    standardError: Math.sqrt(Math.max(0, variance)),
    degrees: differenceOf(control.adjusted, treatment.adjusted).degrees,
  };
  const test = testOneSided(effect, 0, 1 - level);
  return { pValue: goal === "increase" ? test.pGreater : test.pLess };
}

function unadjusted(moments: Moments): AdjustedArm {
  const estimate = estimateOf(moments);
  return {
    n: moments.n,
    unadjusted: estimate,
    adjusted: estimate,
    covariance: estimate.variance,
    varianceReduction: 0,
  };
}

function summarize(
  arm: Moments | string | undefined,
  adjusted: ReadonlyMap<Moments, AdjustedArm>,
): SampleSummary | null {
  if (arm === undefined || typeof arm === "string") return null;
  const { n, mean, variance } = estimateOf(arm);
  const corrected = adjusted.get(arm);
  return {
    n,
    mean,
    variance,
    ...(corrected !== undefined && {
      adjustedMean: corrected.adjusted.mean,
      varianceReduction: corrected.varianceReduction,
    }),
  };
}

/** How many of the rarer outcome a conversion rate has; without limit for other values. */
function fewestOutcomes(moments: Moments): number {
  if (!moments.isProportion) return Number.POSITIVE_INFINITY;
  const { successes, failures } = outcomesOf(moments);
  return Math.min(successes, failures);
}

function outcomesOf({ n, means }: Moments): { successes: number; failures: number } {
  const successes = Math.round((means[0] ?? 0) * n);
  return { successes, failures: n - successes };
}

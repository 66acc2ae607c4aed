import type { ArmComparison } from "../statistics/compare-arms.ts";
import { differenceOf, testByStudent } from "../statistics/difference.ts";
import { fiellerLift, liftParts, logRatio } from "../statistics/lift.ts";
import { believe, believeLift } from "../statistics/posterior.ts";
import { hasQuantile, type QuantileArm, quantileEstimate } from "../statistics/quantile-metric.ts";
import { confidenceSequence } from "../statistics/sequential.ts";

const NOTHING = {
  control: null,
  treatment: null,
  absolute: null,
  relative: null,
  bayes: null,
  sequential: null,
  nonInferiority: null,
} as const;

/**
 * Compares a quantile of two arms (statistics 5.9) by the rules of 5.2 to 5.4 and 5.6; `undefined` stands
 * for an arm without values. Bounds that are no order statistics of their own are too few values; bounds
 * that are alike in both arms leave no variance to compare by.
 */
export function compareQuantiles(
  control: QuantileArm | undefined,
  treatment: QuantileArm | undefined,
  { level, sequentialTuning }: { readonly level: number; readonly sequentialTuning: number },
): ArmComparison {
  const alpha = 1 - level;
  const isEnough = (arm: QuantileArm | undefined): arm is QuantileArm =>
    arm !== undefined && arm.n >= 2 && hasQuantile(arm.n, arm.nu, alpha);
  if (!isEnough(control) || !isEnough(treatment)) return { status: "not-enough-data", ...NOTHING };
  const c = quantileEstimate(control, alpha);
  const t = quantileEstimate(treatment, alpha);
  const samples = { control: summarize(c), treatment: summarize(t) };
  const difference = differenceOf(c, t);
  if (!(difference.standardError > 0)) return { status: "zero-variance", ...NOTHING, ...samples };
  if (!Number.isFinite(difference.standardError)) return { status: "invalid-input", ...NOTHING };
  const test = testByStudent(difference, alpha);
  const sequence = confidenceSequence(
    difference.estimate,
    difference.standardError,
    c.n + t.n,
    alpha,
    sequentialTuning,
  );
  const isLift = c.mean > 0 && t.mean > 0 && c.variance > 0;
  const ratio = isLift ? logRatio(c, t) : difference;
  const belief = { mean: ratio.estimate, sd: ratio.standardError };
  const beliefs = isLift ? believeLift(belief, level) : believe(belief, level);
  const chances = believe({ mean: difference.estimate, sd: difference.standardError }, level);
  return {
    status: c.mean === 0 ? "zero-baseline" : "ok",
    ...samples,
    absolute: {
      estimate: difference.estimate,
      standardError: difference.standardError,
      degrees: difference.degrees,
      interval: test.interval,
      pValue: test.pValue,
    },
    relative:
      c.mean === 0
        ? null
        : {
            estimate: difference.estimate / Math.abs(c.mean),
            set: fiellerLift(liftParts(c, t), test.critical),
          },
    bayes: {
      chanceToWin: chances.chanceToWin,
      chanceToLose: chances.chanceToLose,
      interval: beliefs.interval,
      isLift,
      isExact: false,
      lossIfShipped: beliefs.lossIfShipped,
      lossIfKept: beliefs.lossIfKept,
    },
    sequential: {
      interval: sequence.interval,
      pValue: sequence.pValue,
      logEValue: sequence.logEValue,
    },
    nonInferiority: null,
  };
}

function summarize({ n, mean, variance }: { n: number; mean: number; variance: number }) {
  return { n, mean, variance };
}

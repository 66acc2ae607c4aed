import { normalQuantile } from "./normal-distribution.ts";
import { powerOf } from "./power.ts";
import { solveIncreasing } from "./quadrature.ts";
import { sequentialQuantile } from "./sequential.ts";

/** What an experiment is to find, and how it is tested (statistics 5.13). */
export interface ExperimentPlan {
  /** A rate's variance follows from the rate; of the others it is given. */
  readonly kind: "mean" | "proportion" | "ratio";
  /** The control's value: a mean, a rate as a fraction, or a ratio. */
  readonly baseline: number;
  /** Per unit, of a mean or ratio: of a ratio by the delta method. */
  readonly variance: number | null;
  /** Shares of the arms in any unit, the control's first. */
  readonly shares: readonly number[];
  /** Of one test, after any correction for their number. */
  readonly alpha: number;
  readonly power: number;
  readonly sides: 1 | 2;
  /** Where it may be looked at at any time: the sample that its interval is tuned to. */
  readonly sequentialTuning: number | null;
  /** What covariates leave of the variance, 1 - r^2. */
  readonly varianceLeft: number;
}

/** Units of all arms together beyond which nobody waits. */
const MAX_UNITS = 1e12;

/** Why a plan cannot be made. */
export type PlanProblem = "invalid-input" | "not-reachable";

/**
 * The chance to find a relative effect (0.05 for 5 %) with so many units in all arms together: that of
 * the arm which is hardest to tell from the control, by the test of the difference.
 */
export function plannedPower(plan: ExperimentPlan, effect: number, units: number): number {
  const total = plan.shares.reduce((sum, share) => sum + share, 0);
  const [controlShare = 0, ...others] = plan.shares;
  const smallest = Math.min(...others);
  const control = (units * controlShare) / total;
  const treatment = (units * smallest) / total;
  const variances = variancesOf(plan, effect);
  if (variances === null || !(control > 0 && treatment > 0)) return 0;
  const standardError = Math.sqrt(
    plan.varianceLeft * (variances.control / control + variances.treatment / treatment),
  );
  return powerAtError(plan, Math.abs(effect * plan.baseline), standardError, control + treatment);
}

/** The chance to find a difference, whose estimate has this standard error and comes of so many units. */
export function powerAtError(
  plan: Pick<ExperimentPlan, "alpha" | "sides" | "sequentialTuning">,
  difference: number,
  standardError: number,
  units: number,
): number {
  return powerOf(difference / standardError, criticalOf(plan, units), plan.sides);
}

/**
 * By how much a sample must grow for the test of {@link powerAtError} to find a difference with the power:
 * 0.5 is half as much again, 0 that it does already. `null` beyond all reach.
 */
export function growthToFind(
  plan: Pick<ExperimentPlan, "alpha" | "power" | "sides" | "sequentialTuning">,
  difference: number,
  { standardError, units }: { readonly standardError: number; readonly units: number },
): number | null {
  const powerAt = (growth: number) =>
    powerAtError(plan, difference, standardError / Math.sqrt(1 + growth), units * (1 + growth));
  if (powerAt(0) >= plan.power) return 0;
  let high = 1;
  while (!(powerAt(high) >= plan.power)) {
    high *= 2;
    if (units * high > MAX_UNITS) return null;
  }
  return solveIncreasing(powerAt, plan.power, 0, high);
}

/** The smallest number of units in all arms together that finds the effect with the power. */
export function unitsToFind(plan: ExperimentPlan, effect: number): number | PlanProblem {
  if (!isPlan(plan) || effect === 0 || !Number.isFinite(effect * plan.baseline))
    return "invalid-input";
  if (variancesOf(plan, effect) === null) return "not-reachable";
  let high = plan.shares.length;
  while (plannedPower(plan, effect, high) < plan.power) {
    high *= 2;
    if (high > MAX_UNITS) return "not-reachable";
  }
  let low = 0;
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (plannedPower(plan, effect, middle) >= plan.power) high = middle;
    else low = middle;
  }
  return high;
}

/** The smallest rise, relative to the control, that so many units find with the power. */
export function smallestEffect(plan: ExperimentPlan, units: number): number | PlanProblem {
  if (!isPlan(plan) || !(units > 0)) return "invalid-input";
  const powerAt = (effect: number) => plannedPower(plan, effect, units);
  // A rate rises to 1 at most, and is not told from 1 by its variance there.
  const most = plan.kind === "proportion" ? (1 - plan.baseline) / plan.baseline : 1e6;
  if (!(powerAt(most) >= plan.power)) return "not-reachable";
  return solveIncreasing(powerAt, plan.power, 0, most);
}

function isPlan({ baseline, variance, kind, shares, ...plan }: ExperimentPlan): boolean {
  const hasVariance =
    kind === "proportion"
      ? baseline > 0 && baseline < 1
      : variance !== null && variance > 0 && Number.isFinite(variance);
  return (
    Number.isFinite(baseline) &&
    baseline !== 0 &&
    hasVariance &&
    shares.length >= 2 &&
    shares.every((share) => share > 0) &&
    plan.alpha > 0 &&
    plan.alpha < 1 &&
    plan.power > 0 &&
    plan.power < 1 &&
    plan.varianceLeft > 0
  );
}

function criticalOf(
  plan: Pick<ExperimentPlan, "alpha" | "sides" | "sequentialTuning">,
  units: number,
): number {
  const alpha = plan.sides === 1 ? 2 * plan.alpha : plan.alpha;
  return plan.sequentialTuning === null
    ? -normalQuantile(alpha / 2)
    : sequentialQuantile(units, alpha, plan.sequentialTuning);
}

/** Per unit under the effect; `null` for a rate beyond 0 or 1. */
function variancesOf(
  { kind, baseline, variance }: ExperimentPlan,
  effect: number,
): { control: number; treatment: number } | null {
  if (kind !== "proportion")
    return variance === null ? null : { control: variance, treatment: variance };
  const wanted = baseline * (1 + effect);
  // A rate of 1 may come out a rounding error above it.
  const raised = wanted > 1 && wanted < 1 + 1e-12 ? 1 : wanted;
  if (!(raised >= 0 && raised <= 1)) return null;
  return { control: baseline * (1 - baseline), treatment: raised * (1 - raised) };
}

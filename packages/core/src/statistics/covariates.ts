import {
  bilinearForm,
  type Estimate,
  gradientOf,
  type Moments,
  metricValue,
  quadraticForm,
} from "./arm.ts";
import { type Effect, varianceOfMean, welchDegrees } from "./difference.ts";
import type { RatioParts } from "./lift.ts";

/**
 * How covariates enter: each as a mean of its own, or the two of them as one ratio, numerator first,
 * which is what a ratio metric has before exposure.
 */
export type CovariateForm = "means" | "ratio";

/** One arm, corrected for how its units differed before exposure. */
export interface AdjustedArm {
  readonly n: number;
  /** Without correction. */
  readonly unadjusted: Estimate;
  /** Corrected to the covariates' mean over all arms: what a screen should show. */
  readonly adjusted: Estimate;
  /** The covariance per unit of the corrected and the uncorrected value. */
  readonly covariance: number;
  /** The share of the variance that the correction took away. */
  readonly varianceReduction: number;
}

/** Below this share of its own variation a covariate tells nothing that the others do not. */
const MIN_PIVOT = 1e-10;

/**
 * The slopes of the metric on its covariates within the arms, one set for all arms: what a regression
 * with a term for each arm gives, so that a chance imbalance between arms does not leak into them
 * (statistics 5.8). A covariate that does not vary, or that others determine, has slope 0.
 */
export function withinArmSlopes(arms: readonly Moments[], form: CovariateForm): number[] {
  const width = covariatesOf(arms[0], form);
  const xx = Array.from({ length: width }, () => new Array<number>(width).fill(0));
  const xy = new Array<number>(width).fill(0);
  for (const arm of arms) {
    const main = gradientOf(arm);
    const gradients = covariateGradients(arm, form);
    for (const [i, left] of gradients.entries()) {
      xy[i] = (xy[i] ?? 0) + (arm.n - 1) * bilinearForm(main, arm.covariances, left);
      for (const [j, right] of gradients.entries()) {
        const row = xx[i];
        if (row !== undefined)
          row[j] = (row[j] ?? 0) + (arm.n - 1) * bilinearForm(left, arm.covariances, right);
      }
    }
  }
  return solveSymmetric(xx, xy);
}

/** Corrects every arm by the same slopes (CUPED: Deng et al. 2013). */
export function adjustArms(
  arms: readonly Moments[],
  slopes: readonly number[],
  form: CovariateForm,
): readonly AdjustedArm[] {
  const units = arms.reduce((total, arm) => total + arm.n, 0);
  const values = arms.map((arm) => covariateValues(arm, form));
  const centre = slopes.map((_, index) =>
    arms.reduce((sum, arm, at) => sum + (arm.n / units) * (values[at]?.[index] ?? 0), 0),
  );
  return arms.map((arm, at) => {
    const main = gradientOf(arm);
    const gradient = [...main];
    let shift = 0;
    covariateGradients(arm, form).forEach((covariate, index) => {
      const slope = slopes[index] ?? 0;
      shift += slope * ((values[at]?.[index] ?? 0) - (centre[index] ?? 0));
      for (const [position, part] of covariate.entries())
        gradient[position] = (gradient[position] ?? 0) - slope * part;
    });
    const variance = quadraticForm(main, arm.covariances);
    const adjusted = quadraticForm(gradient, arm.covariances);
    return {
      n: arm.n,
      unadjusted: { n: arm.n, mean: metricValue(arm), variance },
      adjusted: { n: arm.n, mean: metricValue(arm) - shift, variance: adjusted },
      covariance: bilinearForm(gradient, arm.covariances, main),
      varianceReduction: variance > 0 ? 1 - adjusted / variance : 0,
    };
  });
}

/**
 * The lift of corrected arms by the uncorrected control, with the whole gradient: the control's mean
 * enters the difference and the base.
 */
export function adjustedLift(control: AdjustedArm, treatment: AdjustedArm): Effect {
  const base = control.unadjusted.mean;
  const difference = treatment.adjusted.mean - control.adjusted.mean;
  const ratio = difference / base;
  const controlVariance =
    control.adjusted.variance +
    2 * ratio * control.covariance +
    ratio * ratio * control.unadjusted.variance;
  return {
    estimate: difference / Math.abs(base),
    standardError:
      Math.sqrt(varianceOfMean(treatment.adjusted) + Math.max(0, controlVariance) / control.n) /
      Math.abs(base),
    degrees: welchDegrees(control.adjusted, treatment.adjusted),
  };
}

/** The parts of Fieller's lift: the corrected difference by the uncorrected control. */
export function adjustedLiftParts(control: AdjustedArm, treatment: AdjustedArm): RatioParts {
  return {
    difference: treatment.adjusted.mean - control.adjusted.mean,
    baseline: control.unadjusted.mean,
    differenceVariance: varianceOfMean(treatment.adjusted) + varianceOfMean(control.adjusted),
    baselineVariance: varianceOfMean(control.unadjusted),
    covariance: -control.covariance / control.n,
  };
}

function covariatesOf(arm: Moments | undefined, form: CovariateForm): number {
  if (arm === undefined) return 0;
  const columns = arm.means.length - firstCovariate(arm);
  return form === "ratio" ? Math.min(1, Math.floor(columns / 2)) : columns;
}

function firstCovariate(arm: Moments): number {
  return arm.hasDenominator ? 2 : 1;
}

function covariateValues(arm: Moments, form: CovariateForm): number[] {
  const values = arm.means.slice(firstCovariate(arm));
  if (form === "means") return values;
  const denominator = values[1] ?? 0;
  return [denominator === 0 ? 0 : (values[0] ?? 0) / denominator];
}

/** How each covariate changes with the arm's means. */
function covariateGradients(arm: Moments, form: CovariateForm): number[][] {
  const first = firstCovariate(arm);
  const unit = (column: number, size: number): number[] =>
    arm.means.map((_, index) => (index === column ? size : 0));
  if (form === "means") return arm.means.slice(first).map((_, index) => unit(first + index, 1));
  const denominator = arm.means[first + 1] ?? 0;
  if (denominator === 0) return [unit(first, 0)];
  const gradient = unit(first, 1 / denominator);
  gradient[first + 1] = -(arm.means[first] ?? 0) / (denominator * denominator);
  return [gradient];
}

/** Solves A s = b for a symmetric, non-negative A by Cholesky; columns without a pivot get 0. */
function solveSymmetric(a: readonly (readonly number[])[], b: readonly number[]): number[] {
  const size = b.length;
  const factor = a.map(() => new Array<number>(size).fill(0));
  const kept = b.map(() => false);
  const at = (row: number, column: number): number => factor[row]?.[column] ?? 0;
  for (let column = 0; column < size; column += 1) {
    const own = a[column]?.[column] ?? 0;
    let pivot = own;
    for (let k = 0; k < column; k += 1) pivot -= at(column, k) ** 2;
    if (!(own > 0 && pivot > MIN_PIVOT * own)) continue;
    kept[column] = true;
    for (let row = column; row < size; row += 1) {
      let value = a[row]?.[column] ?? 0;
      for (let k = 0; k < column; k += 1) value -= at(row, k) * at(column, k);
      const target = factor[row];
      if (target !== undefined) target[column] = value / Math.sqrt(pivot);
    }
  }
  const half = new Array<number>(size).fill(0);
  for (let row = 0; row < size; row += 1) {
    if (kept[row] !== true) continue;
    let value = b[row] ?? 0;
    for (let k = 0; k < row; k += 1) value -= at(row, k) * (half[k] ?? 0);
    half[row] = value / at(row, row);
  }
  const solution = new Array<number>(size).fill(0);
  for (let row = size - 1; row >= 0; row -= 1) {
    if (kept[row] !== true) continue;
    let value = half[row] ?? 0;
    for (let k = row + 1; k < size; k += 1)
      if (kept[k] === true) value -= at(k, row) * (solution[k] ?? 0);
    solution[row] = value / at(row, row);
  }
  return solution;
}

import { multiplyExactly } from "./exact-arithmetic.ts";

/**
 * What is known of one arm of an experiment for one metric: sums over its units, which add up over
 * days (statistics 4.1). The unit's value is y; of a ratio or retention d is its denominator; x are
 * covariates from before its exposure.
 */
export interface ArmSums {
  /** Units. */
  readonly n: number;
  /** Sum of y. */
  readonly sum: number;
  /** Sum of y^2; absent for values 0 and 1 (a proportion). */
  readonly sumSquares?: number;
  readonly denominator?: DenominatorSums;
  readonly covariates?: CovariateSums;
}

/** Sums of the denominator of a ratio. */
export interface DenominatorSums {
  readonly sum: number;
  readonly sumSquares: number;
  /** Sum of y d. */
  readonly withMain: number;
}

/** Sums of one or more covariates. */
export interface CovariateSums {
  readonly sums: readonly number[];
  /** Sums of x_i x_j, a symmetric matrix. */
  readonly products: readonly (readonly number[])[];
  /** Sums of x_i y. */
  readonly withMain: readonly number[];
  /** Sums of x_i d, for ratios. */
  readonly withDenominator?: readonly number[];
}

/** Means of the variables of an arm's units and their covariances (with n - 1). */
export interface Moments {
  readonly n: number;
  /** True for values 0 and 1 given without squares, whose variance is p (1 - p). */
  readonly isProportion: boolean;
  readonly hasDenominator: boolean;
  /** Of y, then d where there is one, then the covariates. */
  readonly means: readonly number[];
  /** What rounding took from the mean of y. */
  readonly meanRest: number;
  readonly covariances: readonly (readonly number[])[];
}

/** Why nothing can be said of an arm. */
export type ArmProblem = "invalid-input" | "not-enough-data";

/** A metric's value in one arm. */
export interface Estimate {
  /** Units. */
  readonly n: number;
  readonly mean: number;
  /** What rounding took from the mean: where means are large and alike, their difference needs it. */
  readonly meanRest?: number;
  /** Per unit: the variance of the mean is this divided by n. */
  readonly variance: number;
}

/**
 * Means and covariances of an arm. `invalid-input` for sums that no data can have: a count that is no
 * natural number, sums that are no numbers, more successes than units, squares smaller than the mean
 * allows. `not-enough-data` for less than two units, or a denominator that sums to zero.
 */
export function momentsOf(sums: ArmSums): Moments | ArmProblem {
  const { n, sum, denominator, covariates } = sums;
  if (!Number.isSafeInteger(n) || n < 0) return "invalid-input";
  const isProportion = sums.sumSquares === undefined;
  if (isProportion && !(sum >= 0 && sum <= n)) return "invalid-input";
  const totals = [sum];
  const products: number[][] = [[sums.sumSquares ?? sum]];
  if (denominator !== undefined) {
    totals.push(denominator.sum);
    products[0]?.push(denominator.withMain);
    products.push([denominator.withMain, denominator.sumSquares]);
  }
  if (covariates !== undefined) {
    const widths = [covariates.products.length, covariates.withMain.length];
    if (denominator !== undefined) widths.push(covariates.withDenominator?.length ?? -1);
    if (widths.some((width) => width !== covariates.sums.length)) return "invalid-input";
    covariates.sums.forEach((total, index) => {
      totals.push(total);
      const own = covariates.products[index] ?? [];
      const withMain = covariates.withMain[index] ?? Number.NaN;
      const row = [withMain];
      products[0]?.push(withMain);
      if (denominator !== undefined) {
        const withDenominator = covariates.withDenominator?.[index] ?? Number.NaN;
        row.push(withDenominator);
        products[1]?.push(withDenominator);
      }
      for (let other = 0; other < covariates.sums.length; other += 1)
        row.push(own[other] ?? Number.NaN);
      products.push(row);
    });
  }
  if (![...totals, ...products.flat()].every((value) => Number.isFinite(value)))
    return "invalid-input";
  if (n < 2) return "not-enough-data";

  const covariances: number[][] = [];
  for (const [i, row] of products.entries()) {
    const out: number[] = [];
    for (const [j, product] of row.entries()) {
      const deviation = deviationSum(product, totals[i] ?? 0, totals[j] ?? 0, n);
      if (i !== j) out.push(deviation / (n - 1));
      else if (deviation < -1e-9 * product || product < 0) return "invalid-input";
      else out.push(Math.max(0, deviation) / (n - 1));
    }
    covariances.push(out);
  }
  const means = totals.map((total) => total / n);
  if (!covariances.flat().every((value) => Number.isFinite(value))) return "invalid-input";
  if (denominator !== undefined && denominator.sum === 0) return "not-enough-data";
  if (isProportion) {
    const p = means[0] ?? 0;
    covariances[0]?.splice(0, 1, p * (1 - p));
  }
  return {
    n,
    isProportion,
    hasDenominator: denominator !== undefined,
    means,
    meanRest: restOfQuotient(sum, n, sum / n),
    covariances,
  };
}

/** The metric's value of an arm and its variance per unit: the mean of y, or the ratio of y to d. */
export function estimateOf(moments: Moments): Estimate {
  return {
    n: moments.n,
    mean: metricValue(moments),
    ...(!moments.hasDenominator && { meanRest: moments.meanRest }),
    variance: quadraticForm(gradientOf(moments), moments.covariances),
  };
}

/** The metric's value: the mean of y, or of a ratio the mean of y by the mean of d. */
export function metricValue({ hasDenominator, means }: Moments): number {
  const main = means[0] ?? Number.NaN;
  return hasDenominator ? main / (means[1] ?? Number.NaN) : main;
}

/** How the metric's value changes with each mean (statistics 5.1); zero for covariates. */
export function gradientOf(moments: Moments): number[] {
  const gradient = moments.means.map(() => 0);
  const denominator = moments.means[1] ?? Number.NaN;
  gradient[0] = moments.hasDenominator ? 1 / denominator : 1;
  if (moments.hasDenominator) gradient[1] = -metricValue(moments) / denominator;
  return gradient;
}

/** g' S g, never below zero. */
export function quadraticForm(
  gradient: readonly number[],
  covariances: readonly (readonly number[])[],
): number {
  return Math.max(0, bilinearForm(gradient, covariances, gradient));
}

/** g' S h. */
export function bilinearForm(
  left: readonly number[],
  covariances: readonly (readonly number[])[],
  right: readonly number[],
): number {
  let total = 0;
  for (const [i, row] of covariances.entries())
    for (const [j, covariance] of row.entries())
      total += (left[i] ?? 0) * (right[j] ?? 0) * covariance;
  return total;
}

/**
 * The sum of products of deviations, sum(a b) - sum(a) sum(b) / n. The quotient is taken with the
 * error of its product and division added back: at offsets of 1e6 the plain formula loses six digits.
 */
function deviationSum(product: number, a: number, b: number, n: number): number {
  const exact = multiplyExactly(a, b);
  const quotient = exact.high / n;
  return product - quotient - restOfQuotient(exact.high, n, quotient) - exact.low / n;
}

/** What rounding took from a quotient. */
function restOfQuotient(dividend: number, divisor: number, quotient: number): number {
  const back = multiplyExactly(quotient, divisor);
  return (dividend - back.high - back.low) / divisor;
}

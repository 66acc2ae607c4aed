import type { Estimate } from "./arm.ts";
import { normalQuantile, normalSf } from "./normal-distribution.ts";
import { studentQuantile, studentSf } from "./student-distribution.ts";

/** From and to. */
export type Interval = readonly [number, number];

/** A difference or lift with its standard error; `degrees` of freedom by Welch and Satterthwaite. */
export interface Effect {
  readonly estimate: number;
  readonly standardError: number;
  readonly degrees: number;
}

/** A two-sided test of "no effect", and the interval that agrees with it. */
export interface Test {
  readonly statistic: number;
  readonly pValue: number;
  readonly critical: number;
  readonly interval: Interval;
}

/** The difference of two arms' values, treatment minus control (statistics 5.2). */
export function differenceOf(control: Estimate, treatment: Estimate): Effect {
  return {
    estimate: gapBetween(control, treatment),
    standardError: Math.sqrt(varianceOfMean(control) + varianceOfMean(treatment)),
    degrees: welchDegrees(control, treatment),
  };
}

/** Treatment minus control, with what rounding took from both. */
export function gapBetween(control: Estimate, treatment: Estimate): number {
  return treatment.mean - control.mean + ((treatment.meanRest ?? 0) - (control.meanRest ?? 0));
}

/** The variance of an arm's value. */
export function varianceOfMean({ variance, n }: Estimate): number {
  return variance / n;
}

/** Degrees of freedom of the difference; NaN when neither arm varies. */
export function welchDegrees(control: Estimate, treatment: Estimate): number {
  const c = varianceOfMean(control);
  const t = varianceOfMean(treatment);
  // As shares of the sum, so that squares neither overflow nor vanish.
  const share = c / (c + t);
  return 1 / ((share * share) / (control.n - 1) + ((1 - share) * (1 - share)) / (treatment.n - 1));
}

/** Student's test of an effect at level `alpha`; the p-value is the two tails themselves, however small. */
export function testByStudent(effect: Effect, alpha: number): Test {
  const statistic = effect.estimate / effect.standardError;
  const critical = -studentQuantile(alpha / 2, effect.degrees);
  return {
    statistic,
    pValue: Math.min(1, 2 * studentSf(Math.abs(statistic), effect.degrees)),
    critical,
    interval: around(effect.estimate, critical * effect.standardError),
  };
}

/** The same against the normal distribution. */
export function testByNormal(effect: Effect, alpha: number): Test {
  const statistic = effect.estimate / effect.standardError;
  const critical = -normalQuantile(alpha / 2);
  return {
    statistic,
    pValue: Math.min(1, 2 * normalSf(Math.abs(statistic))),
    critical,
    interval: around(effect.estimate, critical * effect.standardError),
  };
}

/** A one-sided test against a value, in both directions. */
export interface OneSidedTest {
  readonly statistic: number;
  /** Of "the effect is larger than the value". */
  readonly pGreater: number;
  /** Of "the effect is smaller". */
  readonly pLess: number;
  /** With confidence 1 - alpha the effect is above this. */
  readonly lowerBound: number;
  /** With confidence 1 - alpha the effect is below this. */
  readonly upperBound: number;
}

/** Student's one-sided tests; non-inferiority with margin M is `pGreater` against -M. */
export function testOneSided(effect: Effect, nullValue: number, alpha: number): OneSidedTest {
  const statistic = (effect.estimate - nullValue) / effect.standardError;
  const reach = -studentQuantile(alpha, effect.degrees) * effect.standardError;
  return {
    statistic,
    pGreater: studentSf(statistic, effect.degrees),
    pLess: studentSf(-statistic, effect.degrees),
    lowerBound: effect.estimate - reach,
    upperBound: effect.estimate + reach,
  };
}

/** The two-proportion z test with the variance pooled under "no effect". */
export function testPooledProportions(
  control: Estimate,
  treatment: Estimate,
): { statistic: number; pValue: number } {
  const n = control.n + treatment.n;
  const pooled = (control.mean * control.n + treatment.mean * treatment.n) / n;
  const variance = pooled * (1 - pooled) * (1 / control.n + 1 / treatment.n);
  const statistic = (treatment.mean - control.mean) / Math.sqrt(variance);
  return { statistic, pValue: Math.min(1, 2 * normalSf(Math.abs(statistic))) };
}

function around(middle: number, reach: number): Interval {
  return [middle - reach, middle + reach];
}

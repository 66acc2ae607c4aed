import type { Interval } from "./difference.ts";

/** An interval that holds at all times at once, however often it is looked at. */
export interface ConfidenceSequence {
  readonly halfWidth: number;
  readonly interval: Interval;
  /** Evidence against "no effect"; a p-value is its inverse, at most 1. */
  readonly logEValue: number;
  readonly pValue: number;
}

/**
 * The mixing width that is best when looked at after `tuning` units (Waudby-Smith et al., eq. 161); for
 * a one-sided sequence at level alpha, that of 2 alpha.
 */
export function mixingWidth(alpha: number, tuning: number): number {
  const log = -2 * Math.log(alpha);
  return Math.sqrt((log + Math.log1p(log)) / tuning);
}

/**
 * The asymptotic confidence sequence of an estimate (statistics 5.6), for n units in both arms. The same
 * formula as the normal-mixture SPRT with tau^2 = n SE^2 rho^2.
 */
export function confidenceSequence(
  estimate: number,
  standardError: number,
  n: number,
  alpha: number,
  tuning: number,
): ConfidenceSequence {
  const halfWidth = standardError * sequentialQuantile(n, alpha, tuning);
  const width = n * mixingWidth(alpha, tuning) ** 2;
  const ratio = estimate / standardError;
  const logEValue = (width * ratio * ratio) / (2 * (width + 1)) - Math.log1p(width) / 2;
  return {
    halfWidth,
    interval: [estimate - halfWidth, estimate + halfWidth],
    logEValue,
    pValue: Math.min(1, Math.exp(-logEValue)),
  };
}

/** What takes the place of the normal quantile: half widths in standard errors. */
export function sequentialQuantile(n: number, alpha: number, tuning: number): number {
  const width = n * mixingWidth(alpha, tuning) ** 2;
  return Math.sqrt(((2 * (width + 1)) / width) * (Math.log1p(width) / 2 - Math.log(alpha)));
}

/** Bounds that hold at all times on one side each (eq. 134). */
export function oneSidedSequence(
  estimate: number,
  standardError: number,
  n: number,
  alpha: number,
  tuning: number,
): { halfWidth: number; lower: number; upper: number } {
  const width = n * mixingWidth(2 * alpha, tuning) ** 2;
  const halfWidth =
    standardError *
    Math.sqrt(((2 * (width + 1)) / width) * Math.log1p(Math.sqrt(width + 1) / (2 * alpha)));
  return { halfWidth, lower: estimate - halfWidth, upper: estimate + halfWidth };
}

/** The normal-mixture sequential probability ratio test with a given mixing variance (Johari et al.). */
export function mixtureTest(
  estimate: number,
  variance: number,
  mixingVariance: number,
  alpha: number,
): { logLikelihoodRatio: number; pValue: number; halfWidth: number; interval: Interval } {
  const total = variance + mixingVariance;
  const logLikelihoodRatio =
    (mixingVariance * estimate * estimate) / (2 * variance * total) -
    Math.log1p(mixingVariance / variance) / 2;
  const halfWidth = Math.sqrt(
    ((2 * variance * total) / mixingVariance) *
      (Math.log1p(mixingVariance / variance) / 2 - Math.log(alpha)),
  );
  return {
    logLikelihoodRatio,
    pValue: Math.min(1, Math.exp(-logLikelihoodRatio)),
    halfWidth,
    interval: [estimate - halfWidth, estimate + halfWidth],
  };
}

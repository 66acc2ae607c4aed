import { addExactly, multiplyExactly } from "./exact-arithmetic.ts";
import type { Tails } from "./gamma-distribution.ts";
import { invertLogTail } from "./invert-tail.ts";
import { logOnePlusLess, stirlingRemainder } from "./log-gamma.ts";
import { normalQuantile } from "./normal-distribution.ts";

const MAX_TERMS = 1e6;
const ROOT_INVERSE_TWO_PI = 0.3989422804014327;

/**
 * A point x between 0 and 1 and its complement y = 1 - x. The smaller of the two must be exact to its
 * last digits; the larger may be rounded.
 */
export interface UnitPoint {
  readonly x: number;
  readonly y: number;
}

/** A point by its distance from 0; exact from 1/2 on, where 1 - x has no error. */
export function unitPoint(x: number): UnitPoint {
  return { x, y: 1 - x };
}

/**
 * The regularized incomplete beta function I_x(a, b) and its complement: the tails of the beta
 * distribution, each computed on its own where it is small (statistics 6.2: a prefix without large
 * logarithms times DiDonato and Morris' continued fraction). NaN unless a, b > 0.
 */
export function betaTails(a: number, b: number, { x, y }: UnitPoint): Tails {
  if (!(a > 0 && b > 0) || Number.isNaN(x)) return { lower: Number.NaN, upper: Number.NaN };
  if (x <= 0) return { lower: 0, upper: 1 };
  if (y <= 0) return { lower: 1, upper: 0 };
  const excess = excessOverMean(a, b, x, y);
  const prefix = betaPrefix(a, b, x, y, excess);
  if (excess <= 0) {
    const lower = prefix / fractionOfBeta(a, b, x, -excess);
    return { lower, upper: 1 - lower };
  }
  const upper = prefix / fractionOfBeta(b, a, y, excess);
  return { lower: 1 - upper, upper };
}

/** P(X <= x) of the beta distribution. */
export function betaCdf(a: number, b: number, x: number): number {
  return betaTails(a, b, unitPoint(x)).lower;
}

/** P(X > x) of the beta distribution. */
export function betaSf(a: number, b: number, x: number): number {
  return betaTails(a, b, unitPoint(x)).upper;
}

/** The density of the beta distribution. */
export function betaDensity(a: number, b: number, x: number): number {
  const y = 1 - x;
  if (x <= 0 || y <= 0) {
    const power = x <= 0 ? a : b;
    if (power > 1) return 0;
    return power === 1 ? a * b : Number.POSITIVE_INFINITY;
  }
  return betaPrefix(a, b, x, y, excessOverMean(a, b, x, y)) / (x * y);
}

/** The x with P(X <= x) = p, for the beta distribution. */
export function betaQuantile(p: number, a: number, b: number): number {
  if (!(p >= 0 && p <= 1 && a > 0 && b > 0)) return Number.NaN;
  if (p === 0 || p === 1) return p;
  const start = Math.log(a / b) + normalQuantile(p) * Math.sqrt(1 / a + 1 / b);
  if (p <= 0.5)
    return atLogOdds(invertLogTail((w) => logTailOf(a, b, atLogOdds(w)), Math.log(p), start)).x;
  return atLogOdds(-invertLogTail((w) => logTailOf(b, a, atLogOdds(w)), Math.log1p(-p), -start)).x;
}

/** ln I_x(a, b) and its derivative by the log odds of x, of which it is a concave function. */
function logTailOf(a: number, b: number, { x, y }: UnitPoint): { value: number; slope: number } {
  const { lower } = betaTails(a, b, { x, y });
  return {
    value: Math.log(lower),
    slope: betaPrefix(a, b, x, y, excessOverMean(a, b, x, y)) / lower,
  };
}

function atLogOdds(w: number): UnitPoint {
  const odds = Math.exp(-Math.abs(w));
  const small = odds / (1 + odds);
  const large = 1 / (1 + odds);
  return w < 0 ? { x: small, y: large } : { x: large, y: small };
}

/** x b - y a, which is (a + b) x - a, from the exact one of x and y. */
function excessOverMean(a: number, b: number, x: number, y: number): number {
  const sum = addExactly(a, b);
  const exact = Math.min(x, y);
  const product = multiplyExactly(exact, sum.high);
  const rest = product.low + exact * sum.low;
  return x <= y ? product.high - a + rest : b - product.high - rest;
}

/** x^a y^b / B(a, b). */
function betaPrefix(a: number, b: number, x: number, y: number, excess: number): number {
  const remainder = stirlingRemainder(a + b) - stirlingRemainder(a) - stirlingRemainder(b);
  return (
    Math.sqrt(a) *
    Math.sqrt(b / (a + b)) *
    ROOT_INVERSE_TWO_PI *
    Math.exp(
      logPowerRatio(a, a + b, x, excess / a) + logPowerRatio(b, a + b, y, -excess / b) + remainder,
    )
  );
}

/** power * (ln(1 + u) - u), where 1 + u = point * total / power. */
function logPowerRatio(power: number, total: number, point: number, u: number): number {
  if (u > -0.7) return power * logOnePlusLess(u);
  return power * (Math.log(point * (total / power)) - u);
}

/** The fraction that divides the prefix to give I_x(a, b), for x below the mean; `deficit` is a y - b x. */
function fractionOfBeta(a: number, b: number, x: number, deficit: number): number {
  const first = (a * (deficit + 1)) / (a + 1);
  let fraction = first;
  let c = first;
  let d = 0;
  for (let n = 1; n < MAX_TERMS; n += 1) {
    const nextToLast = a + 2 * n - 1;
    const numerator =
      ((a + n - 1) / nextToLast) * ((a + b + n - 1) / nextToLast) * n * (b - n) * x * x;
    const denominator =
      n +
      (n * (b - n) * x) / nextToLast +
      ((a + n) * (deficit + 1 + n * (2 - x))) / (a + 2 * n + 1);
    d = 1 / (denominator + numerator * d);
    c = denominator + numerator / c;
    const factor = c * d;
    fraction *= factor;
    if (Math.abs(factor - 1) < 1e-16) break;
  }
  return fraction;
}

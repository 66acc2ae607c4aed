import { invertLogTail } from "./invert-tail.ts";
import { logGamma, logOnePlusLess, stirlingRemainder } from "./log-gamma.ts";
import { normalQuantile, normalSf } from "./normal-distribution.ts";

/** Both tails of a distribution at one point, each computed on its own where it is small. */
export interface Tails {
  readonly lower: number;
  readonly upper: number;
}

const MAX_TERMS = 1e6;
const ROOT_INVERSE_TWO_PI = 0.3989422804014327;

/**
 * The regularized incomplete gamma functions P(shape, x) and Q(shape, x): the tails of the gamma
 * distribution with rate 1. NaN for a shape that is not positive.
 */
export function gammaTails(shape: number, x: number): Tails {
  if (!(shape > 0) || Number.isNaN(x)) return { lower: Number.NaN, upper: Number.NaN };
  if (x <= 0) return { lower: 0, upper: 1 };
  if (x === Number.POSITIVE_INFINITY) return { lower: 1, upper: 0 };
  if (shape >= LARGE_SHAPE) return tailsOfLargeShape(shape, x);
  const density = gammaPrefix(shape, x);
  if (x < shape + 1 && !(shape < 1 && x > 0.5)) {
    const lower = density * seriesOfGamma(shape, x);
    return { lower, upper: 1 - lower };
  }
  const upper = density * fractionOfGamma(shape, x);
  return { lower: 1 - upper, upper };
}

/** P(X <= x) of the gamma distribution with rate 1. */
export function gammaCdf(shape: number, x: number): number {
  return gammaTails(shape, x).lower;
}

/** P(X > x) of the gamma distribution with rate 1. */
export function gammaSf(shape: number, x: number): number {
  return gammaTails(shape, x).upper;
}

/** P(X > x) of the chi-square distribution. */
export function chiSquareSf(x: number, degrees: number): number {
  return gammaSf(degrees / 2, x / 2);
}

/** The density of the gamma distribution with rate 1. */
export function gammaDensity(shape: number, x: number): number {
  return x > 0 ? gammaPrefix(shape, x) / x : 0;
}

/** The x with P(X <= x) = p, for the gamma distribution with rate 1. */
export function gammaQuantile(p: number, shape: number): number {
  if (!(p >= 0 && p <= 1 && shape > 0)) return Number.NaN;
  if (p === 0) return 0;
  if (p === 1) return Number.POSITIVE_INFINITY;
  const z = normalQuantile(p);
  // Wilson and Hilferty's cube; for small shapes and probabilities the leading power of x.
  const cube = 1 - 1 / (9 * shape) + z / (3 * Math.sqrt(shape));
  const start =
    cube > 0.1
      ? Math.log(shape) + 3 * Math.log(cube)
      : (Math.log(p) + Math.log(shape) + logGamma(shape)) / shape;
  if (p <= 0.5)
    return Math.exp(
      invertLogTail(
        (w) => {
          const lower = gammaTails(shape, Math.exp(w)).lower;
          return { value: Math.log(lower), slope: gammaPrefix(shape, Math.exp(w)) / lower };
        },
        Math.log(p),
        start,
      ),
    );
  return Math.exp(
    -invertLogTail(
      (w) => {
        const upper = gammaTails(shape, Math.exp(-w)).upper;
        return { value: Math.log(upper), slope: gammaPrefix(shape, Math.exp(-w)) / upper };
      },
      Math.log1p(-p),
      -start,
    ),
  );
}

/** x^shape e^-x / Gamma(shape), around the mode without large logarithms (statistics 6.2). */
function gammaPrefix(shape: number, x: number): number {
  const u = (x - shape) / shape;
  const exponent = u < -0.7 ? shape * (Math.log(x / shape) - u) : shape * logOnePlusLess(u);
  return Math.sqrt(shape) * ROOT_INVERSE_TWO_PI * Math.exp(exponent - stirlingRemainder(shape));
}

/** From here on series and fraction need ever more terms, and two terms of the expansion are exact. */
const LARGE_SHAPE = 1e7;
/** Temme's coefficients of 1 and 1 / shape, by powers of eta (DLMF 8.12.9 ff.). */
const TEMME: readonly [readonly number[], readonly number[]] = [
  [
    -1 / 3,
    1 / 12,
    -2 / 135,
    1 / 864,
    0.0003527336860670194,
    -0.0001787551440329218,
    3.919263178522438e-5,
    -2.1854485106799924e-6,
  ],
  [-1 / 540, -1 / 288, 1 / 378, -0.0009902263374485596],
];

/** Temme's uniform expansion: the normal law of eta, and what the gamma's skewness adds to it. */
function tailsOfLargeShape(shape: number, x: number): Tails {
  const u = (x - shape) / shape;
  const half = u < -0.7 ? u - Math.log(x / shape) : -logOnePlusLess(u);
  const eta = Math.sign(u) * Math.sqrt(2 * half);
  // Beyond this both tails are what they are at infinity: the coefficients are for small eta.
  if (Math.abs(eta) > 0.5) return eta < 0 ? { lower: 0, upper: 1 } : { lower: 1, upper: 0 };
  const [first, second] = TEMME;
  const at = (coefficients: readonly number[]) =>
    coefficients.reduceRight((sum, coefficient) => coefficient + sum * eta, 0);
  const skewness =
    (ROOT_INVERSE_TWO_PI / Math.sqrt(shape)) *
    Math.exp(-shape * half) *
    (at(first) + at(second) / shape);
  const z = eta * Math.sqrt(shape);
  return { lower: normalSf(-z) - skewness, upper: normalSf(z) + skewness };
}

/** P(shape, x) divided by the prefix, by its power series. */
function seriesOfGamma(shape: number, x: number): number {
  let term = 1 / shape;
  let sum = term;
  for (let n = 1; n < MAX_TERMS; n += 1) {
    term *= x / (shape + n);
    sum += term;
    if (term < sum * 1e-17) break;
  }
  return sum;
}

/** Q(shape, x) divided by the prefix, by Legendre's continued fraction (Lentz's evaluation). */
function fractionOfGamma(shape: number, x: number): number {
  let b = x + 1 - shape;
  let c = 1e300;
  let d = 1 / b;
  let fraction = d;
  for (let n = 1; n < MAX_TERMS; n += 1) {
    const a = -n * (n - shape);
    b += 2;
    d = 1 / (a * d + b);
    c = b + a / c;
    const factor = c * d;
    fraction *= factor;
    if (Math.abs(factor - 1) < 1e-16) break;
  }
  return fraction;
}

import { multiplyExactly } from "./exact-arithmetic.ts";

const ROOT_TWO_PI = 2.5066282746310007;
const INVERSE_ROOT_PI = 0.5641895835477563;
const ROOT_HALF = Math.SQRT1_2;

/** From here on the continued fraction of the tail needs few terms. */
const TAIL_FROM = 1;

/** The error function: 2/sqrt(pi) times the integral of exp(-t^2) from 0 to x. */
export function erf(x: number): number {
  if (x < 0) return -erf(-x);
  return x < TAIL_FROM ? seriesOfErf(x) : 1 - erfc(x);
}

/** 1 - erf(x), also where that is tiny. */
export function erfc(x: number): number {
  if (x < TAIL_FROM) return 1 - erf(x);
  const square = multiplyExactly(x, x);
  return Math.exp(-square.high) * (1 - square.low) * scaledTail(x);
}

/** The density of the standard normal distribution. */
export function normalDensity(z: number): number {
  const square = multiplyExactly(z, z);
  return (Math.exp(-square.high / 2) * (1 - square.low / 2)) / ROOT_TWO_PI;
}

/** P(Z <= z) of the standard normal distribution, relative error below 1e-14 down to the smallest number. */
export function normalCdf(z: number): number {
  return normalSf(-z);
}

/** P(Z > z) of the standard normal distribution. */
export function normalSf(z: number): number {
  const x = z * ROOT_HALF;
  if (x < -TAIL_FROM) return 1 - normalSf(-z);
  if (x < TAIL_FROM) return 0.5 - seriesOfErf(x) / 2;
  const square = multiplyExactly(z, z);
  return 0.5 * Math.exp(-square.high / 2) * (1 - square.low / 2) * scaledTail(x);
}

/** ln P(Z > z), also where P itself is too small for a number. */
function logNormalSf(z: number): number {
  if (z * ROOT_HALF < TAIL_FROM) return Math.log(normalSf(z));
  return Math.log(0.5 * scaledTail(z * ROOT_HALF)) - (z * z) / 2;
}

/**
 * The z with P(Z <= z) = p, for p from 0 to 1 (at the ends infinite); NaN elsewhere. Newton's method
 * on the logarithm of the tail, whose start is good to 4.5e-4 (Abramowitz and Stegun 26.2.23).
 */
export function normalQuantile(p: number): number {
  if (!(p >= 0 && p <= 1)) return Number.NaN;
  if (p > 0.5) return -normalQuantile(1 - p) || 0;
  if (p === 0) return Number.NEGATIVE_INFINITY;
  if (p > 0.25) return -centralQuantile(0.5 - p) || 0;
  const logTail = Math.log(p);
  const t = Math.sqrt(-2 * logTail);
  let z =
    t -
    (2.515517 + t * (0.802853 + t * 0.010328)) /
      (1 + t * (1.432788 + t * (0.189269 + t * 0.001308)));
  for (let round = 0; round < 8; round += 1) {
    const step = (logNormalSf(z) - logTail) * millsRatio(z);
    z += step;
    if (Math.abs(step) < 1e-15 * z) break;
  }
  return -z;
}

/** The z >= 0 with P(0 < Z <= z) = mass, for masses up to a quarter or so. */
function centralQuantile(mass: number): number {
  let z = mass * ROOT_TWO_PI;
  for (let round = 0; round < 12; round += 1) {
    const step = (mass - seriesOfErf(z * ROOT_HALF) / 2) / normalDensity(z);
    z += step;
    if (Math.abs(step) <= 1e-15 * z) break;
  }
  return z;
}

/** Mills' ratio, P(Z > z) divided by the density at z: smooth and exact also far out, where both vanish. */
export function millsRatio(z: number): number {
  const x = z * ROOT_HALF;
  return x < TAIL_FROM ? normalSf(z) / normalDensity(z) : (ROOT_TWO_PI / 2) * scaledTail(x);
}

/** erf(x) for x from -1 to 1, by the series whose terms have one sign. */
function seriesOfErf(x: number): number {
  const square = 2 * x * x;
  let term = x;
  let sum = x;
  for (let odd = 3; Math.abs(term) > Math.abs(sum) * 1e-17; odd += 2) {
    term *= square / odd;
    sum += term;
  }
  return 2 * INVERSE_ROOT_PI * Math.exp(-x * x) * sum;
}

/** exp(x^2) erfc(x) for x >= 1, by Laplace's continued fraction (Lentz's evaluation). */
function scaledTail(x: number): number {
  let fraction = x;
  let c = x;
  let d = 0;
  for (let index = 1; index < 500; index += 1) {
    d = 1 / (x + (index / 2) * d);
    c = x + index / 2 / c;
    const factor = c * d;
    fraction *= factor;
    if (Math.abs(factor - 1) < 1e-16) break;
  }
  return INVERSE_ROOT_PI / fraction;
}

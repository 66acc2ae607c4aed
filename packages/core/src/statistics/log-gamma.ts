/** ln(sqrt(2 pi)). */
const HALF_LOG_TWO_PI = 0.9189385332046728;

/** 1 - Euler's constant. */
const ONE_MINUS_EULER = 0.42278433509846713;

/** zeta(k) - 1 for k = 2, 3, ...: the coefficients of ln Gamma around 2. */
const ZETA_LESS_ONE: readonly number[] = [
  0.6449340668482264, 0.2020569031595943, 0.08232323371113819, 0.03692775514336993,
  0.01734306198444914, 0.008349277381922827, 0.00407735619794434, 0.0020083928260822143,
  0.0009945751278180853, 0.0004941886041194645, 0.0002460865533080483, 0.00012271334757848915,
  6.124813505870483e-5, 3.058823630702049e-5, 1.528225940865187e-5, 7.637197637899763e-6,
  3.81729326499984e-6, 1.908212716553939e-6, 9.539620338727962e-7, 4.769329867878064e-7,
  2.38450502727733e-7, 1.1921992596531106e-7, 5.960818905125948e-8, 2.980350351465228e-8,
  1.4901554828365043e-8, 7.45071178983543e-9, 3.725334024788457e-9, 1.862659723513049e-9,
  9.313274324196682e-10, 4.656629065033784e-10, 2.3283118336765053e-10, 1.164155017270052e-10,
];

/** B(2k) / (2k (2k - 1)) for k = 1, 2, ...: the coefficients of Stirling's series. */
const STIRLING: readonly number[] = [
  1 / 12,
  -1 / 360,
  1 / 1260,
  -1 / 1680,
  1 / 1188,
  -691 / 360360,
  1 / 156,
  -3617 / 122400,
];

/** Where Stirling's series gives all digits. */
const STIRLING_FROM = 10;

/** ln Gamma(x) for x > 0; NaN elsewhere. Relative error below 1e-14, also near its zeros 1 and 2. */
export function logGamma(x: number): number {
  if (!(x > 0)) return Number.NaN;
  if (x === Number.POSITIVE_INFINITY) return x;
  if (x >= STIRLING_FROM)
    return (x - 0.5) * Math.log(x) - x + HALF_LOG_TWO_PI + stirlingRemainder(x);
  if (x < 0.5) return logGamma(1 + x) - Math.log(x);
  if (x < 1.5) return aroundTwo(x - 1) - Math.log1p(x - 1);
  let product = 1;
  let rest = x;
  while (rest > 2.5) {
    rest -= 1;
    product *= rest;
  }
  return aroundTwo(rest - 2) + Math.log(product);
}

/** ln Gamma(2 + z) for |z| <= 1/2, by its Taylor series. */
function aroundTwo(z: number): number {
  let sum = 0;
  for (let index = ZETA_LESS_ONE.length - 1; index >= 0; index -= 1) {
    const degree = index + 2;
    sum = ((degree % 2 === 0 ? 1 : -1) * (ZETA_LESS_ONE[index] ?? 0)) / degree + sum * z;
  }
  return z * (ONE_MINUS_EULER + z * sum);
}

/**
 * What Stirling's formula leaves out: ln Gamma(x) - ((x - 1/2) ln x - x + ln sqrt(2 pi)), for x > 0.
 * Differences of it replace differences of large logarithms (statistics 6.2).
 */
export function stirlingRemainder(x: number): number {
  let rest = 0;
  let at = x;
  while (at < STIRLING_FROM) {
    rest += (at + 0.5) * Math.log1p(1 / at) - 1;
    at += 1;
  }
  const inverseSquare = 1 / (at * at);
  let series = 0;
  for (let index = STIRLING.length - 1; index >= 0; index -= 1)
    series = (STIRLING[index] ?? 0) + series * inverseSquare;
  return rest + series / at;
}

/** ln(1 + u) - u for u > -1 without cancellation. */
export function logOnePlusLess(u: number): number {
  if (u <= -0.7 || u >= 1) return Math.log1p(u) - u;
  const r = u / (2 + u);
  const square = r * r;
  let power = square;
  let series = 1 / 3;
  for (let divisor = 5; ; divisor += 2) {
    const term = power / divisor;
    if (term < series * 1e-17) break;
    series += term;
    power *= square;
  }
  return 2 * r * square * series - r * u;
}

/** A number as an unevaluated sum: `high` is the rounded value, `low` what rounding took from it. */
export interface TwoPart {
  readonly high: number;
  readonly low: number;
}

/** The sum of two numbers without loss (Knuth's two-sum). */
export function addExactly(a: number, b: number): TwoPart {
  const high = a + b;
  const part = high - a;
  return { high, low: a - (high - part) + (b - part) };
}

/** The product of two numbers without loss (Dekker's product; no overflow below 2^996). */
export function multiplyExactly(a: number, b: number): TwoPart {
  const high = a * b;
  const [aHigh, aLow] = halve(a);
  const [bHigh, bLow] = halve(b);
  return { high, low: aLow * bLow - (high - aHigh * bHigh - aLow * bHigh - aHigh * bLow) };
}

/** Splits the 53 bits of a number into two numbers of 26 bits (Veltkamp). */
function halve(a: number): [number, number] {
  const scaled = 134217729 * a;
  const high = scaled - (scaled - a);
  return [high, a - high];
}

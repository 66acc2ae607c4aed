const NODES = 48;

/** A point in [-1, 1] and its weight. */
interface Node {
  readonly at: number;
  readonly weight: number;
}

/** The nodes of Gauss and Legendre: roots of the Legendre polynomial, by Newton's method. */
function gaussLegendre(order: number): readonly Node[] {
  return Array.from({ length: order }, (_, index) => {
    let at = Math.cos((Math.PI * (index + 0.75)) / (order + 0.5));
    let slope = 0;
    for (let round = 0; round < 100; round += 1) {
      let previous = 1;
      let value = at;
      for (let degree = 2; degree <= order; degree += 1) {
        const next = ((2 * degree - 1) * at * value - (degree - 1) * previous) / degree;
        previous = value;
        value = next;
      }
      slope = (order * (previous - at * value)) / (1 - at * at);
      const step = value / slope;
      at -= step;
      if (Math.abs(step) < 1e-16) break;
    }
    return { at, weight: 2 / ((1 - at * at) * slope * slope) };
  });
}

const LEGENDRE = gaussLegendre(NODES);

/**
 * The integral of a smooth function between the first and the last cut, a panel between each two: the
 * cuts are where the function changes its manner. Cuts need not be in order; equal ones count once.
 */
export function integrate(value: (x: number) => number, cuts: readonly number[]): number {
  let total = 0;
  forEachNode(cuts, (x, weight) => {
    total += weight * value(x);
  });
  return total;
}

/** Visits the nodes of {@link integrate} with their weights. */
export function forEachNode(
  cuts: readonly number[],
  visit: (x: number, weight: number) => void,
): void {
  const sorted = [...new Set(cuts)].sort((left, right) => left - right);
  for (let index = 1; index < sorted.length; index += 1) {
    const from = sorted[index - 1] ?? 0;
    const half = ((sorted[index] ?? 0) - from) / 2;
    for (const { at, weight } of LEGENDRE) visit(from + half + half * at, weight * half);
  }
}

/**
 * Where a function that grows with x takes a value between `low` and `high` (which must enclose it), to
 * the last digits: regula falsi that halves where one end stays (Illinois), with bisection as its guard.
 */
export function solveIncreasing(
  value: (x: number) => number,
  target: number,
  low: number,
  high: number,
): number {
  let left = low;
  let right = high;
  let leftGap = value(left) - target;
  let rightGap = value(right) - target;
  let kept = 0;
  for (let round = 0; round < 200; round += 1) {
    if (leftGap === 0) return left;
    if (rightGap === 0) return right;
    const secant = (left * rightGap - right * leftGap) / (rightGap - leftGap);
    const middle = left + (right - left) / 2;
    const at = round % 4 === 3 || !(secant > left && secant < right) ? middle : secant;
    if (
      right - left <= 1e-15 * Math.max(Math.abs(left), Math.abs(right)) ||
      at === left ||
      at === right
    )
      return at;
    const gap = value(at) - target;
    if (gap === 0) return at;
    if (gap < 0) {
      left = at;
      leftGap = gap;
      if (kept === 1) rightGap /= 2;
      kept = 1;
    } else {
      right = at;
      rightGap = gap;
      if (kept === -1) leftGap /= 2;
      kept = -1;
    }
  }
  return left + (right - left) / 2;
}

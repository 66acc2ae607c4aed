/** The logarithm of a distribution function at a point, and its derivative there. */
export interface LogTail {
  readonly value: number;
  readonly slope: number;
}

/**
 * Where the logarithm of a distribution function, increasing and concave, takes a value: Newton's
 * method, held inside the bracket that earlier steps proved. Converges to the last digits from any
 * start, since from the left Newton's steps on a concave function never overshoot.
 */
export function invertLogTail(
  tailAt: (at: number) => LogTail,
  target: number,
  start: number,
): number {
  let low = Number.NEGATIVE_INFINITY;
  let high = Number.POSITIVE_INFINITY;
  let at = start;
  for (let round = 0; round < 200; round += 1) {
    const { value, slope } = tailAt(at);
    const gap = target - value;
    if (gap === 0) return at;
    if (gap > 0) low = at;
    else high = at;
    let next = at + gap / slope;
    if (!Number.isFinite(next) || next <= low || next >= high) {
      if (Number.isFinite(low) && Number.isFinite(high)) next = low + (high - low) / 2;
      else next = at + (gap > 0 ? 1 : -1) * Math.max(1, Math.abs(at));
    }
    if (Math.abs(next - at) <= 1e-16 * Math.max(1, Math.abs(at)) || next === low || next === high)
      return next;
    at = next;
  }
  return at;
}

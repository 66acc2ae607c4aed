import { chiSquareSf } from "./gamma-distribution.ts";
import { logGamma } from "./log-gamma.ts";

/** Whether the arms have the shares of units that were configured. */
export interface SampleRatio {
  readonly statistic: number;
  readonly degrees: number;
  readonly pValue: number;
  /** Of the arms with a share, in order. */
  readonly expectedCounts: readonly number[];
  readonly mismatch: boolean;
}

/** Below this a mismatch is called (statistics 5.11). */
const MISMATCH_ALPHA = 0.001;

/**
 * Chi-square test of the units per arm against configured weights, in any unit. Arms without weight
 * count neither in the total nor in the degrees of freedom; `null` when fewer than two arms have one
 * or nobody was counted.
 */
export function testSampleRatio(
  counts: readonly number[],
  weights: readonly number[],
): SampleRatio | null {
  const arms = weighted(counts, weights);
  const total = arms.reduce((sum, arm) => sum + arm.count, 0);
  if (arms.length < 2 || total === 0) return null;
  const expectedCounts = arms.map(({ share }) => total * share);
  const statistic = arms.reduce((sum, { count }, index) => {
    const expected = expectedCounts[index] ?? 0;
    return sum + ((count - expected) * (count - expected)) / expected;
  }, 0);
  const degrees = arms.length - 1;
  const pValue = chiSquareSf(statistic, degrees);
  return { statistic, degrees, pValue, expectedCounts, mismatch: pValue < MISMATCH_ALPHA };
}

/**
 * The sequential test of the same (Lindon and Malek): the evidence of a Dirichlet prior around the
 * configured shares, of weight `concentration` per arm, against them. A mismatch is called when
 * `pValue` is below the level at any look; it may be looked at as often as one likes.
 */
export function watchSampleRatio(
  counts: readonly number[],
  weights: readonly number[],
  concentration: number,
): { logBayesFactor: number; pValue: number } | null {
  const arms = weighted(counts, weights);
  if (arms.length < 2) return null;
  const scale = concentration * arms.length;
  const total = arms.reduce((sum, arm) => sum + arm.count, 0);
  let logBayesFactor = logGamma(scale) - logGamma(scale + total);
  for (const { count, share } of arms)
    logBayesFactor +=
      logGamma(scale * share + count) - logGamma(scale * share) - count * Math.log(share);
  return { logBayesFactor, pValue: Math.min(1, Math.exp(-logBayesFactor)) };
}

function weighted(
  counts: readonly number[],
  weights: readonly number[],
): { count: number; share: number }[] {
  const total = weights.reduce((sum, weight) => sum + Math.max(0, weight), 0);
  return counts.flatMap((count, index) => {
    const weight = weights[index] ?? 0;
    return weight > 0 ? [{ count, share: weight / total }] : [];
  });
}

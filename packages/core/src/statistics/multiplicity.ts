/** How p-values are adjusted for the number of tests. */
export type Adjustment = "bonferroni" | "sidak" | "holm" | "holm_sidak" | "hochberg" | "bh" | "by";

/**
 * Adjusted p-values in the order given (statistics 5.12). A missing one stays missing and does not
 * count as a test. Bonferroni, Sidak, Holm and Hochberg hold the chance of any false call; BH and BY
 * (Benjamini with Hochberg, with Yekutieli) the share of false calls.
 */
export function adjustPValues(
  pValues: readonly (number | null)[],
  method: Adjustment,
): (number | null)[] {
  const ranked = pValues
    .flatMap((p, index) => (p === null ? [] : [{ p, index }]))
    .sort((left, right) => left.p - right.p);
  const m = ranked.length;
  const sorted = ranked.map(({ p }) => p);
  const adjusted = ADJUST[method](sorted, m);
  const answer: (number | null)[] = pValues.map(() => null);
  for (const [rank, { index }] of ranked.entries())
    answer[index] = Math.min(1, adjusted[rank] ?? 1);
  return answer;
}

type AdjustSorted = (sorted: readonly number[], m: number) => number[];

const ADJUST: { readonly [method in Adjustment]: AdjustSorted } = {
  bonferroni: (sorted, m) => sorted.map((p) => p * m),
  sidak: (sorted, m) => sorted.map((p) => anyOf(p, m)),
  holm: (sorted, m) => runningMaximum(sorted.map((p, rank) => Math.min(1, (m - rank) * p))),
  holm_sidak: (sorted, m) => runningMaximum(sorted.map((p, rank) => anyOf(p, m - rank))),
  hochberg: (sorted, m) => minimumFromEnd(sorted.map((p, rank) => (m - rank) * p)),
  bh: (sorted, m) => minimumFromEnd(sorted.map((p, rank) => (p * m) / (rank + 1))),
  by: (sorted, m) => {
    const harmonic = sorted.reduce((total, _, rank) => total + 1 / (rank + 1), 0);
    return minimumFromEnd(sorted.map((p, rank) => (p * m * harmonic) / (rank + 1)));
  },
};

/** 1 - (1 - p)^tests, also for tiny p. */
function anyOf(p: number, tests: number): number {
  return -Math.expm1(tests * Math.log1p(-p));
}

function runningMaximum(values: readonly number[]): number[] {
  let largest = 0;
  return values.map((value) => {
    largest = Math.max(largest, value);
    return largest;
  });
}

function minimumFromEnd(values: readonly number[]): number[] {
  let smallest = 1;
  return values
    .toReversed()
    .map((value) => {
      smallest = Math.min(smallest, value);
      return smallest;
    })
    .toReversed();
}

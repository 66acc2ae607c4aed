import type { ArmSums } from "@hedgerow/core/statistics/arm";
import type { ArmMeasure } from "../../../experiments/experiment-measures.ts";

/** Arms by their variant; those without units may be left out. */
export type Arms = ReadonlyMap<string, ArmMeasure>;

/** What a metric came to. */
export interface Tallies {
  readonly arms: Arms;
  /** By the number of the cell. */
  readonly cells: ReadonlyMap<number, Arms>;
  /** By the end of each day of the query; empty where that was not asked for. */
  readonly days: readonly Arms[];
}

/** Sums over the units of an arm as statements give them: how many, of each variable, of each product. */
export interface SumVector {
  readonly n: number;
  /** Of y, d where there is one, and the covariates. */
  readonly sums: readonly number[];
  /** Of pairs of them, in the order of {@link pairsOf}. */
  readonly products: readonly number[];
}

/** Places of variables, each with itself and those after it. */
export function pairsOf(variables: number): readonly (readonly [number, number])[] {
  const pairs: [number, number][] = [];
  for (let left = 0; left < variables; left += 1)
    for (let right = left; right < variables; right += 1) pairs.push([left, right]);
  return pairs;
}

/** Names the parts of a vector. */
export function armSumsOf({ n, sums, products }: SumVector, hasDenominator: boolean): ArmSums {
  const pairs = pairsOf(sums.length);
  const product = (left: number, right: number): number => {
    const place = pairs.findIndex(
      ([a, b]) => a === Math.min(left, right) && b === Math.max(left, right),
    );
    return products[place] ?? 0;
  };
  const first = hasDenominator ? 2 : 1;
  const covariates = sums.slice(first).map((_, index) => first + index);
  return {
    n,
    sum: sums[0] ?? 0,
    sumSquares: product(0, 0),
    ...(hasDenominator && {
      denominator: {
        sum: sums[1] ?? 0,
        sumSquares: product(1, 1),
        withMain: product(0, 1),
      },
    }),
    ...(covariates.length > 0 && {
      covariates: {
        sums: covariates.map((place) => sums[place] ?? 0),
        products: covariates.map((left) => covariates.map((right) => product(left, right))),
        withMain: covariates.map((place) => product(0, place)),
        ...(hasDenominator && { withDenominator: covariates.map((place) => product(1, place)) }),
      },
    }),
  };
}

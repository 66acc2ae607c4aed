import type { Estimate } from "./arm.ts";
import { normalQuantile } from "./normal-distribution.ts";

/** A quantile of one arm's values, with the order statistics that bound it. */
export interface QuantileArm {
  /** Values. */
  readonly n: number;
  /** The values from which the order statistics were taken; usually all. */
  readonly sampled: number;
  /** Which quantile, between 0 and 1. */
  readonly nu: number;
  readonly value: number;
  readonly lower: number;
  readonly upper: number;
  /** Where a unit has several values: sums over units. */
  readonly clusters?: ClusterSums;
}

/** Sums over units of s, how many of a unit's values are at most the quantile, and of v, how many it has. */
export interface ClusterSums {
  readonly count: number;
  readonly sum: number;
  readonly sumSquares: number;
  readonly values: number;
  readonly valuesSquares: number;
  readonly products: number;
}

/** Which order statistics, counted from 1, are the quantile and the bounds of its interval. */
export function quantileRanks(
  n: number,
  nu: number,
  alpha: number,
): { readonly rank: number; readonly lower: number; readonly upper: number } {
  const reach = -normalQuantile(alpha / 2) * Math.sqrt(n * nu * (1 - nu));
  return {
    rank: Math.ceil(n * nu),
    lower: Math.max(1, Math.floor(n * nu - reach)),
    upper: Math.min(n, Math.ceil(n * nu + reach)),
  };
}

/** Whether there are values enough that both bounds are order statistics of their own (statistics 5.9). */
export function hasQuantile(n: number, nu: number, alpha: number): boolean {
  const z = normalQuantile(alpha / 2);
  return n > z * z * Math.max(nu / (1 - nu), (1 - nu) / nu);
}

/**
 * The quantile as an estimate with a variance per value, from the width between its bounds; where
 * values cluster by unit, widened by how much more the share below varies than for single values.
 */
export function quantileEstimate(arm: QuantileArm, alpha: number): Estimate {
  const z = -normalQuantile(alpha / 2);
  const half = (arm.upper - arm.lower) / (2 * z);
  const variance = (arm.n - 1) * half * half * (arm.sampled / arm.n);
  if (arm.clusters === undefined) return { n: arm.n, mean: arm.value, variance };
  const spread = clusterVariance(arm.clusters) / ((arm.nu * (1 - arm.nu)) / arm.n);
  return { n: arm.n, mean: arm.value, variance: variance * spread };
}

/** The variance of the share of values below the quantile, by the delta method over units. */
function clusterVariance(clusters: ClusterSums): number {
  const { count: m } = clusters;
  const mean = clusters.sum / m;
  const size = clusters.values / m;
  const share = mean / size;
  const variance = (squares: number, left: number, right: number): number =>
    (squares - (left * right) / m) / (m - 1);
  const own = variance(clusters.sumSquares, clusters.sum, clusters.sum);
  const sizes = variance(clusters.valuesSquares, clusters.values, clusters.values);
  const both = variance(clusters.products, clusters.sum, clusters.values);
  return (own - 2 * share * both + share * share * sizes) / (size * size * m);
}

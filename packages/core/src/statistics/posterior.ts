import type { Interval } from "./difference.ts";
import { millsRatio, normalDensity, normalQuantile, normalSf } from "./normal-distribution.ts";

/** A normal distribution: what is believed of an effect. */
export interface Belief {
  readonly mean: number;
  readonly sd: number;
}

/** A normal prior; `null` where one is taken means a flat one. */
export interface Prior {
  readonly mean: number;
  readonly variance: number;
}

/** What follows from a belief about an effect. */
export interface Beliefs {
  /** P(effect > 0). */
  readonly chanceToWin: number;
  /** P(effect < 0), computed itself, so that tiny chances stay right. */
  readonly chanceToLose: number;
  readonly interval: Interval;
  /** Expected loss of keeping control: E max(effect, 0). */
  readonly lossIfKept: number;
  /** Expected loss of shipping the treatment: E max(-effect, 0). */
  readonly lossIfShipped: number;
}

/** An estimate with normal error, and a prior, weighted by their precisions (statistics 1.4). */
export function updateBelief(estimate: number, variance: number, prior: Prior | null): Belief {
  if (prior === null) return { mean: estimate, sd: Math.sqrt(variance) };
  const precision = 1 / variance + 1 / prior.variance;
  return {
    mean: (estimate / variance + prior.mean / prior.variance) / precision,
    sd: Math.sqrt(1 / precision),
  };
}

/** Chances, central interval of a level such as 0.95, and losses of an effect believed to be normal. */
export function believe({ mean, sd }: Belief, level: number): Beliefs {
  const reach = -normalQuantile((1 - level) / 2) * sd;
  return {
    chanceToWin: normalSf(-mean / sd),
    chanceToLose: normalSf(mean / sd),
    interval: [mean - reach, mean + reach],
    lossIfKept: expectedExcess({ mean, sd }),
    lossIfShipped: expectedExcess({ mean: -mean, sd }),
  };
}

/** E max(X, 0) of a normal X, also where it is tiny. */
export function expectedExcess({ mean, sd }: Belief): number {
  if (sd === 0) return Math.max(0, mean);
  const z = -mean / sd;
  return z > 1
    ? sd * normalDensity(z) * (1 - z * millsRatio(z))
    : sd * (normalDensity(z) - z * normalSf(z));
}

/** What a belief about ln(treatment / control) says of the lift. */
export interface LiftBeliefs extends Beliefs {
  readonly median: number;
  readonly mean: number;
}

/** Chances, interval and losses of the lift e^X - 1, which is never below -100 % (statistics 5.4). */
export function believeLift({ mean, sd }: Belief, level: number): LiftBeliefs {
  const { chanceToWin, chanceToLose, interval } = believe({ mean, sd }, level);
  return {
    chanceToWin,
    chanceToLose,
    interval: [Math.expm1(interval[0]), Math.expm1(interval[1])],
    lossIfKept: expectedGain(mean, sd),
    lossIfShipped: expectedShortfall(mean, sd),
    median: Math.expm1(mean),
    mean: Math.expm1(mean + (sd * sd) / 2),
  };
}

/** E max(e^X - 1, 0). */
function expectedGain(mean: number, sd: number): number {
  const z = -mean / sd;
  if (z > 0) return normalDensity(z) * (millsRatio(z - sd) - millsRatio(z));
  const upper = normalSf(z - sd);
  return Math.expm1(mean + (sd * sd) / 2) * upper + (upper - normalSf(z));
}

/** E max(1 - e^X, 0). */
function expectedShortfall(mean: number, sd: number): number {
  const z = mean / sd;
  if (z > 0) return normalDensity(z) * (millsRatio(z) - millsRatio(z + sd));
  const lower = normalSf(z + sd);
  return -Math.expm1(mean + (sd * sd) / 2) * lower + (normalSf(z) - lower);
}

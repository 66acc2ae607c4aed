import { betaCdf, betaDensity, betaQuantile, betaSf } from "./beta-distribution.ts";
import type { Interval } from "./difference.ts";
import { gammaCdf, gammaDensity, gammaQuantile, gammaSf } from "./gamma-distribution.ts";
import { normalDensity, normalQuantile, normalSf } from "./normal-distribution.ts";
import { forEachNode, integrate, solveIncreasing } from "./quadrature.ts";

/** The posterior of one arm's value. */
export interface Posterior {
  readonly mean: number;
  density(x: number): number;
  /** P(value <= x). */
  cdf(x: number): number;
  /** P(value > x). */
  sf(x: number): number;
  quantile(p: number): number;
  /** Between these is all but 1e-17 on each side. */
  readonly support: Interval;
}

/** What is left out of integrals at each end. */
const NEGLIGIBLE = 1e-17;

/** The beta distribution; shapes must be at least 1, where its density is bounded. */
export function betaPosterior(a: number, b: number): Posterior {
  return {
    mean: a / (a + b),
    density: (x) => betaDensity(a, b, x),
    cdf: (x) => betaCdf(a, b, x),
    sf: (x) => betaSf(a, b, x),
    quantile: (p) => betaQuantile(p, a, b),
    support: [betaQuantile(NEGLIGIBLE, a, b), 1 - betaQuantile(NEGLIGIBLE, b, a)],
  };
}

/** The gamma distribution of a rate. */
export function gammaPosterior(shape: number, rate: number): Posterior {
  return {
    mean: shape / rate,
    density: (x) => rate * gammaDensity(shape, rate * x),
    cdf: (x) => gammaCdf(shape, rate * x),
    sf: (x) => gammaSf(shape, rate * x),
    quantile: (p) => gammaQuantile(p, shape) / rate,
    support: [
      gammaQuantile(NEGLIGIBLE, shape) / rate,
      upperGammaQuantile(NEGLIGIBLE, shape) / rate,
    ],
  };
}

/** The normal distribution. */
export function normalPosterior(mean: number, sd: number): Posterior {
  const reach = -normalQuantile(NEGLIGIBLE) * sd;
  return {
    mean,
    density: (x) => normalDensity((x - mean) / sd) / sd,
    cdf: (x) => normalSf((mean - x) / sd),
    sf: (x) => normalSf((x - mean) / sd),
    quantile: (p) => mean + normalQuantile(p) * sd,
    support: [mean - reach, mean + reach],
  };
}

/** P(first > second) of two independent posteriors, right also where it is small. */
function chanceToExceed(first: Posterior, second: Posterior): number {
  return integrate((x) => first.density(x) * second.cdf(x), cutsWithin(first, [second]));
}

/** P(first / second <= factor). */
function chanceOfRatio(first: Posterior, second: Posterior, factor: number): number {
  const [low, high] = second.support;
  const cuts = [...first.support, first.mean].map((x) => x / factor);
  return integrate(
    (x) => second.density(x) * first.cdf(factor * x),
    clip([low, high, second.mean, ...cuts], second.support),
  );
}

/** P(first - second <= gap). */
function chanceOfGap(first: Posterior, second: Posterior, gap: number): number {
  const cuts = [...first.support, first.mean].map((x) => x - gap);
  return integrate(
    (x) => second.density(x) * first.cdf(x + gap),
    clip([...second.support, second.mean, ...cuts], second.support),
  );
}

/** The central interval of the lift of two positive values, treatment by control less one. */
export function liftInterval(control: Posterior, treatment: Posterior, level: number): Interval {
  const at = (p: number): number => {
    const low = Math.log(treatment.support[0] / control.support[1]);
    const high = Math.log(treatment.support[1] / control.support[0]);
    const log = solveIncreasing(
      (w) => chanceOfRatio(treatment, control, Math.exp(w)),
      p,
      low,
      high,
    );
    return Math.expm1(log);
  };
  return [at((1 - level) / 2), at((1 + level) / 2)];
}

/** The central interval of the difference, treatment minus control. */
export function differenceInterval(
  control: Posterior,
  treatment: Posterior,
  level: number,
): Interval {
  const at = (p: number): number =>
    solveIncreasing(
      (gap) => chanceOfGap(treatment, control, gap),
      p,
      treatment.support[0] - control.support[1],
      treatment.support[1] - control.support[0],
    );
  return [at((1 - level) / 2), at((1 + level) / 2)];
}

/** Successes and failures. */
export interface Binomial {
  readonly successes: number;
  readonly failures: number;
}

/** A count and how long or over how many units it was counted. */
export interface Counted {
  readonly count: number;
  readonly exposure: number;
}

/** What exact posteriors of two arms say; losses are in the arms' own units. */
export interface ExactComparison {
  readonly control: Posterior;
  readonly treatment: Posterior;
  readonly chanceToWin: number;
  readonly chanceToLose: number;
  /** E max(control - treatment, 0). */
  readonly lossIfShipped: number;
  /** E max(treatment - control, 0). */
  readonly lossIfKept: number;
}

/**
 * Two conversion rates with a Beta(alpha, beta) prior, without sampling: the losses come from chances of
 * size-biased posteriors, since E[X 1(X > Y)] = E[X] P(X+ > Y) (statistics 5.5).
 */
export function compareBinomials(
  control: Binomial,
  treatment: Binomial,
  prior: { readonly alpha: number; readonly beta: number } = { alpha: 1, beta: 1 },
): ExactComparison {
  const shapes = ({ successes, failures }: Binomial): [number, number] => [
    prior.alpha + successes,
    prior.beta + failures,
  ];
  const [a, b] = shapes(control);
  const [c, d] = shapes(treatment);
  return compareExactly(
    betaPosterior(a, b),
    betaPosterior(c, d),
    betaPosterior(a + 1, b),
    betaPosterior(c + 1, d),
    chanceToExceed,
  );
}

/** Two rates of counts with a Gamma(shape, rate) prior; every chance is one incomplete beta function. */
export function compareCounts(
  control: Counted,
  treatment: Counted,
  prior: { readonly shape: number; readonly rate: number } = { shape: 1, rate: 0 },
): ExactComparison & { readonly liftInterval: (level: number) => Interval } {
  const shapeC = prior.shape + control.count;
  const shapeT = prior.shape + treatment.count;
  const rateC = prior.rate + control.exposure;
  const rateT = prior.rate + treatment.exposure;
  const share = rateC / (rateC + rateT);
  const chance = (plusC: number, plusT: number): { win: number; lose: number } => ({
    win: betaCdf(shapeC + plusC, shapeT + plusT, share),
    lose: betaSf(shapeC + plusC, shapeT + plusT, share),
  });
  const plain = chance(0, 0);
  const biasedC = chance(1, 0);
  const biasedT = chance(0, 1);
  const meanC = shapeC / rateC;
  const meanT = shapeT / rateT;
  // Odds of Beta(shapeT, shapeC) times the ratio of rates are the ratio of the two posteriors.
  const ratioAt = (p: number): number => {
    const ahead = betaQuantile(p, shapeT, shapeC);
    return ((rateC / rateT) * ahead) / (1 - ahead) - 1;
  };
  return {
    control: gammaPosterior(shapeC, rateC),
    treatment: gammaPosterior(shapeT, rateT),
    chanceToWin: plain.win,
    chanceToLose: plain.lose,
    lossIfShipped: Math.max(0, meanC * biasedC.lose - meanT * biasedT.lose),
    lossIfKept: Math.max(0, meanT * biasedT.win - meanC * biasedC.win),
    liftInterval: (level) => [ratioAt((1 - level) / 2), ratioAt((1 + level) / 2)],
  };
}

function compareExactly(
  control: Posterior,
  treatment: Posterior,
  controlBiased: Posterior,
  treatmentBiased: Posterior,
  chance: (first: Posterior, second: Posterior) => number,
): ExactComparison {
  return {
    control,
    treatment,
    chanceToWin: chance(treatment, control),
    chanceToLose: chance(control, treatment),
    lossIfShipped: Math.max(
      0,
      control.mean * chance(controlBiased, treatment) -
        treatment.mean * chance(control, treatmentBiased),
    ),
    lossIfKept: Math.max(
      0,
      treatment.mean * chance(treatmentBiased, control) -
        control.mean * chance(treatment, controlBiased),
    ),
  };
}

/** For each arm: the chance to be the best of all, and the expected loss against the best. */
export function bestOf(
  arms: readonly Posterior[],
): readonly { readonly chanceToBeBest: number; readonly lossAgainstBest: number }[] {
  const chances = arms.map(() => 0);
  let largest = 0;
  for (const [index, arm] of arms.entries()) {
    const others = arms.filter((_, other) => other !== index);
    forEachNode(cutsWithin(arm, others), (x, weight) => {
      let density = weight * arm.density(x);
      for (const other of others) density *= other.cdf(x);
      chances[index] = (chances[index] ?? 0) + density;
      largest += x * density;
    });
  }
  const total = chances.reduce((sum, chance) => sum + chance, 0);
  return arms.map((arm, index) => ({
    chanceToBeBest: (chances[index] ?? 0) / total,
    lossAgainstBest: Math.max(0, largest / total - arm.mean),
  }));
}

/** The support of a posterior, cut where others begin, end and have their mean. */
function cutsWithin(own: Posterior, others: readonly Posterior[]): number[] {
  return clip(
    [...own.support, own.mean, ...others.flatMap((other) => [...other.support, other.mean])],
    own.support,
  );
}

function clip(cuts: readonly number[], [low, high]: Interval): number[] {
  return cuts.filter((cut) => cut >= low && cut <= high);
}

/** The x with P(X > x) = p, for the gamma distribution with rate 1 and tiny p. */
function upperGammaQuantile(p: number, shape: number): number {
  // Twice the quantile of what is not negligible reaches beyond; then the tail is solved for itself.
  const start = gammaQuantile(0.999, shape);
  let high = start * 2;
  while (gammaSf(shape, high) > p) high *= 2;
  return -solveIncreasing((x) => Math.log(gammaSf(shape, -x)), Math.log(p), -high, -start);
}

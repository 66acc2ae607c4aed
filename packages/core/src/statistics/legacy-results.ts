import { betaCdf } from "./beta-distribution.ts";
import type { Interval } from "./difference.ts";
import {
  type Binomial,
  bestOf,
  betaPosterior,
  compareBinomials,
  gammaPosterior,
  type Posterior,
} from "./exact-posterior.ts";

/** What PostHog's former engine said of a result as a whole. */
export type SignificanceCode =
  | "significant"
  | "not_enough_exposure"
  | "low_win_probability"
  | "high_loss"
  | "high_p_value";

/** A former result, exact where PostHog drew samples (statistics 2). Lists begin with the control. */
export interface LegacyResult {
  readonly probabilities: readonly number[];
  readonly intervals: readonly Interval[];
  readonly code: SignificanceCode;
  /** The expected loss of a funnel; the p-value of a trend. In version 2 a loss in both. */
  readonly value: number;
}

/** A trend's variant: events, and how many were exposed. */
export interface LegacyTrendVariant {
  readonly count: number;
  readonly exposure: number;
}

const MIN_EXPOSURE = 100;
const MIN_PROBABILITY = 0.9;
const MAX_LOSS = 0.01;
const MAX_P_VALUE = 0.05;

/** Version 1 of a funnel's result: Beta(1, 1) before the data. */
export function legacyFunnelResult(variants: readonly Binomial[]): LegacyResult {
  const { probabilities, intervals } = read(
    variants.map(({ successes, failures }) => betaPosterior(successes + 1, failures + 1)),
  );
  const early = earlyCode(variants.map(exposureOf), probabilities, winsAsSum);
  if (early !== null) return { probabilities, intervals, code: early, value: 1 };
  const value = lossOfBestTreatment(variants);
  const code = value >= MAX_LOSS ? "high_loss" : "significant";
  return { probabilities, intervals, code, value };
}

/** Version 2 of a funnel's result, in its first form: 0 when significant, 1 otherwise. */
export function legacyFunnelResultV2(variants: readonly Binomial[]): LegacyResult {
  const { probabilities, intervals } = read(
    variants.map(({ successes, failures }) => betaPosterior(successes + 1, failures + 1)),
  );
  const early = earlyCode(variants.map(exposureOf), probabilities, winsAlone);
  return {
    probabilities,
    intervals,
    code: early ?? "significant",
    value: early === null ? 0 : 1,
  };
}

/** Version 1 of a trend's result: the rate of counts, with the prior's rate left out. */
export function legacyTrendResult(variants: readonly LegacyTrendVariant[]): LegacyResult {
  const { probabilities, intervals } = read(
    variants.map(({ count, exposure }) => gammaPosterior(count + 1, exposure)),
  );
  const early = earlyCode(
    variants.map(({ exposure }) => exposure),
    probabilities,
    winsAsSum,
  );
  if (early !== null) return { probabilities, intervals, code: early, value: 1 };
  const value = conditionalPValue(variants);
  const code = value >= MAX_P_VALUE ? "high_p_value" : "significant";
  return { probabilities, intervals, code, value };
}

/** Version 2 of a trend's result for counts: Gamma(1, 1) before the data, and a loss for a p-value. */
export function legacyTrendResultV2(variants: readonly LegacyTrendVariant[]): LegacyResult {
  const posteriors = variants.map(({ count, exposure }) => gammaPosterior(count + 1, exposure + 1));
  const { probabilities, intervals, losses } = read(posteriors);
  const early = earlyCode(
    variants.map(({ exposure }) => exposure),
    probabilities,
    winsAlone,
  );
  if (early !== null) return { probabilities, intervals, code: early, value: 1 };
  const best = indexOfLargest(variants.map(({ count, exposure }) => count / exposure));
  const value = losses[best] ?? 1;
  const code = value >= MAX_LOSS ? "high_loss" : "significant";
  return { probabilities, intervals, code, value };
}

/** Chances to be best (the control's is what the others leave), central intervals, losses against the best. */
function read(posteriors: readonly Posterior[]): {
  probabilities: number[];
  intervals: Interval[];
  losses: number[];
} {
  const best = bestOf(posteriors);
  const treatments = best.slice(1).map(({ chanceToBeBest }) => chanceToBeBest);
  const control = Math.max(0, 1 - treatments.reduce((sum, chance) => sum + chance, 0));
  return {
    probabilities: [control, ...treatments],
    intervals: posteriors.map(({ quantile }) => [quantile(0.025), quantile(0.975)]),
    losses: best.map(({ lossAgainstBest }) => lossAgainstBest),
  };
}

/** The reasons that come before any test. */
function earlyCode(
  exposures: readonly number[],
  probabilities: readonly number[],
  hasWinner: (probabilities: readonly number[]) => boolean,
): SignificanceCode | null {
  if (exposures.some((exposure) => exposure < MIN_EXPOSURE)) return "not_enough_exposure";
  return hasWinner(probabilities) ? null : "low_win_probability";
}

function winsAsSum([control = 0, ...treatments]: readonly number[]): boolean {
  const sum = treatments.reduce((total, chance) => total + chance, 0);
  return control >= MIN_PROBABILITY || sum >= MIN_PROBABILITY;
}

function winsAlone(probabilities: readonly number[]): boolean {
  return Math.max(...probabilities) >= MIN_PROBABILITY;
}

function exposureOf({ successes, failures }: Binomial): number {
  return successes + failures;
}

/** What is lost by the better of the control and the treatment with the highest rate, of these two. */
function lossOfBestTreatment([control, ...treatments]: readonly Binomial[]): number {
  const best = treatments[indexOfLargest(treatments.map(rateOf))];
  if (control === undefined || best === undefined) return 1;
  const { lossIfShipped, lossIfKept } = compareBinomials(control, best);
  return rateOf(best) > rateOf(control) ? lossIfShipped : lossIfKept;
}

function rateOf({ successes, failures }: Binomial): number {
  return successes / (successes + failures);
}

/**
 * The doubled smaller tail of the binomial distribution of the control's and one treatment's counts: of
 * the treatment with the largest count, as the former engine chose it whatever the exposures.
 */
function conditionalPValue([control, ...treatments]: readonly LegacyTrendVariant[]): number {
  const treatment = treatments[indexOfLargest(treatments.map(({ count }) => count))];
  if (control === undefined || treatment === undefined) return 1;
  const total = control.count + treatment.count;
  const k = treatment.count;
  const share = treatment.exposure / (control.exposure + treatment.exposure);
  const atMost = k >= total ? 1 : betaCdf(total - k, k + 1, 1 - share);
  const atLeast = k <= 0 ? 1 : betaCdf(k, total - k + 1, share);
  return Math.min(1, 2 * Math.min(atMost, atLeast));
}

function indexOfLargest(values: readonly number[]): number {
  return values.reduce((best, value, index) => (value > (values[best] ?? value) ? index : best), 0);
}

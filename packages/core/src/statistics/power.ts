import { normalQuantile, normalSf } from "./normal-distribution.ts";
import type { Prior } from "./posterior.ts";
import { solveIncreasing } from "./quadrature.ts";
import { sequentialQuantile } from "./sequential.ts";

/** Standard errors at which every effect is found: tails of larger numbers are none. */
const CERTAIN = 1000;

/** The chance that a test finds an effect, counted in standard errors; of two sides, either way (5.13). */
export function powerOf(standardized: number, critical: number, sides: 1 | 2 = 2): number {
  const size = Math.min(standardized, CERTAIN);
  const found = normalSf(critical - size);
  return sides === 1 ? found : found + normalSf(critical + size);
}

/** How large a test is to be: its level, its power, and one side or two. */
export interface TestDesign {
  readonly alpha: number;
  readonly power: number;
  /** Two unless given. */
  readonly sides?: 1 | 2;
}

/** Units of the control arm: the smallest whole number that reaches the power, and the textbook's formula. */
export interface SampleSize {
  readonly control: number;
  readonly achievedPower: number;
  readonly closedForm: number;
}

/** Variances per unit of two arms and the difference of their means that is to be found. */
export interface MeansDesign extends TestDesign {
  readonly controlVariance: number;
  readonly treatmentVariance: number;
  readonly effect: number;
  /** Treatment units per control unit. */
  readonly ratio: number;
}

/** Units for a difference of means; the treatment has `ratio` times as many, which need not be whole. */
export function sampleSizeForMeans(design: MeansDesign): SampleSize {
  const variance = design.controlVariance + design.treatmentVariance / design.ratio;
  return smallestSize(design, variance, (n) => ({
    standardError: Math.sqrt(variance / n),
    nullError: Math.sqrt(variance / n),
  }));
}

/** Two conversion rates that are to be told apart. */
export interface ProportionsDesign extends TestDesign {
  readonly control: number;
  readonly treatment: number;
  readonly ratio: number;
  /** True for the test whose variance is pooled under "no effect". */
  readonly pooled: boolean;
}

/** Units for two conversion rates. */
export function sampleSizeForProportions(design: ProportionsDesign): SampleSize {
  const { control, treatment, ratio } = design;
  const variance = control * (1 - control) + (treatment * (1 - treatment)) / ratio;
  const mean = (control + ratio * treatment) / (1 + ratio);
  const pooled = mean * (1 - mean) * (1 + 1 / ratio);
  return smallestSize({ ...design, effect: treatment - control }, variance, (n) => ({
    standardError: Math.sqrt(variance / n),
    nullError: Math.sqrt((design.pooled ? pooled : variance) / n),
  }));
}

/**
 * Units per arm to show that a rate is not worse by `margin`, where in truth the arms are alike;
 * one-sided. The closed form is before rounding.
 */
export function sampleSizeForNonInferiority(
  rate: number,
  margin: number,
  design: TestDesign,
): { readonly perArm: number; readonly closedForm: number } {
  const z = -normalQuantile(design.alpha) + normalQuantile(design.power);
  const closedForm = (z * z * 2 * rate * (1 - rate)) / (margin * margin);
  return { perArm: Math.ceil(closedForm), closedForm };
}

/** The smallest difference of means that is found with the power; exact, and by the textbook's formula. */
export function minimumEffect(
  standardError: number,
  design: TestDesign,
): { readonly effect: number; readonly closedForm: number } {
  const critical = criticalOf(design);
  const closed = critical + normalQuantile(design.power);
  const exact = solveIncreasing(
    (size) => powerOf(size, critical, design.sides),
    design.power,
    0,
    critical + 40,
  );
  return { effect: exact * standardError, closedForm: closed * standardError };
}

/** A mean with its variance per unit, and the units of the two arms that are compared. */
export interface RelativeDesign {
  readonly mean: number;
  readonly variance: number;
  readonly controlUnits: number;
  readonly treatmentUnits: number;
  readonly alpha: number;
  /** For a test that may be looked at at any time: the sample it is tuned to. */
  readonly sequentialTuning?: number;
}

/** The chance to find a relative effect such as 0.05, with the same variance in both arms. */
export function relativePower(design: RelativeDesign, effect: number): number {
  const standardError = Math.sqrt(relativeVariance(design, effect)) * widening(design);
  return powerOf(Math.abs(effect) / standardError, -normalQuantile(design.alpha / 2));
}

/**
 * The smallest relative effect that is found with the power: the root e of
 * e^2 = (z + z_power)^2 (V/nT + (1+e)^2 V/nC)/m^2. `null` where no effect is large enough, since the
 * error grows with the effect.
 */
export function relativeMinimumEffect(design: RelativeDesign, power: number): number | null {
  const z = (-normalQuantile(design.alpha / 2) + normalQuantile(power)) * widening(design);
  const unit = (z * z * design.variance) / (design.mean * design.mean);
  const t = unit / design.treatmentUnits;
  const c = unit / design.controlUnits;
  // (1 - c) e^2 - 2 c e - (t + c) = 0
  if (c >= 1) return null;
  return (c + Math.sqrt(c * c + (1 - c) * (t + c))) / (1 - c);
}

/**
 * By how much the sample of a running experiment must still grow for its test to find `effect` with the
 * power: 0.5 means half as much again. 0 when it does already. With a prior, the chance that the
 * posterior interval leaves out zero.
 */
export function growthToReach(
  current: { readonly variance: number; readonly n: number },
  effect: number,
  design: TestDesign & { readonly prior?: Prior; readonly sequentialTuning?: number },
): number {
  const powerAt = (growth: number): number => {
    const units = (current.n * (1 + growth)) / 2;
    const scale = widening({ ...design, controlUnits: units, treatmentUnits: units });
    const variance = (current.variance / (1 + growth)) * scale * scale;
    const critical = criticalOf(design);
    return design.prior === undefined
      ? powerOf(Math.abs(effect) / Math.sqrt(variance), critical)
      : posteriorPower(effect, variance, design.prior, critical);
  };
  if (powerAt(0) >= design.power) return 0;
  let high = 1;
  while (powerAt(high) < design.power && high < 1e12) high *= 2;
  return solveIncreasing(powerAt, design.power, 0, high);
}

/** What PostHog's calculator knows of a metric. */
export type CalculatorMetric = "count" | "sum" | "funnel";

/**
 * The sample that PostHog's calculator recommends, all variants together (statistics 1.10): 16 variances
 * by the square of the difference, for each variant. `mde` is a fraction of the baseline.
 */
export function recommendedSampleSize(
  metric: CalculatorMetric,
  baseline: number,
  mde: number,
  variants: number,
): number {
  const difference = mde * baseline;
  const variance =
    metric === "count"
      ? 2 * baseline
      : metric === "sum"
        ? 0.25 * baseline * baseline
        : baseline * (1 - baseline);
  return Math.ceil(((16 * variance) / (difference * difference)) * variants);
}

function criticalOf({ alpha, sides }: TestDesign): number {
  return -normalQuantile(sides === 1 ? alpha : alpha / 2);
}

/**
 * How much wider than a fixed interval the one for all times is. Calculators of sequential designs scale
 * the whole standard error by it (statistics 3, GrowthBook), and so do these.
 */
function widening({
  alpha,
  controlUnits,
  treatmentUnits,
  sequentialTuning,
}: Omit<RelativeDesign, "mean" | "variance">): number {
  if (sequentialTuning === undefined) return 1;
  const units = controlUnits + treatmentUnits;
  return sequentialQuantile(units, alpha, sequentialTuning) / -normalQuantile(alpha / 2);
}

function relativeVariance(design: RelativeDesign, effect: number): number {
  const { mean, variance, controlUnits, treatmentUnits } = design;
  return (
    (variance / treatmentUnits + ((1 + effect) ** 2 * variance) / controlUnits) / (mean * mean)
  );
}

/** P(posterior mean / posterior sd is beyond the critical value) for a true effect. */
function posteriorPower(effect: number, variance: number, prior: Prior, critical: number): number {
  const precision = 1 / variance + 1 / prior.variance;
  const pull = prior.mean / prior.variance;
  const upper = variance * (critical * Math.sqrt(precision) - pull);
  const lower = variance * (-critical * Math.sqrt(precision) - pull);
  const sd = Math.sqrt(variance);
  return normalSf((upper - effect) / sd) + normalSf((effect - lower) / sd);
}

function smallestSize(
  design: TestDesign & { readonly effect: number },
  variance: number,
  errorsAt: (n: number) => { standardError: number; nullError: number },
): SampleSize {
  const critical = criticalOf(design);
  const effect = Math.abs(design.effect);
  const powerAt = (n: number): number => {
    const { standardError, nullError } = errorsAt(n);
    const bound = critical * nullError;
    const found = normalSf((bound - effect) / standardError);
    return design.sides === 1 ? found : found + normalSf((bound + effect) / standardError);
  };
  const z = critical + normalQuantile(design.power);
  const closedForm = (z * z * variance) / (effect * effect);
  let high = Math.max(1, Math.ceil(closedForm));
  while (powerAt(high) < design.power) high *= 2;
  let low = 0;
  while (high - low > 1) {
    const middle = Math.floor((low + high) / 2);
    if (middle > 0 && powerAt(middle) >= design.power) high = middle;
    else low = middle;
  }
  return { control: high, achievedPower: powerAt(high), closedForm };
}

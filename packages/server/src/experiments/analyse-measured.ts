import { compareQuantiles } from "@hedgerow/core/experiments/compare-quantiles";
import { type Interaction, testInteraction } from "@hedgerow/core/experiments/effect-interaction";
import type { Metric } from "@hedgerow/core/experiments/metric";
import { posthogCupedNumbers } from "@hedgerow/core/experiments/posthog-cuped";
import { estimateOf, momentsOf } from "@hedgerow/core/statistics/arm";
import {
  type ArmComparison,
  type ComparisonSpec,
  compareArms,
} from "@hedgerow/core/statistics/compare-arms";
import { differenceOf, type Interval } from "@hedgerow/core/statistics/difference";
import {
  type PosthogMethod,
  type PosthogNumbers,
  posthogNumbers,
  type ValidationFailure,
  validateVariant,
} from "@hedgerow/core/statistics/posthog-analysis";
import { confidenceSequence } from "@hedgerow/core/statistics/sequential";
import { createSlices } from "../platform/slices.ts";
import type { ArmMeasure, DayMeasure, Measured } from "./experiment-measures.ts";
import { CONTROL } from "./flag-of-experiment.ts";

/** A variant's sums, and what they say against the baseline. */
export interface VariantResult {
  readonly arm: ArmMeasure;
  readonly failures: readonly ValidationFailure[];
  /** PostHog's own; `null` where these cannot be told. */
  readonly numbers: PosthogNumbers | null;
  readonly comparison: ArmComparison;
}

/** Every treatment against the control. */
export interface Comparisons {
  readonly baseline: Pick<VariantResult, "arm" | "failures">;
  readonly variants: readonly VariantResult[];
}

/** The comparisons of the units with one value of the breakdown. */
export interface CellResult extends Comparisons {
  /** `null` where the property is absent, and for the rest. */
  readonly value: string | null;
  /** Whether it holds all values but the most frequent. */
  readonly isRest: boolean;
}

/** What a day's end said of a treatment. */
export interface DayVariant {
  readonly arm: ArmMeasure;
  readonly failures: readonly ValidationFailure[];
  /** The metric's value; `null` while it has none. */
  readonly value: number | null;
  /** The difference to the control, with an interval that holds at every look; `null` while unknown. */
  readonly difference: { readonly estimate: number; readonly interval: Interval } | null;
  /** PostHog's own, as of that day. */
  readonly numbers: PosthogNumbers | null;
}

/** A metric as it stood at the end of a day. */
export interface DayResult {
  readonly day: string;
  readonly baseline: Pick<DayVariant, "arm" | "failures" | "value">;
  readonly variants: readonly DayVariant[];
}

/** What someone who reads a result should know. */
export interface ResultWarning {
  readonly code: "values-not-numbers" | "texts-as-numbers" | "numbers-too-large";
  readonly detail: string;
}

/** A metric that was measured and compared. */
export interface AnalysedMetric extends Comparisons {
  /** Empty without a breakdown. */
  readonly cells: readonly CellResult[];
  /** Whether an effect differs between cells, for each treatment of which that can be told. */
  readonly interactions: readonly (Interaction & { readonly variant: string })[];
  /** Empty unless asked for. */
  readonly days: readonly DayResult[];
  /** Where values were cut. */
  readonly bounds: Measured["bounds"];
  readonly warnings: readonly ResultWarning[];
}

/** How measured sums are compared. */
export interface ComparisonTools {
  readonly method: PosthogMethod;
  /** Whether values are corrected by what they were before the exposure; `null` for not. */
  readonly lookbackMs: number | null;
  /** What is believed beforehand, and what a guardrail may lose. */
  readonly belief: Belief;
}

/** What a comparison takes for granted; nothing is assumed and nothing may be lost where both are `null`. */
export type Belief = Pick<ComparisonSpec, "prior" | "margin">;

/** The sample that an always-valid interval is tuned to unless a number is given (statistics 1.5). */
export const DEFAULT_TUNING = 5000;

/** Compares what was measured with the control, which must be among the arms; leaves others their turn. */
export async function analyseMeasured(
  measured: Measured,
  metric: Pick<Metric, "kind" | "goal">,
  tools: ComparisonTools,
): Promise<AnalysedMetric> {
  const slices = createSlices();
  const inSlices = async <Item, Result>(
    items: readonly Item[],
    compute: (item: Item) => Result,
  ) => {
    const results: Result[] = [];
    for (const item of items) {
      if (slices.isOver()) await slices.next();
      results.push(compute(item));
    }
    return results;
  };
  const cells = await inSlices(
    measured.cells,
    ({ value, isRest, arms }): CellResult => ({
      value,
      isRest,
      ...compareMeasured(arms, metric, tools),
    }),
  );
  return {
    ...compareMeasured(measured.arms, metric, tools),
    cells,
    interactions: interactionsOf(cells),
    days: await inSlices(measured.days, (day) => dayResultOf(day, metric, tools.method)),
    bounds: measured.bounds,
    warnings: warningsOf(measured),
  };
}

/** Statistics of every variant against the control, which must be among the arms. */
export function compareMeasured(
  arms: readonly ArmMeasure[],
  metric: Pick<Metric, "kind" | "goal">,
  { method, lookbackMs, belief }: ComparisonTools,
): Comparisons {
  const control = controlOf(arms);
  const treatments = arms.filter((arm) => arm !== control);
  const kind = metric.kind === "quantile" ? "mean" : metric.kind;
  const baseline = { arm: control, failures: validateVariant(control.sums, kind, true) };
  const isCorrected = lookbackMs !== null && (metric.kind === "mean" || metric.kind === "ratio");
  const tuning = method.sequentialTuning ?? DEFAULT_TUNING;
  const comparisons =
    metric.kind === "quantile"
      ? treatments.map((arm) =>
          compareQuantiles(control.quantile, arm.quantile, {
            level: method.level,
            sequentialTuning: tuning,
          }),
        )
      : compareArms(
          control.sums,
          treatments.map(({ sums }) => sums),
          {
            level: method.level,
            goal: metric.goal,
            prior: belief.prior,
            sequentialTuning: tuning,
            covariates: isCorrected ? (metric.kind === "ratio" ? "ratio" : "means") : null,
            margin: belief.margin,
          },
        );
  const variants = treatments.flatMap((arm, index): VariantResult[] => {
    const comparison = comparisons[index];
    if (!comparison) return [];
    const failures = validateVariant(arm.sums, kind, false);
    // Either's failure leaves nothing to compare (statistics 1.7).
    const isValid = failures.length === 0 && baseline.failures.length === 0;
    const numbersOf = () => {
      if (metric.kind === "quantile") return null;
      return isCorrected && metric.kind === "mean"
        ? posthogCupedNumbers(control.sums, arm.sums, method)
        : posthogNumbers(control.sums, arm.sums, kind, method);
    };
    return [{ arm, failures, numbers: isValid ? numbersOf() : null, comparison }];
  });
  return { baseline, variants };
}

function controlOf(arms: readonly ArmMeasure[]): ArmMeasure {
  const control = arms.find(({ variant }) => variant === CONTROL);
  if (!control) throw new Error("there is no control");
  return control;
}

function interactionsOf(cells: readonly CellResult[]): AnalysedMetric["interactions"] {
  const variants = cells[0]?.variants.map(({ arm }) => arm.variant) ?? [];
  return variants.flatMap((variant, index) => {
    const effects = cells.flatMap(({ baseline, variants: results }) => {
      const result = results[index];
      const isShown = baseline.failures.length === 0 && result?.failures.length === 0;
      return isShown && result.comparison.absolute ? [result.comparison.absolute] : [];
    });
    const interaction = testInteraction(effects);
    return interaction ? [{ variant, ...interaction }] : [];
  });
}

function dayResultOf(
  { day, arms }: DayMeasure,
  metric: Pick<Metric, "kind" | "goal">,
  method: PosthogMethod,
): DayResult {
  const control = controlOf(arms);
  const kind = metric.kind === "quantile" ? "mean" : metric.kind;
  const estimate = ({ sums }: ArmMeasure) => {
    const { covariates: _, ...own } = sums;
    const moments = momentsOf(own);
    return typeof moments === "string" ? null : estimateOf(moments);
  };
  const base = estimate(control);
  const baseFailures = validateVariant(control.sums, kind, true);
  const variants = arms
    .filter((arm) => arm !== control)
    .map((arm): DayVariant => {
      const own = estimate(arm);
      const effect = base && own ? differenceOf(base, own) : null;
      const isKnown = effect !== null && effect.standardError > 0;
      const failures = validateVariant(arm.sums, kind, false);
      const isValid = failures.length === 0 && baseFailures.length === 0;
      return {
        arm,
        failures,
        value: own?.mean ?? null,
        difference:
          isKnown && base && own
            ? {
                estimate: effect.estimate,
                interval: confidenceSequence(
                  effect.estimate,
                  effect.standardError,
                  base.n + own.n,
                  1 - method.level,
                  method.sequentialTuning ?? DEFAULT_TUNING,
                ).interval,
              }
            : null,
        numbers: isValid ? posthogNumbers(control.sums, arm.sums, kind, method) : null,
      };
    });
  return {
    day,
    baseline: {
      arm: control,
      failures: baseFailures,
      value: base?.mean ?? null,
    },
    variants,
  };
}

function warningsOf({ arms, notNumbers, textNumbers }: Measured): readonly ResultWarning[] {
  const warnings: ResultWarning[] = [];
  const events = (count: number) => (count === 1 ? "1 event has" : `${count} events have`);
  if (notNumbers > 0)
    warnings.push({
      code: "values-not-numbers",
      detail: `${events(notNumbers)} a value of the measured property that is no finite number. Such values do not count.`,
    });
  if (textNumbers > 0)
    warnings.push({
      code: "texts-as-numbers",
      detail: `${events(textNumbers)} the measured property as text. Such texts count as the numbers they say.`,
    });
  const totals = arms.flatMap(({ sums }) => [sums.sum, sums.sumSquares ?? 0]);
  if (!totals.every((total) => Number.isFinite(total)))
    warnings.push({
      code: "numbers-too-large",
      detail: "Values are so large that their sums cannot be told.",
    });
  return warnings;
}

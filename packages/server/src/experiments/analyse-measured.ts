import { compareQuantiles } from "@hedgerow/core/experiments/compare-quantiles";
import { type Interaction, testInteraction } from "@hedgerow/core/experiments/effect-interaction";
import type { Metric } from "@hedgerow/core/experiments/metric";
import { posthogCupedNumbers } from "@hedgerow/core/experiments/posthog-cuped";
import { type ArmSums, type Estimate, estimateOf, momentsOf } from "@hedgerow/core/statistics/arm";
import {
  type ArmComparison,
  type ComparisonSpec,
  compareArms,
} from "@hedgerow/core/statistics/compare-arms";
import {
  adjustArms,
  type CovariateForm,
  withinArmSlopes,
} from "@hedgerow/core/statistics/covariates";
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
    days: await inSlices(measured.days, (day) => dayResultOf(day, metric, tools)),
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
  const kind = sumsKindOf(metric);
  const baseline = { arm: control, failures: validateVariant(control.sums, kind, true) };
  const covariates = covariatesOf(metric, lookbackMs);
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
            covariates,
            margin: belief.margin,
          },
        );
  const variants = treatments.flatMap((arm, index): VariantResult[] => {
    const comparison = comparisons[index];
    if (!comparison) return [];
    const failures = validateVariant(arm.sums, kind, false);
    // Either's failure leaves nothing to compare (statistics 1.7).
    const isValid = failures.length === 0 && baseline.failures.length === 0;
    const numbers =
      isValid && metric.kind !== "quantile"
        ? numbersOf(control.sums, arm.sums, { kind, covariates, method })
        : null;
    return [{ arm, failures, numbers, comparison }];
  });
  return { baseline, variants };
}

/** What kind of metric the sums of another are like. */
function sumsKindOf({ kind }: Pick<Metric, "kind">) {
  return kind === "quantile" ? "mean" : kind;
}

/** How a metric is corrected by what its units were before; `null` for not at all. */
function covariatesOf(
  { kind }: Pick<Metric, "kind">,
  lookbackMs: ComparisonTools["lookbackMs"],
): CovariateForm | null {
  if (lookbackMs === null) return null;
  if (kind === "ratio") return "ratio";
  return kind === "mean" ? "means" : null;
}

/** PostHog's numbers, which it corrects for means alone. */
function numbersOf(
  control: ArmSums,
  treatment: ArmSums,
  {
    kind,
    covariates,
    method,
  }: {
    readonly kind: ReturnType<typeof sumsKindOf>;
    readonly covariates: CovariateForm | null;
    readonly method: PosthogMethod;
  },
): PosthogNumbers | null {
  return covariates === "means"
    ? posthogCupedNumbers(control, treatment, method)
    : posthogNumbers(control, treatment, kind, method);
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
  { method, lookbackMs }: ComparisonTools,
): DayResult {
  const control = controlOf(arms);
  const kind = sumsKindOf(metric);
  const covariates = covariatesOf(metric, lookbackMs);
  const estimates = estimatesOf(arms, covariates);
  const base = estimates.get(control);
  const baseFailures = validateVariant(control.sums, kind, true);
  const variants = arms
    .filter((arm) => arm !== control)
    .map((arm): DayVariant => {
      const own = estimates.get(arm);
      const failures = validateVariant(arm.sums, kind, false);
      const isValid = failures.length === 0 && baseFailures.length === 0;
      return {
        arm,
        failures,
        value: own?.unadjusted.mean ?? null,
        difference: base && own ? differenceAtAnyLook(base.adjusted, own.adjusted, method) : null,
        numbers: isValid ? numbersOf(control.sums, arm.sums, { kind, covariates, method }) : null,
      };
    });
  return {
    day,
    baseline: { arm: control, failures: baseFailures, value: base?.unadjusted.mean ?? null },
    variants,
  };
}

/** The values of the arms that have any, as they are and as they are compared. */
function estimatesOf(
  arms: readonly ArmMeasure[],
  covariates: CovariateForm | null,
): ReadonlyMap<ArmMeasure, { readonly unadjusted: Estimate; readonly adjusted: Estimate }> {
  const known = arms.flatMap((arm) => {
    const { covariates: _, ...own } = arm.sums;
    const moments = momentsOf(covariates === null ? own : arm.sums);
    return typeof moments === "string" ? [] : [{ arm, moments }];
  });
  const moments = known.map((one) => one.moments);
  const adjusted =
    covariates === null
      ? moments.map((one) => ({ unadjusted: estimateOf(one), adjusted: estimateOf(one) }))
      : adjustArms(moments, withinArmSlopes(moments, covariates), covariates);
  return new Map(
    known.flatMap(({ arm }, index) => {
      const estimate = adjusted[index];
      return estimate ? [[arm, estimate]] : [];
    }),
  );
}

function differenceAtAnyLook(
  base: Estimate,
  own: Estimate,
  { level, sequentialTuning = DEFAULT_TUNING }: PosthogMethod,
): DayVariant["difference"] {
  const { estimate, standardError } = differenceOf(base, own);
  if (!(standardError > 0)) return null;
  const units = base.n + own.n;
  const { interval } = confidenceSequence(
    estimate,
    standardError,
    units,
    1 - level,
    sequentialTuning,
  );
  return { estimate, interval };
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

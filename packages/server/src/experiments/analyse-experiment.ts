import type { MeasuredEvent, Metric } from "@hedgerow/core/experiments/metric";
import type { BacktrackingPatterns } from "@hedgerow/core/flags/pattern";
import { type ArmComparison, compareArms } from "@hedgerow/core/statistics/compare-arms";
import {
  type PosthogMethod,
  type PosthogNumbers,
  posthogNumbers,
  type ValidationFailure,
  validateVariant,
} from "@hedgerow/core/statistics/posthog-analysis";
import { type SampleRatio, testSampleRatio } from "@hedgerow/core/statistics/sample-ratio";
import type { Project } from "../accounts/account-store.ts";
import { QueryTooLong } from "../events/event-store.ts";
import { compilePropertySearch } from "../events/property-search.ts";
import { Refusal } from "../http/errors.ts";
import {
  type ArmMeasure,
  type ExperimentMeasures,
  type ExposureCount,
  type ExposureQuery,
  HOLDOUT_PREFIX,
  MULTIPLE_VARIANTS,
} from "./experiment-measures.ts";
import type { ExperimentView } from "./experiments.ts";
import { CONTROL, groupTypeOf, type Variant, variantsOf } from "./flag-of-experiment.ts";

/** What exposes units, and what becomes of those with several variants. */
export type ExposureCriteria = Pick<ExposureQuery, "marker" | "severalVariants">;

/** Who asks for what. */
export interface AnalysisRequest {
  readonly project: Pick<Project, "id" | "timeZone">;
  readonly view: ExperimentView;
  readonly criteria: ExposureCriteria;
}

/** Units exposed so far, day by day. */
export interface ExposureSeries {
  readonly variant: string;
  /** At the end of each day. */
  readonly counts: readonly number[];
}

/** Who was exposed to an experiment. */
export interface Exposures {
  readonly from: Date;
  /** The end of the experiment, or now. */
  readonly to: Date;
  /** UTC, `2026-03-01`. */
  readonly days: readonly string[];
  /** Declared variants in order, then units with several where these are left out. */
  readonly series: readonly ExposureSeries[];
  /** Units in holdouts, which the experiment does not expose. */
  readonly holdouts: readonly ExposureSeries[];
  /** Whether units are shared out as configured; `null` below 100 units. */
  readonly sampleRatio: {
    readonly test: SampleRatio;
    readonly variants: readonly string[];
  } | null;
  /** Variants that nobody should be in by the flag's shares, and somebody is. */
  readonly withoutShare: readonly string[];
}

/** A variant's sums, and what they say against the baseline. */
export interface VariantResult {
  readonly arm: ArmMeasure;
  readonly failures: readonly ValidationFailure[];
  /** PostHog's own; `null` where these cannot be told. */
  readonly numbers: PosthogNumbers | null;
  readonly comparison: ArmComparison;
}

/** A metric of an experiment. */
export interface Analysis {
  readonly baseline: Pick<VariantResult, "arm" | "failures">;
  readonly variants: readonly VariantResult[];
}

/** What stored events say of experiments. Every event acknowledged before a call is seen by it. */
export interface AnalyseExperiment {
  /** Refuses a draft, and events that take too long to go through. */
  exposures(request: AnalysisRequest): Promise<Exposures>;
  analyse(
    request: AnalysisRequest & { readonly metric: Metric; readonly method: PosthogMethod },
  ): Promise<Analysis>;
}

/** {@link AnalyseExperiment} over measured events. Nothing is saved. */
export function createAnalyseExperiment({
  measures,
  caughtUp,
  backtracking,
  clock,
}: {
  measures: ExperimentMeasures;
  /** Resolves once everything captured before is stored, or that takes too long. */
  caughtUp: () => Promise<unknown>;
  backtracking: BacktrackingPatterns;
  clock: () => Date;
}): AnalyseExperiment {
  const queryOf = ({ project, view, criteria }: AnalysisRequest): ExposureQuery => {
    const { startDate, endDate } = view.experiment;
    if (startDate === null) throw refuse("Experiment has not been launched yet.");
    const now = clock();
    const tools = { now: endDate ?? now, timeZone: project.timeZone, backtracking };
    return {
      projectId: project.id,
      flagKey: view.flag.key,
      groupTypeIndex: groupTypeOf(view.flag.filters),
      variants: variantsOf(view.flag.filters).map(({ key }) => key),
      from: startDate,
      to: endDate !== null && endDate < now ? endDate : now,
      ...criteria,
      conditionOf: (filters) =>
        compilePropertySearch(filters, { ...tools, patternBudgets: PATTERN_BUDGETS }),
    };
  };
  const ask = async <Found>(question: () => Promise<Found>): Promise<Found> => {
    await caughtUp();
    try {
      return await question();
    } catch (error) {
      if (!(error instanceof QueryTooLong)) throw error;
      throw refuse("There are too many events to go through for this experiment.");
    }
  };

  return {
    async exposures(request) {
      const query = queryOf(request);
      const counts = await ask(() => measures.exposures(query));
      return exposuresOf(query, variantsOf(request.view.flag.filters), counts);
    },

    async analyse({ metric, method, ...request }) {
      const query = queryOf(request);
      if (!query.variants.includes(CONTROL))
        throw refuse("The flag of the experiment has no control variant.");
      return analysisOf(await ask(() => measures.measure(query, metric)), metric, method);
    },
  };
}

/** Patterns of one metric may cost as much as those of so many flag requests. */
const PATTERN_BUDGETS = 1000;

function refuse(detail: string): Refusal {
  return new Refusal("invalid_input", detail, { attr: "query__experiment_id" });
}

const MS_PER_DAY = 86_400_000;
/** Days shown at most: the last ones. */
const MAX_DAYS = 3660;
/** Below this many units shares are not compared (statistics 1.9). */
const MIN_UNITS = 100;

/** Cumulative counts by day, and whether the shares are the flag's. */
export function exposuresOf(
  { from, to }: Pick<ExposureQuery, "from" | "to">,
  variants: readonly Variant[],
  counts: readonly ExposureCount[],
): Exposures {
  const days = daysBetween(from, to);
  const found = [...new Set(counts.map(({ variant }) => variant))].sort();
  const seriesOf = (variant: string): ExposureSeries => ({
    variant,
    counts: cumulate(
      days,
      counts.filter((count) => count.variant === variant),
    ),
  });
  const declared = variants.map(({ key }) => key);
  const several = found.filter((variant) => variant === MULTIPLE_VARIANTS);
  const isHoldout = (variant: string) =>
    variant.startsWith(HOLDOUT_PREFIX) && !declared.includes(variant);
  const series = [...declared, ...several].map(seriesOf);
  const unitsOf = (variant: Variant) =>
    series.find((one) => one.variant === variant.key)?.counts.at(-1) ?? 0;
  const sharing = variants.filter((variant) => variant.rollout_percentage > 0);
  const units = sharing.map(unitsOf);
  const test =
    units.reduce((sum, count) => sum + count, 0) < MIN_UNITS
      ? null
      : testSampleRatio(
          units,
          sharing.map((variant) => variant.rollout_percentage),
        );
  return {
    from,
    to,
    days,
    series,
    holdouts: found.filter(isHoldout).map(seriesOf),
    sampleRatio: test && { test, variants: sharing.map(({ key }) => key) },
    // Once a variant was shipped it has all of the share, and what it was before is not known.
    withoutShare: (sharing.length < 2 ? [] : variants)
      .filter((variant) => variant.rollout_percentage === 0 && unitsOf(variant) > 0)
      .map(({ key }) => key),
  };
}

function daysBetween(from: Date, to: Date): readonly string[] {
  const lastDay = Math.floor((to.getTime() - 1) / MS_PER_DAY);
  const firstDay = Math.max(Math.floor(from.getTime() / MS_PER_DAY), lastDay - MAX_DAYS + 1);
  return Array.from({ length: Math.max(0, lastDay - firstDay + 1) }, (_, index) =>
    new Date((firstDay + index) * MS_PER_DAY).toISOString().slice(0, 10),
  );
}

/** Counts up to each day, those of days before the first included. */
function cumulate(days: readonly string[], counts: readonly ExposureCount[]): readonly number[] {
  const sorted = counts.toSorted((left, right) => (left.day < right.day ? -1 : 1));
  let total = 0;
  let next = 0;
  return days.map((day) => {
    for (let count = sorted[next]; count && count.day <= day; count = sorted[next]) {
      total += count.units;
      next += 1;
    }
    return total;
  });
}

/** Statistics of every variant against the control, which must be among the arms. */
export function analysisOf(
  arms: readonly ArmMeasure[],
  metric: Pick<Metric, "kind" | "goal">,
  method: PosthogMethod,
): Analysis {
  const control = arms.find(({ variant }) => variant === CONTROL);
  if (!control) throw new Error("there is no control");
  const treatments = arms.filter((arm) => arm !== control);
  const baseline = {
    arm: control,
    failures: validateVariant(control.sums, metric.kind, true),
  };
  const comparisons = compareArms(
    control.sums,
    treatments.map(({ sums }) => sums),
    {
      level: method.level,
      goal: metric.goal,
      prior: null,
      sequentialTuning: method.sequentialTuning ?? DEFAULT_TUNING,
      covariates: null,
      margin: null,
    },
  );
  const variants = treatments.flatMap((arm, index): VariantResult[] => {
    const comparison = comparisons[index];
    if (!comparison) return [];
    const failures = validateVariant(arm.sums, metric.kind, false);
    // Either's failure leaves nothing to compare (statistics 1.7).
    const isValid = failures.length === 0 && baseline.failures.length === 0;
    const numbers = isValid ? posthogNumbers(control.sums, arm.sums, metric.kind, method) : null;
    return [{ arm, failures, numbers, comparison }];
  });
  return { baseline, variants };
}

/** The sample that an always-valid interval is tuned to unless a number is given (statistics 1.5). */
export const DEFAULT_TUNING = 5000;

/** The exposure of most experiments: calls of the flag; units with several variants are left out. */
export const USUAL_CRITERIA: {
  readonly marker: MeasuredEvent | null;
  readonly severalVariants: ExposureQuery["severalVariants"];
} = { marker: null, severalVariants: "exclude" };

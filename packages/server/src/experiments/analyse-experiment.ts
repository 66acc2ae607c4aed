import { calendarDays } from "@hedgerow/core/experiments/calendar";
import type { Metric } from "@hedgerow/core/experiments/metric";
import { HOLDOUT_PREFIX } from "@hedgerow/core/flags/bucketing";
import type { BacktrackingPatterns } from "@hedgerow/core/flags/pattern";
import { createTimeZone } from "@hedgerow/core/flags/zoned-date";
import type { PosthogMethod } from "@hedgerow/core/statistics/posthog-analysis";
import { type SampleRatio, testSampleRatio } from "@hedgerow/core/statistics/sample-ratio";
import { QueryTooLong } from "../events/event-store.ts";
import { compilePropertySearch } from "../events/property-search.ts";
import { Refusal } from "../http/errors.ts";
import { type AnalysedMetric, analyseMeasured, type Belief } from "./analyse-measured.ts";
import {
  type ExperimentMeasures,
  type ExposureCount,
  type ExposureQuery,
  type Measured,
  type MeasureOptions,
  MULTIPLE_VARIANTS,
} from "./experiment-measures.ts";
import type { ExperimentView } from "./experiment-view.ts";
import { CONTROL, groupTypeOf, type Variant, variantsOf } from "./flag-of-experiment.ts";
import type { AskedOf, Freshness, KeepAnswers } from "./keep-answers.ts";
import { everyEventOf, type FilteredProject, type FindTestPersons } from "./test-accounts.ts";

/** What exposes units, and what becomes of those with several variants. */
export interface ExposureCriteria extends Pick<ExposureQuery, "marker" | "severalVariants"> {
  /** Exposures before it do not count: counting began anew then. */
  readonly epoch?: Date | null;
  /** Whether events of test accounts are left out, as the project's filters tell them. */
  readonly filterTestAccounts?: boolean;
}

/** Who asks for what. */
export interface AnalysisRequest {
  readonly project: FilteredProject;
  readonly view: ExperimentView;
  readonly criteria: ExposureCriteria;
  /** Computes anew what is not frozen. */
  readonly refresh?: boolean;
}

/** What is wanted of all metrics beside their comparison; none of it unless it is given. */
export type AnalysisOptions = Partial<Pick<MeasureOptions, "lookbackMs" | "byDay">>;

/** A metric, and how it is to be told. */
export interface AskedMetric {
  readonly metric: Metric;
  readonly belief?: Belief;
  /** A property of exposures; `null` or absent for none. */
  readonly breakdown?: string | null;
}

/** Units exposed so far, day by day. */
export interface ExposureSeries {
  readonly variant: string;
  /** At the end of each day. */
  readonly counts: readonly number[];
}

/** Who was exposed to an experiment. */
export interface Exposures extends Freshness {
  /** The start of the experiment, or since when exposures count. */
  readonly from: Date;
  /** The end of the experiment, or when this was counted. */
  readonly to: Date;
  /** By the project's calendar, `2026-03-01`. */
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

/** A metric of an experiment. */
export interface Analysis extends AnalysedMetric, Freshness {}

/**
 * What stored events say of experiments. Every event acknowledged before a call is seen by it, but for
 * ended experiments, whose first complete answers stay. Answers are remembered (see `KeepAnswers`).
 */
export interface AnalyseExperiment {
  /** Refuses a draft, and events that take too long to go through. */
  exposures(request: AnalysisRequest): Promise<Exposures>;
  /** Analyses metrics together: exposures are found once, and events gone through once or twice. */
  analyseAll(
    request: AnalysisRequest & {
      readonly metrics: readonly AskedMetric[];
      readonly method: PosthogMethod;
      readonly options?: AnalysisOptions;
    },
  ): Promise<readonly Analysis[]>;
  analyse(
    request: AnalysisRequest &
      AskedMetric & { readonly method: PosthogMethod; readonly options?: AnalysisOptions },
  ): Promise<Analysis>;
}

/** What is asked of all metrics alike. */
interface Circumstances {
  /** The query without the persons to leave out, and how these are found. */
  readonly query: Omit<ExposureQuery, "exceptPersons">;
  readonly findExcepted: () => Promise<readonly string[]>;
  readonly asked: AskedOf;
  /** What of the exposures decides an answer beside the window. */
  readonly exposure: readonly unknown[];
}

/** {@link AnalyseExperiment} over measured events. */
export function createAnalyseExperiment({
  measures,
  keepAnswers,
  findTestPersons,
  backtracking,
  clock,
}: {
  measures: Pick<ExperimentMeasures, "exposures" | "measure">;
  keepAnswers: KeepAnswers;
  findTestPersons: FindTestPersons;
  backtracking: BacktrackingPatterns;
  clock: () => Date;
}): AnalyseExperiment {
  const circumstancesOf = (request: AnalysisRequest): Circumstances => {
    const { project, view, criteria, refresh = false } = request;
    const { startDate, endDate } = view.experiment;
    if (startDate === null) throw refuse("Experiment has not been launched yet.");
    const { marker, severalVariants, epoch = null, filterTestAccounts = false } = criteria;
    const everyEvent = filterTestAccounts ? everyEventOf(project) : [];
    const now = clock();
    const from = epoch !== null && epoch > startDate ? epoch : startDate;
    const end = endDate !== null && endDate <= now ? endDate : null;
    const flag = {
      flagKey: view.flag.key,
      groupTypeIndex: groupTypeOf(view.flag.filters),
      variants: variantsOf(view.flag.filters).map(({ key }) => key),
    };
    const zone = createTimeZone(project.timeZone);
    const days = calendarDays(
      { fromMs: from.getTime(), toMs: (end ?? now).getTime() },
      zone,
      MAX_DAYS,
    );
    const tools = { now: end ?? now, timeZone: project.timeZone, backtracking };
    return {
      query: {
        projectId: project.id,
        ...flag,
        from,
        to: end ?? now,
        zone,
        days: days.map(({ day, fromMs }) => ({ day, from: new Date(fromMs) })),
        marker,
        severalVariants,
        everyEvent,
        conditionOf: (filters) =>
          compilePropertySearch(filters, { ...tools, patternBudgets: PATTERN_BUDGETS }),
      },
      asked: {
        projectId: project.id,
        experimentId: view.experiment.id,
        from,
        to: end,
        circumstances: [
          flag,
          project.timeZone,
          variantsOf(view.flag.filters),
          filterTestAccounts ? project.testAccountFilters : [],
        ],
        refresh,
      },
      exposure: [marker, severalVariants, filterTestAccounts],
      findExcepted: async () => (filterTestAccounts ? await findTestPersons(project) : []),
    };
  };
  const ask = async <Found>(question: () => Promise<Found>): Promise<Found> => {
    try {
      return await question();
    } catch (error) {
      if (!(error instanceof QueryTooLong)) throw error;
      throw refuse("There are too many events to go through for this experiment.");
    }
  };

  /** What metrics measured, those of which nothing is kept together. */
  const measuredOf = (
    { query: common, findExcepted, asked, exposure }: Circumstances,
    metrics: readonly { readonly metric: Metric; readonly options: MeasureOptions }[],
  ) =>
    keepAnswers<Measured>(
      asked,
      metrics.map(({ metric, options }) => ["measured", exposure, metric, options]),
      async (places) => {
        if (!common.variants.includes(CONTROL))
          throw refuse("The flag of the experiment has no control variant.");
        const query = {
          ...common,
          days: common.days.slice(-MAX_MEASURED_DAYS),
          exceptPersons: await ask(findExcepted),
        };
        const missing = places.flatMap((place) => metrics[place] ?? []);
        const found = new Map<object, Measured>();
        // Units are put into the cells of one breakdown at a time.
        for (const breakdown of new Set(missing.map(({ options }) => options.breakdown))) {
          const alike = missing.filter(({ options }) => options.breakdown === breakdown);
          const [first] = alike;
          if (!first) continue;
          for (let from = 0; from < alike.length; from += MEASURED_TOGETHER) {
            const some = alike.slice(from, from + MEASURED_TOGETHER);
            const own = some.map(({ metric }) => metric);
            const measured = await ask(() => measures.measure(query, own, first.options));
            for (const [index, one] of some.entries()) {
              const value = measured[index];
              if (value) found.set(one, value);
            }
          }
        }
        return missing.flatMap((one) => found.get(one) ?? []);
      },
    );

  const analyseAll: AnalyseExperiment["analyseAll"] = async ({
    metrics: sent,
    method,
    options: { lookbackMs = null, byDay = false } = {},
    ...request
  }) => {
    const metrics = sent.map(({ metric, belief, breakdown = null }) => ({
      metric,
      options: { lookbackMs, breakdown, byDay, level: method.level },
      belief: { prior: belief?.prior ?? null, margin: belief?.margin ?? null },
    }));
    const circumstances = circumstancesOf(request);
    const kept = await keepAnswers<AnalysedMetric>(
      circumstances.asked,
      metrics.map(({ metric, belief, options }) => [
        "analysed",
        circumstances.exposure,
        metric,
        options,
        method,
        belief,
      ]),
      async (places) => {
        const missing = places.flatMap((place) => metrics[place] ?? []);
        const measured = await measuredOf(circumstances, missing);
        const analysed: AnalysedMetric[] = [];
        for (const [index, { metric, belief }] of missing.entries()) {
          const found = measured[index];
          if (!found) throw new Error("a metric was not measured");
          analysed.push(await analyseMeasured(found.value, metric, { method, lookbackMs, belief }));
        }
        return analysed;
      },
    );
    return kept.map(({ value, ...freshness }) => ({ ...value, ...freshness }));
  };

  return {
    async exposures(request) {
      const { query: common, findExcepted, asked, exposure } = circumstancesOf(request);
      const [kept] = await keepAnswers<KeptExposures>(
        asked,
        [["exposures", exposure]],
        async () => {
          const query = { ...common, exceptPersons: await ask(findExcepted) };
          const counts = await ask(() => measures.exposures(query));
          const found = exposuresOf(query, variantsOf(request.view.flag.filters), counts);
          return [{ ...found, from: found.from.getTime(), to: found.to.getTime() }];
        },
      );
      if (!kept) throw new Error("exposures were not counted");
      const { value, ...freshness } = kept;
      return { ...value, from: new Date(value.from), to: new Date(value.to), ...freshness };
    },

    analyseAll,

    async analyse({ metric, belief, breakdown = null, ...request }) {
      const [analysis] = await analyseAll({
        ...request,
        metrics: [{ metric, breakdown, ...(belief && { belief }) }],
      });
      if (!analysis) throw new Error("a metric was not analysed");
      return analysis;
    },
  };
}

/** Exposures as they go through JSON. */
type KeptExposures = Omit<Exposures, "from" | "to" | keyof Freshness> & {
  readonly from: number;
  readonly to: number;
};

/** Patterns of one metric may cost as much as those of so many flag requests. */
const PATTERN_BUDGETS = 1000;

function refuse(detail: string): Refusal {
  return new Refusal("invalid_input", detail);
}

/** Metrics of one pass over the events: the units' numbers for more of them take too much memory. */
const MEASURED_TOGETHER = 25;

/** Days shown at most: the last ones. */
const MAX_DAYS = 3660;
/** Days of which metrics are told at most: the last ones. */
const MAX_MEASURED_DAYS = 400;
/** Below this many units shares are not compared (statistics 1.9). */
const MIN_UNITS = 100;

/** Cumulative counts by day, and whether the shares are the flag's. */
export function exposuresOf(
  { from, to, days: calendar }: Pick<ExposureQuery, "from" | "to" | "days">,
  variants: readonly Variant[],
  counts: readonly ExposureCount[],
): Omit<Exposures, keyof Freshness> {
  const days = calendar.map(({ day }) => day);
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

/** The exposure of most experiments: calls of the flag; units with several variants are left out. */
export const USUAL_CRITERIA: ExposureCriteria = { marker: null, severalVariants: "exclude" };

import type { Metric } from "@hedgerow/core/experiments/metric";
import { isJsonObject, type JsonObject, ownValue } from "@hedgerow/core/json";
import type { PosthogMethod } from "@hedgerow/core/statistics/posthog-analysis";
import { correctPValues } from "@hedgerow/core/statistics/report-effects";
import { Type } from "typebox";
import { Refusal } from "../http/errors.ts";
import { wireNames } from "../http/wire-field-name.ts";
import { wireInstant } from "../http/wire-instant.ts";
import { AnyObject, MapOf, maxChars } from "../http/wire-schemas.ts";
import type { Analysis, ExposureSeries, Exposures } from "./analyse-experiment.ts";
import { type CellResult, DEFAULT_TUNING, type VariantResult } from "./analyse-measured.ts";
import { wireBalanced, wireEffect, wireSums } from "./balanced-numbers.schemas.ts";
import {
  type BalancedSettings,
  balancedNumbersOf,
  pValueOf,
  type WatchedRatio,
  watchedRatioOf,
} from "./balanced-numbers.ts";
import type { ClassicResult, ClassicVersion } from "./classic-result.ts";
import type { ArmMeasure } from "./experiment-measures.ts";
import { wireClassicResult } from "./experiment-results.schemas.ts";
import { MAX_METRICS_CHARS } from "./metric.schemas.ts";

export const QueryBody = Type.Object({
  query: MapOf(Type.Unknown(), {
    description:
      "`kind` and `experiment_id`; of an `ExperimentQuery` the `metric`, an `ExperimentMetric` of type mean, quantile, funnel, ratio or retention; of an `ExperimentTrendsQuery` the `count_query`, of an `ExperimentFunnelsQuery` the `funnels_query`; nothing else of an `ExperimentExposureQuery`.",
    ...maxChars(MAX_METRICS_CHARS),
  }),
  refresh: Type.Optional(
    Type.Unknown({
      description:
        "`true` or a way to refresh by force computes anew what is not final: answers about an ended experiment are.",
    }),
  ),
});

/** What a query answers depends on its kind (statistics 1.8, 1.9). */
export const QueryAnswer = AnyObject;

const KINDS = [
  "ExperimentExposureQuery",
  "ExperimentQuery",
  "ExperimentTrendsQuery",
  "ExperimentFunnelsQuery",
] as const;

/** A query about an experiment. */
export type ExperimentQuestion =
  | { readonly kind: "ExperimentExposureQuery"; readonly experimentId: number }
  | {
      readonly kind: "ExperimentQuery";
      readonly experimentId: number;
      readonly metric: JsonObject;
    }
  /** The older forms, which are metrics themselves. */
  | {
      readonly kind: "ExperimentTrendsQuery" | "ExperimentFunnelsQuery";
      readonly experimentId: number;
      readonly query: JsonObject;
      /** Of the former statistics; `null` for what the experiment says. */
      readonly version: ClassicVersion | null;
    };

/** A query of an older form. */
export type ClassicQuestion = Extract<ExperimentQuestion, { readonly version: unknown }>;

/** Reads a query; throws a {@link Refusal} that names the field. */
export function questionOf(query: JsonObject): ExperimentQuestion {
  const sentKind = ownValue(query, "kind");
  if (sentKind === undefined || sentKind === null) throw missing("query__kind");
  const kind = KINDS.find((one) => one === sentKind);
  if (kind === undefined) {
    throw new Refusal(
      "invalid_choice",
      `Queries of kind ${typeof sentKind === "string" ? sentKind : "other than text"} are not answered here. Possible is ${KINDS.join(", ")}.`,
      { attr: "query__kind" },
    );
  }
  const experimentId = ownValue(query, "experiment_id");
  if (experimentId === undefined || experimentId === null) throw missing("query__experiment_id");
  if (typeof experimentId !== "number" || !Number.isInteger(experimentId)) {
    throw new Refusal("invalid_input", "A valid integer is required.", {
      attr: "query__experiment_id",
    });
  }
  if (Math.abs(experimentId) > MAX_ID) throw unknownExperiment(experimentId);
  if (kind === "ExperimentExposureQuery") return { kind, experimentId };
  if (kind !== "ExperimentQuery") {
    const version = ownValue(query, "stats_version") ?? null;
    if (version !== null && version !== 1 && version !== 2) {
      throw new Refusal("invalid_choice", "Possible is 1, 2.", { attr: "query__stats_version" });
    }
    return { kind, experimentId, query, version };
  }
  const metric = ownValue(query, "metric");
  if (metric === undefined || metric === null) throw missing("query__metric");
  if (!isJsonObject(metric)) {
    throw new Refusal("invalid_input", "Expected an object.", { attr: "query__metric" });
  }
  return { kind, experimentId, metric };
}

/** No store gives larger ids. */
const MAX_ID = 2 ** 31 - 1;

/** The refusal of an id that the project has no experiment of. */
export function unknownExperiment(id: number): Refusal {
  return new Refusal("invalid_input", `Experiment with id ${id} not found.`, {
    attr: "query__experiment_id",
  });
}

/** A refusal of what the experiment is, with the field that named it; others as they are. */
export function namingExperiment(error: unknown): unknown {
  return error instanceof Refusal && error.code === "invalid_input" && error.attr === null
    ? new Refusal(error.code, error.message, { attr: "query__experiment_id" })
    : error;
}

function missing(attr: string): Refusal {
  return new Refusal("required", "This field is required.", { attr });
}

/** Exposures in PostHog's shape; holdouts and variants without a share stand apart (statistics 1.9). */
export function wireExposures(exposures: Exposures) {
  const { days, series, holdouts, sampleRatio, withoutShare } = exposures;
  const watched = watchedRatioOf(exposures);
  return {
    kind: "ExperimentExposureQuery",
    timeseries: series.map(({ variant, counts }) => ({ variant, days, exposure_counts: counts })),
    total_exposures: totalsOf(series),
    holdout_exposures: totalsOf(holdouts),
    date_range: { date_from: wireInstant(exposures.from), date_to: wireInstant(exposures.to) },
    sample_ratio_mismatch: sampleRatio && {
      p_value: sampleRatio.test.pValue,
      mismatch: sampleRatio.test.mismatch,
      statistic: sampleRatio.test.statistic,
      degrees_of_freedom: sampleRatio.test.degrees,
      expected: Object.fromEntries(
        sampleRatio.variants.map((key, index) => [key, sampleRatio.test.expectedCounts[index]]),
      ),
      sequential: watched && {
        method: "Dirichlet-multinomial test of the shares after every day",
        p_value: watched.pValue,
        log_bayes_factor: watched.logBayesFactor,
        mismatch: watched.mismatch,
        drifted_on: watched.driftedOn,
      },
    },
    warnings: [
      ...withoutShare.map((key) => ({
        code: "variant-without-share",
        variant: key,
        detail: `Units have the variant ${key}, whose share is 0 %. It is left out of the comparison of shares.`,
      })),
      ...mismatchWarnings(watched, sampleRatio?.test.mismatch === true),
    ],
  };
}

function mismatchWarnings(watched: WatchedRatio | null, isMismatched: boolean) {
  if (watched?.mismatch)
    return [
      {
        code: "sample-ratio-mismatch",
        variant: null,
        detail: `Since ${watched.driftedOn} units are not shared out as the flag says: some arm loses or repeats exposures, and no metric of this experiment can be trusted.`,
      },
    ];
  return isMismatched
    ? [
        {
          code: "sample-ratio-suspicious",
          variant: null,
          detail:
            "The shares of units differ from the flag's by the test for a single look. Who looks often sees that now and then; the test for every look does not confirm it.",
        },
      ]
    : [];
}

function totalsOf(series: readonly ExposureSeries[]) {
  return Object.fromEntries(series.map(({ variant, counts }) => [variant, counts.at(-1) ?? 0]));
}

/** An older query's result in PostHog's shape (posthog-api 5.11, statistics 2.4). */
export function wireClassicQuery(
  { kind, query }: ClassicQuestion,
  classic: ClassicResult,
  metric: Metric,
  days: Analysis["days"],
) {
  const { filters: _, insight, ...result } = wireClassicResult(classic, metric, {});
  return {
    kind,
    ...(kind === "ExperimentFunnelsQuery"
      ? { insight, funnels_query: query.funnels_query ?? null }
      : {
          insight: classic.arms.map((arm) => wireTrend(arm, days)),
          count_query: query.count_query ?? null,
          exposure_query: query.exposure_query ?? null,
        }),
    ...result,
  };
}

/** A variant's events as a series: so many by the end of each day. */
function wireTrend({ variant, sums }: ArmMeasure, days: Analysis["days"]) {
  const counts = days.map(({ baseline, variants }) => {
    const day = [baseline, ...variants].find(({ arm }) => arm.variant === variant);
    return day?.arm.sums.sum ?? 0;
  });
  return {
    label: variant,
    breakdown_value: variant,
    count: sums.sum,
    data: counts,
    days: days.map(({ day }) => day),
    labels: days.map(({ day }) => day),
  };
}

/** A metric as it was sent and read, and how it is judged. */
export interface JudgedMetric {
  readonly sent: JsonObject;
  readonly metric: Metric;
  readonly method: PosthogMethod;
  readonly balanced: BalancedSettings;
  /** A property of exposures; absent or `null` for none. */
  readonly breakdown?: string | null;
}

/** A metric's analysis in PostHog's shape, with our own numbers under `extended` (statistics 1.8, 4.4). */
export function wireAnalysis(analysis: Analysis, { sent, metric, method, balanced }: JudgedMetric) {
  const { level } = method;
  const numbers = balancedNumbersOf(analysis, metric, { ...balanced, level });
  const asked = {
    ...balanced,
    level,
    goal: metric.goal,
    kind: metric.kind,
    sequentialTuning: method.sequentialTuning ?? DEFAULT_TUNING,
  };
  return {
    kind: "ExperimentQuery",
    metric: sent,
    baseline: wireArm(analysis.baseline),
    variant_results: numbers.effects.map((effect) => ({
      ...wireArm(effect.result),
      method: method.method,
      ...wireNumbers(effect.result, method.method),
      extended: wireEffect(effect, analysis.baseline.arm, asked, numbers.tests),
    })),
    ...(analysis.cells.length > 0 && {
      breakdown_results: analysis.cells.map((cell) => wireCell(cell, method.method)),
    }),
    extended: {
      ...wireBalanced(numbers, asked),
      winsorization: analysis.bounds,
      interactions: wireNames(analysis.interactions),
      warnings: analysis.warnings,
    },
    insight: null,
    variants: null,
    probability: null,
    significant: null,
    significance_code: null,
    stats_version: null,
    p_value: null,
    credible_intervals: null,
  };
}

/** PostHog's labels of values that are absent, and of all that are not told one by one. */
const NULL_LABEL = "$$_posthog_breakdown_null_$$";
const OTHER_LABEL = "$$_posthog_breakdown_other_$$";

/** The units with one value of the breakdown (statistics 1.8). */
function wireCell(
  { value, isRest, baseline, variants }: CellResult,
  method: PosthogMethod["method"],
) {
  return {
    breakdown_value: [isRest ? OTHER_LABEL : (value ?? NULL_LABEL)],
    baseline: wireArm(baseline),
    variants: variants.map((result) => ({
      ...wireArm(result),
      method,
      ...wireNumbers(result, method),
      extended: wireNames(result.comparison),
    })),
  };
}

/**
 * P-values of all primary metrics and treatments, corrected together; guardrails are apart (statistics
 * 5.12).
 */
export function wireFamily(
  analysed: readonly { readonly judged: JudgedMetric; readonly analysis: Analysis }[],
) {
  const family = analysed
    .filter(({ judged }) => judged.balanced.margin === null)
    .flatMap(({ judged, analysis }) =>
      analysis.variants.map(({ arm, comparison }) => ({
        metric: judged.sent.uuid ?? null,
        variant: arm.variant,
        pValue: pValueOf(comparison),
      })),
    );
  const { tests, corrected } = correctPValues(family.map(({ pValue }) => pValue));
  return {
    corrected_p_values: {
      method: "over all primary metrics and treatments, without guardrails",
      tests,
      values: family.map(({ metric, variant, pValue }, index) => ({
        metric,
        variant,
        p_value: pValue,
        ...(wireNames(corrected[index]) as object),
      })),
    },
  };
}

/** A variant's sums in PostHog's fields, and why they are not compared. */
export function wireArm({ arm, failures }: Analysis["baseline"]) {
  return {
    key: arm.variant,
    ...wireSums(arm.sums),
    ...(arm.stepCounts && { step_counts: arm.stepCounts }),
    validation_failures: failures,
  };
}

/** PostHog's numbers under the names that the method has for them; nothing where there are none. */
export function wireNumbers(
  { numbers }: Pick<VariantResult, "numbers">,
  method: PosthogMethod["method"],
) {
  if (numbers === null) return {};
  const { significant, probability, interval } = numbers;
  return method === "bayesian"
    ? { significant, chance_to_win: probability, credible_interval: interval }
    : { significant, p_value: probability, confidence_interval: interval };
}

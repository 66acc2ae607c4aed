import { isJsonObject, type JsonObject, ownValue } from "@hedgerow/core/json";
import type { PosthogMethod } from "@hedgerow/core/statistics/posthog-analysis";
import { Type } from "typebox";
import { Refusal } from "../http/errors.ts";
import { wireNames } from "../http/wire-field-name.ts";
import { wireInstant } from "../http/wire-instant.ts";
import { AnyObject } from "../http/wire-schemas.ts";
import type { Analysis, ExposureSeries, Exposures } from "./analyse-experiment.ts";
import type { VariantResult } from "./analyse-measured.ts";

export const QueryBody = Type.Object({
  query: Type.Record(Type.String(), Type.Unknown(), {
    description:
      "`kind` (`ExperimentExposureQuery` or `ExperimentQuery`), `experiment_id`, and for the latter `metric`: an `ExperimentMetric` of type mean, funnel, ratio or retention.",
  }),
  refresh: Type.Optional(
    Type.Unknown({
      description:
        "`true` or a way to refresh by force computes anew what is not final: answers about an ended experiment are.",
    }),
  ),
});

/** Whether an answer is to be computed anew, by any of the ways that clients ask for it. */
export function isRefreshing(refresh: unknown): boolean {
  return refresh === true || refresh === "force_blocking" || refresh === "force_async";
}

/** What a query answers depends on its kind (statistics 1.8, 1.9). */
export const QueryAnswer = AnyObject;

const KINDS = ["ExperimentExposureQuery", "ExperimentQuery"] as const;

/** A query about an experiment. */
export type ExperimentQuestion =
  | { readonly kind: "ExperimentExposureQuery"; readonly experimentId: number }
  | {
      readonly kind: "ExperimentQuery";
      readonly experimentId: number;
      readonly metric: JsonObject;
    };

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
  if (kind === "ExperimentExposureQuery") return { kind, experimentId };
  const metric = ownValue(query, "metric");
  if (metric === undefined || metric === null) throw missing("query__metric");
  if (!isJsonObject(metric)) {
    throw new Refusal("invalid_input", "Expected an object.", { attr: "query__metric" });
  }
  return { kind, experimentId, metric };
}

function missing(attr: string): Refusal {
  return new Refusal("required", "This field is required.", { attr });
}

/** Exposures in PostHog's shape; holdouts and variants without a share stand apart (statistics 1.9). */
export function wireExposures(exposures: Exposures) {
  const { days, series, holdouts, sampleRatio, withoutShare } = exposures;
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
    },
    warnings: withoutShare.map((key) => ({
      code: "variant-without-share",
      variant: key,
      detail: `Units have the variant ${key}, whose share is 0 %. It is left out of the comparison of shares.`,
    })),
  };
}

function totalsOf(series: readonly ExposureSeries[]) {
  return Object.fromEntries(series.map(({ variant, counts }) => [variant, counts.at(-1) ?? 0]));
}

/** A metric's analysis in PostHog's shape, with our own numbers under `extended` (statistics 1.8, 4.4). */
export function wireAnalysis(analysis: Analysis, metric: JsonObject, { method }: PosthogMethod) {
  return {
    kind: "ExperimentQuery",
    metric,
    baseline: wireArm(analysis.baseline),
    variant_results: analysis.variants.map((result) => ({
      ...wireArm(result),
      method,
      ...wireNumbers(result, method),
      extended: wireNames(result.comparison),
    })),
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

function wireArm({ arm, failures }: Analysis["baseline"]) {
  const { n, sum, sumSquares, denominator } = arm.sums;
  return {
    key: arm.variant,
    number_of_samples: n,
    sum,
    sum_squares: sumSquares ?? sum,
    ...(denominator && {
      denominator_sum: denominator.sum,
      denominator_sum_squares: denominator.sumSquares,
      numerator_denominator_sum_product: denominator.withMain,
    }),
    ...(arm.stepCounts && { step_counts: arm.stepCounts }),
    validation_failures: failures,
  };
}

function wireNumbers({ numbers }: VariantResult, method: PosthogMethod["method"]) {
  if (numbers === null) return {};
  const { significant, probability, interval } = numbers;
  return method === "bayesian"
    ? { significant, chance_to_win: probability, credible_interval: interval }
    : { significant, p_value: probability, confidence_interval: interval };
}

import type { Metric } from "@hedgerow/core/experiments/metric";
import type { JsonObject } from "@hedgerow/core/json";
import { Type } from "typebox";
import { Refusal } from "../http/errors.ts";
import { AnyObject, Nullable } from "../http/wire-schemas.ts";
import type { ClassicResult, MissingData } from "./classic-result.ts";
import { Experiment } from "./experiments.schemas.ts";

const computed = {
  last_refresh: Type.String({ format: "date-time" }),
  is_cached: Type.Boolean(),
};

/** An experiment with its primary result in the former shape, and the analysis of every metric. */
export const ExperimentResults = Type.Object({
  ...Experiment.properties,
  result: Nullable(AnyObject),
  ...computed,
  metrics: Type.Array(AnyObject),
  extended: AnyObject,
});

/** An experiment with the result of one secondary metric (posthog-api 5.10). */
export const SecondaryResults = Type.Object({
  ...Experiment.properties,
  result: AnyObject,
  ...computed,
});

/** The refusal of a result that there is no data for (posthog-api 5.9). */
export function noResults({ events, exposures, control, treatments }: MissingData): Refusal {
  const missing = {
    "no-events": events,
    "no-flag-info": exposures,
    "no-control-variant": control,
    "no-test-variant": treatments,
  };
  return new Refusal("no-results", JSON.stringify(missing));
}

/** A former result on the wire (posthog-api 5.9). */
export function wireClassicResult(
  { kind, arms, result, version }: ClassicResult,
  metric: Metric,
  filters: JsonObject,
) {
  const { probabilities, intervals, code, value } = result;
  const byVariant = <Value>(values: readonly Value[]) =>
    Object.fromEntries(arms.map(({ variant }, index) => [variant, values[index]]));
  const controlUnits = arms[0]?.sums.n ?? 0;
  const isFunnel = kind === "funnels";
  return {
    insight: arms.map((arm) =>
      isFunnel && metric.kind === "funnel"
        ? metric.steps.map((step, index) => ({
            action_id: step.event,
            name: step.event,
            custom_name: null,
            order: index,
            people: [],
            count: arm.stepCounts?.[index] ?? 0,
            type: "events",
            average_conversion_time: null,
            median_conversion_time: null,
            breakdown: [arm.variant],
            breakdown_value: [arm.variant],
          }))
        : { label: arm.variant, breakdown_value: arm.variant, count: arm.sums.sum },
    ),
    filters,
    probability: byVariant(probabilities),
    significant: code === "significant",
    significance_code: code,
    ...(isFunnel ? { expected_loss: value } : { p_value: value }),
    variants: arms.map(({ variant, sums: { n, sum } }) =>
      isFunnel
        ? { key: variant, success_count: sum, failure_count: n - sum }
        : { key: variant, count: sum, exposure: n / controlUnits, absolute_exposure: n },
    ),
    credible_intervals: byVariant(intervals),
    stats_version: version,
  };
}

import { Type } from "typebox";
import { wireInstant } from "../http/wire-instant.ts";
import { AnyObject } from "../http/wire-schemas.ts";
import type { Analysis } from "./analyse-experiment.ts";
import type { DayResult, DayVariant } from "./analyse-measured.ts";
import { wireSums } from "./balanced-numbers.schemas.ts";
import type { JudgedMetric } from "./experiment-query.schemas.ts";

export const TimeseriesParameters = Type.Object({
  metric_uuid: Type.Optional(Type.String({ description: "The `uuid` of one of its metrics." })),
  fingerprint: Type.Optional(
    Type.String({ description: "Not looked at: the metric as it is now." }),
  ),
  refresh: Type.Optional(
    Type.String({
      description: "`true` computes anew what is not final: results after the end are.",
    }),
  ),
});

/** A metric as it stood at the end of each day, by day. */
export const TimeseriesAnswer = Type.Object({
  experiment_id: Type.Integer(),
  metric_uuid: Type.String(),
  status: Type.String(),
  timeseries: Type.Record(Type.String(), AnyObject),
  errors: Type.Null(),
  computed_at: Type.String({ format: "date-time" }),
  is_cached: Type.Boolean(),
});

/** A metric's days on the wire: PostHog's fields, with our own interval under `extended`. */
export function wireTimeseries(
  analysis: Analysis,
  { method }: Pick<JudgedMetric, "method">,
  { experimentId, metricUuid }: { readonly experimentId: number; readonly metricUuid: string },
) {
  return {
    experiment_id: experimentId,
    metric_uuid: metricUuid,
    status: "completed",
    timeseries: Object.fromEntries(
      analysis.days.map((day) => [day.day, wireDay(day, method.method)]),
    ),
    errors: null,
    computed_at: wireInstant(analysis.computedAt),
    is_cached: analysis.isCached,
  };
}

function wireDay({ baseline, variants }: DayResult, method: "bayesian" | "frequentist") {
  return {
    baseline: { ...wireArm(baseline), extended: { value: baseline.value } },
    variant_results: variants.map((variant) => ({
      ...wireArm(variant),
      method,
      ...wireNumbers(variant, method),
      extended: {
        value: variant.value,
        difference: variant.difference && {
          method: "asymptotic confidence sequence, which holds at every look",
          ...variant.difference,
        },
      },
    })),
  };
}

function wireArm({ arm, failures }: Pick<DayVariant, "arm" | "failures">) {
  return {
    key: arm.variant,
    ...wireSums(arm.sums),
    ...(arm.stepCounts && { step_counts: arm.stepCounts }),
    validation_failures: failures,
  };
}

function wireNumbers({ numbers }: DayVariant, method: "bayesian" | "frequentist") {
  if (numbers === null) return {};
  const { significant, probability, interval } = numbers;
  return method === "bayesian"
    ? { significant, chance_to_win: probability, credible_interval: interval }
    : { significant, p_value: probability, confidence_interval: interval };
}

import { Type } from "typebox";
import { wireInstant } from "../http/wire-instant.ts";
import { AnyObject, MapOf } from "../http/wire-schemas.ts";
import type { Analysis } from "./analyse-experiment.ts";
import type { DayResult } from "./analyse-measured.ts";
import { type JudgedMetric, wireArm, wireNumbers } from "./experiment-query.schemas.ts";
import { RefreshQuery } from "./refresh.schemas.ts";

export const TimeseriesParameters = Type.Object({
  metric_uuid: Type.Optional(Type.String({ description: "The `uuid` of one of its metrics." })),
  fingerprint: Type.Optional(
    Type.String({ description: "Not looked at: the metric as it is now." }),
  ),
  ...RefreshQuery.properties,
});

/** A metric as it stood at the end of each day, by day. */
export const TimeseriesAnswer = Type.Object({
  experiment_id: Type.Integer(),
  metric_uuid: Type.String(),
  status: Type.String(),
  timeseries: MapOf(AnyObject),
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

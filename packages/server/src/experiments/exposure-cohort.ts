import { alternativesOf, type MeasuredEvent } from "@hedgerow/core/experiments/metric";
import { isJsonObject, type JsonObject, ownValue } from "@hedgerow/core/json";
import { FLAG_CALLED } from "../flags/flag-calls.ts";
import { Refusal } from "../http/errors.ts";
import type { ExperimentRecord } from "./experiment-store.ts";
import type { ExperimentView } from "./experiment-view.ts";

/** Reads an experiment's own exposure event; `null` for the calls of its flag. */
export type ReadMarker = (experiment: ExperimentRecord) => MeasuredEvent | null;

/** A cohort that is to be made. */
export interface CohortPlan {
  readonly name: string;
  readonly filters: JsonObject;
}

/**
 * The cohort of those an experiment was shown to since its start: a rule about past behavior, on the
 * calls of its flag or on its own exposure event (posthog-api 5.13). Throws a {@link Refusal} for an
 * experiment that has no start, no flag, or such a cohort already.
 */
export function planExposureCohort(
  { experiment, flag }: ExperimentView,
  readMarker: ReadMarker,
): CohortPlan {
  if (flag.deleted) throw refusal("Experiment does not have a feature flag");
  if (experiment.startDate === null) throw refusal("Experiment does not have a start date");
  if (experiment.exposureCohortId !== null) throw hasCohort();
  const exposing = exposingEvents(experiment, flag.key, readMarker);
  const explicit_datetime = experiment.startDate.toISOString();
  return {
    name: `Users exposed to experiment "${experiment.name}"`,
    filters: {
      properties: {
        type: "OR",
        values: exposing.map(({ event, filters }) => ({
          type: "AND",
          values: [
            {
              type: "behavioral",
              value: "performed_event",
              event_type: "events",
              key: event,
              explicit_datetime,
              event_filters: filters.map((filter) => ({ ...filter, type: "event" })),
            },
          ],
        })),
      },
    },
  };
}

/** The calls of the flag, or the events that an experiment names and that carry its flag (XR-3). */
function exposingEvents(
  experiment: ExperimentRecord,
  flagKey: string,
  readMarker: ReadMarker,
): readonly { readonly event: string; readonly filters: readonly JsonObject[] }[] {
  const custom = ownValue(experiment.parameters ?? {}, "custom_exposure_filter") ?? null;
  const actions = isJsonObject(custom) ? ownValue(custom, "actions") : null;
  if (Array.isArray(actions) && actions.length > 0) throw refusal("Invalid action ID");
  const marker = readMarker(experiment);
  const isCall = { key: "$feature_flag", operator: "exact", value: [flagKey] };
  const calls = { event: FLAG_CALLED, filters: [isCall] };
  if (marker === null) return [calls];
  const carries = { key: `$feature/${flagKey}`, operator: "is_set", value: "is_set" };
  return alternativesOf(marker).map(({ event, filters }) => {
    if (event === null) throw refusal("An event must have a name for a cohort of who did it");
    const own = filters.map(({ key, operator, value = null }) => ({ key, operator, value }));
    return { event, filters: [...own, event === calls.event ? isCall : carries] };
  });
}

/** The refusal of a second cohort. */
export function hasCohort(): Refusal {
  return refusal("Experiment already has an exposure cohort");
}

function refusal(detail: string): Refusal {
  return new Refusal("invalid_input", detail);
}

import { isJsonObject, type Json, type JsonObject, ownValue } from "@hedgerow/core/json";
import { Refusal } from "../http/errors.ts";
import type { ExperimentView } from "./experiments.ts";

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
export function planExposureCohort({ experiment, flag }: ExperimentView): CohortPlan {
  if (flag.deleted) throw refusal("Experiment does not have a feature flag");
  if (experiment.startDate === null) throw refusal("Experiment does not have a start date");
  if (experiment.exposureCohortId !== null) throw hasCohort();
  const own = ownExposureEvent(experiment.exposureCriteria, experiment.parameters);
  return {
    name: `Users exposed to experiment "${experiment.name}"`,
    filters: {
      properties: {
        type: "OR",
        values: [
          {
            type: "AND",
            values: [
              {
                type: "behavioral",
                value: "performed_event",
                event_type: "events",
                key: own ?? "$feature_flag_called",
                explicit_datetime: experiment.startDate.toISOString(),
                ...(own === undefined && {
                  event_filters: [
                    { key: "$feature_flag", type: "event", operator: "exact", value: [flag.key] },
                  ],
                }),
              },
            ],
          },
        ],
      },
    },
  };
}

/** The refusal of a second cohort. */
export function hasCohort(): Refusal {
  return refusal("Experiment already has an exposure cohort");
}

/** The event that exposes instead of the flag's calls, in the form of either era. */
function ownExposureEvent(
  criteria: JsonObject | null,
  parameters: JsonObject | null,
): string | undefined {
  const config = objectIn(criteria, "exposure_config");
  const event = config && ownValue(config, "event");
  if (typeof event === "string") return event;
  const filter = objectIn(parameters, "custom_exposure_filter");
  if (filter && firstId(filter, "actions") !== undefined) throw refusal("Invalid action ID");
  return filter && firstId(filter, "events");
}

function objectIn(holder: JsonObject | null, key: string): JsonObject | undefined {
  const value = holder === null ? undefined : ownValue(holder, key);
  return isJsonObject(value) ? value : undefined;
}

/** The id of the first entry of an insight's list. */
function firstId(filter: JsonObject, list: string): string | undefined {
  const entries = ownValue(filter, list);
  const [first] = Array.isArray(entries) ? (entries as Json[]) : [];
  const id = isJsonObject(first) ? ownValue(first, "id") : undefined;
  return typeof id === "string" || typeof id === "number" ? String(id) : undefined;
}

function refusal(detail: string): Refusal {
  return new Refusal("invalid_input", detail);
}

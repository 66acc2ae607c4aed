import { isJsonObject, type Json, ownValue } from "@hedgerow/core/json";
import type { FindEventUses } from "../event-definitions/event-uses.ts";
import type { ExperimentRecord, ExperimentStore } from "./experiment-store.ts";

/** How many experiments are looked at in one read. */
const CHUNK = 200;

/** Experiments, archived ones too, with a metric or an exposure of the event. */
export function experimentsUsingEvent(
  experimentStore: Pick<ExperimentStore, "list">,
): FindEventUses {
  return async ({ projectId, name: event }) => {
    const using: { kind: "experiment"; id: number; name: string }[] = [];
    for (let offset = 0; ; offset += CHUNK) {
      const { experiments } = await experimentStore.list(projectId, {
        stage: null,
        archived: null,
        search: null,
        createdById: null,
        flagId: null,
        order: { by: "createdAt", descending: false },
        limit: CHUNK,
        offset,
      });
      for (const experiment of experiments)
        if (namesEvent(experiment, event))
          using.push({ kind: "experiment", id: experiment.id, name: experiment.name });
      if (experiments.length < CHUNK) return using;
    }
  };
}

/** Whether metrics or exposure of an experiment, in the form of any era, name an event. */
function namesEvent(experiment: ExperimentRecord, event: string): boolean {
  return [
    experiment.metrics,
    experiment.metricsSecondary,
    experiment.filters,
    experiment.secondaryMetrics,
    experiment.exposureCriteria,
    experiment.parameters?.custom_exposure_filter,
  ].some((part) => visit((part ?? null) as Json));

  function visit(value: Json): boolean {
    if (Array.isArray(value)) return (value as Json[]).some(visit);
    if (!isJsonObject(value)) return false;
    if (ownValue(value, "event") === event) return true;
    // The older form: an entry of an insight's `events`, whose id is the event's name.
    if (ownValue(value, "type") === "events" && ownValue(value, "id") === event) return true;
    return Object.values(value).some(visit);
  }
}

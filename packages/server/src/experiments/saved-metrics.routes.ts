import type { Static } from "typebox";
import type { App } from "../http/app.ts";
import { type ExperimentPartDeps, experimentPartRoutes } from "./experiment-part.routes.ts";
import {
  CreateSavedMetricBody,
  newQueryOf,
  PatchSavedMetricBody,
  savedMetricChangeOf,
  WireSavedMetric,
  wireSavedMetric,
} from "./saved-metrics.schemas.ts";
import type { SavedMetric, SavedMetricChange, SavedMetricDraft } from "./saved-metrics.ts";

/** Management of the metrics that experiments share (posthog-api 5.14). */
export function savedMetricRoutes(
  app: App,
  deps: ExperimentPartDeps<SavedMetric, SavedMetricDraft, SavedMetricChange>,
): void {
  experimentPartRoutes(app, deps, {
    path: "/api/projects/:project_id/experiment_saved_metrics",
    scope: "ExperimentSavedMetric",
    schemas: { create: CreateSavedMetricBody, patch: PatchSavedMetricBody, wire: WireSavedMetric },
    summaries: {
      list: "List shared metrics, newest first",
      create: "Create a metric that experiments can share",
      read: "Read a shared metric",
      patch: "Change a shared metric; its experiments measure what it is from then on",
      put: "Change a shared metric, naming it",
      remove: "Delete a shared metric; no experiment measures it any more",
    },
    changeOf: (body: Static<typeof PatchSavedMetricBody>, { timeZone }) =>
      savedMetricChangeOf(body, timeZone),
    draftOf: (body, { timeZone }) => {
      const change = savedMetricChangeOf(body, timeZone);
      return { ...change, name: body.name, query: newQueryOf(change) };
    },
    wire: wireSavedMetric,
  });
}

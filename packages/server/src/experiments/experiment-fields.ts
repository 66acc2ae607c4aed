import { describeChanges } from "../activity/describe-change.ts";
import type { ExperimentFields, ExperimentRecord } from "./experiment-store.ts";

/** What a new experiment is where its author says nothing. */
export const NEW_EXPERIMENT: Omit<ExperimentFields, "flagId" | "name"> & { readonly name: string } =
  {
    name: "",
    description: null,
    startDate: null,
    endDate: null,
    exposureCohortId: null,
    type: "product",
    parameters: {},
    filters: {},
    secondaryMetrics: [],
    metrics: [],
    metricsSecondary: [],
    exposureCriteria: null,
    statsConfig: null,
    primaryOrder: null,
    secondaryOrder: null,
    holdoutId: null,
    savedMetrics: [],
    conclusion: null,
    conclusionComment: null,
    archived: false,
    deleted: false,
  };

/** What the activity log says of a change of an experiment. */
export const describeExperiment = describeChanges<ExperimentRecord>({
  scope: "Experiment",
  nameOf: ({ name }) => name,
  fields: [
    "name",
    "description",
    "startDate",
    "endDate",
    "exposureCohortId",
    "type",
    "parameters",
    "filters",
    "secondaryMetrics",
    "metrics",
    "metricsSecondary",
    "exposureCriteria",
    "statsConfig",
    "primaryOrder",
    "secondaryOrder",
    "holdoutId",
    "savedMetrics",
    "conclusion",
    "conclusionComment",
    "archived",
    "deleted",
  ],
});

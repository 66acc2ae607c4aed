import type { FlagRecord } from "../flags/flag-store.ts";
import type { ExperimentRecord, SavedMetricLink } from "./experiment-store.ts";
import type { Holdout } from "./holdouts.ts";
import type { SavedMetric } from "./saved-metrics.ts";

/** An experiment with what it refers to. */
export interface ExperimentView {
  readonly experiment: ExperimentRecord;
  /** May be deleted since. */
  readonly flag: FlagRecord;
  readonly holdout: Holdout | null;
  /** Shared metrics that are still there, in the order of the links. */
  readonly savedMetrics: readonly {
    readonly link: SavedMetricLink;
    readonly metric: SavedMetric;
  }[];
}

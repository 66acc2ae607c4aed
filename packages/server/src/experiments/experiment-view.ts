import type { FlagRecord, FlagStore } from "../flags/flag-store.ts";
import type { ExperimentPartStore } from "./experiment-part-store.ts";
import type { ExperimentRecord, SavedMetricLink } from "./experiment-store.ts";
import { type Holdout, holdoutOf } from "./holdouts.ts";
import { type SavedMetric, savedMetricOf } from "./saved-metrics.ts";

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

/** What experiments refer to. */
export interface ReferredTo {
  readonly flagsById: FlagStore["flagsById"];
  readonly holdoutStore: Pick<ExperimentPartStore, "parts">;
  readonly savedMetricStore: Pick<ExperimentPartStore, "parts">;
}

/** Views of experiments of a project; all that they refer to is read together. */
export async function viewsOf(
  projectId: number,
  experiments: readonly ExperimentRecord[],
  { flagsById, holdoutStore, savedMetricStore }: ReferredTo,
): Promise<ExperimentView[]> {
  const flagIds = experiments.map(({ flagId }) => flagId);
  const holdoutIds = experiments.flatMap(({ holdoutId }) => holdoutId ?? []);
  const metricIds = experiments.flatMap((one) =>
    one.savedMetrics.map(({ savedMetricId }) => savedMetricId),
  );
  const [foundFlags, holdouts, metrics] = await Promise.all([
    flagsById(projectId, flagIds),
    holdoutStore.parts(projectId, [...new Set(holdoutIds)]),
    savedMetricStore.parts(projectId, [...new Set(metricIds)]),
  ]);
  return experiments.map((one) => {
    const flag = foundFlags.get(one.flagId);
    if (!flag) throw new Error(`experiment ${one.id} has no flag`);
    const holdout = one.holdoutId === null ? undefined : holdouts.get(one.holdoutId);
    return {
      experiment: one,
      flag,
      holdout: holdout ? holdoutOf(holdout) : null,
      savedMetrics: one.savedMetrics.flatMap((link) => {
        const metric = metrics.get(link.savedMetricId);
        return metric ? [{ link, metric: savedMetricOf(metric) }] : [];
      }),
    };
  });
}

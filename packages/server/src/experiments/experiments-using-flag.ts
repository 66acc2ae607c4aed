import type { FlagDependants } from "../flags/flag-dependants.ts";
import type { ExperimentStore } from "./experiment-store.ts";

/** Experiments that are not over: a flag is not deleted under them (UR-88). */
export function experimentsUsingFlag(
  experimentStore: Pick<ExperimentStore, "list">,
): FlagDependants {
  return {
    kind: "experiment",
    async find(flag) {
      const { experiments } = await experimentStore.list(flag.projectId, {
        stage: null,
        archived: null,
        search: null,
        createdById: null,
        flagId: flag.id,
        order: { by: "createdAt", descending: false },
        limit: 100,
        offset: 0,
      });
      return experiments
        .filter(({ endDate }) => endDate === null)
        .map(({ id, name }) => ({ id, name }));
    },
  };
}

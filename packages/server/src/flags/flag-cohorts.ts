import type { CohortRecord } from "../cohorts/cohort-store.ts";
import type { Cohorts } from "../cohorts/cohorts.ts";
import { Refusal } from "../http/errors.ts";
import { atMost } from "../platform/at-most.ts";
import type { FlagReach } from "./flag-reach.ts";
import type { Flags } from "./flags.ts";

/** Makes static cohorts of those a flag is on for. */
export interface FlagCohorts {
  /**
   * A new cohort of the stored persons for whom a flag is on under their first distinct id. Where
   * these are many it is answered while they are still being added, as `isCalculating` tells. Throws
   * `not_found` for a flag that is unknown or deleted.
   */
  create(projectId: number, flagId: number, authorId: number): Promise<CohortRecord>;
  /** Breaks off what is under way, which the cohorts tell, and resolves then. */
  close(): Promise<void>;
}

/** Whoever asks waits this long for all to be added. */
const PATIENCE_MS = 2_000;

class Stopped extends Error {}

/** {@link FlagCohorts} over all stored persons. */
export function createFlagCohorts({
  reach,
  flags,
  cohorts,
  clock,
  reportFault,
  patienceMs = PATIENCE_MS,
}: {
  reach: Pick<FlagReach, "personsOf">;
  flags: Pick<Flags, "flag">;
  cohorts: Pick<Cohorts, "create" | "fill" | "cohort">;
  clock: () => Date;
  reportFault: (error: unknown, context: string) => void;
  patienceMs?: number;
}): FlagCohorts {
  const underWay = new Set<Promise<unknown>>();
  let isStopped = false;

  async function* stoppable(runs: AsyncIterable<readonly string[]>) {
    for await (const run of runs) {
      if (isStopped) throw new Stopped();
      if (run.length > 0) yield run;
    }
  }

  return {
    async create(projectId, flagId, authorId) {
      const flag = await flags.flag(projectId, flagId);
      if (flag.deleted) throw new Refusal("not_found", "Not found.");
      const { cohort } = await cohorts.create(
        projectId,
        {
          name: `Users with feature flag ${flag.key} enabled at ${clock().toISOString()}`,
          isStatic: true,
          members: { uuids: [], distinctIds: [] },
        },
        authorId,
      );
      let isAnswered = false;
      const filling = cohorts
        .fill(projectId, cohort.id, stoppable(reach.personsOf(projectId, flag)))
        .catch((error: unknown) => {
          if (error instanceof Stopped) return;
          if (!isAnswered) throw error;
          reportFault(error, `cohort ${cohort.id} of project ${projectId} was not filled`);
        });
      const ended = filling.catch(() => {});
      underWay.add(ended);
      ended.then(() => underWay.delete(ended));
      await atMost(patienceMs, filling);
      isAnswered = true;
      return await cohorts.cohort(projectId, cohort.id);
    },

    async close() {
      isStopped = true;
      await Promise.all(underWay);
    },
  };
}

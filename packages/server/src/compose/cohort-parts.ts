import { startCohortCalculations } from "../cohorts/calculations.ts";
import { createCohortStore } from "../engines/sql/cohort-store.ts";
import { createMembershipStore } from "../engines/sql/membership-store.ts";
import type { Base } from "./base.ts";
import type { FlagParts } from "./flag-parts.ts";
import type { Foundations } from "./foundations.ts";
import type { Ingestion } from "./ingestion.ts";

export type CohortParts = ReturnType<typeof composeCohorts>;

/** Cohorts, and what calculates those of past behavior. */
export function composeCohorts(
  { config, clock, reportFault, onClose }: Base,
  { database, events, backtracking }: Foundations,
  { compiledFlags, isStored }: Pick<FlagParts & Ingestion, "compiledFlags" | "isStored">,
) {
  const memberships = createMembershipStore(database);
  const calculations = startCohortCalculations({
    store: memberships,
    performers: events,
    backtracking,
    compiledFlags,
    caughtUp: async (projectId) => {
      await isStored(projectId);
    },
    clock,
    reportFault,
    everyMinutes: config.cohortMinutes,
    isAlone: database.capabilities.isExclusive,
  });
  onClose(() => calculations.close());
  return { cohortStore: createCohortStore(database), memberships, calculations };
}

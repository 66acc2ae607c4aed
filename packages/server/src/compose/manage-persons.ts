import { createGroupRecords } from "../engines/sql/group-records.ts";
import type { App } from "../http/app.ts";
import { groupRoutes } from "../persons/groups.routes.ts";
import { createGroups } from "../persons/groups.ts";
import { personRoutes } from "../persons/persons.routes.ts";
import { createPersons } from "../persons/persons.ts";
import type { Parts } from "./parts.ts";

/** Persons and groups. */
export function managePersons(management: App, parts: Parts): void {
  const { database, clock, accounts, activityLog, backtracking, events, log } = parts;
  const { personRecords } = parts;
  const { caughtUp, personFollower, compiledFlags, cohortStore } = parts;
  personRoutes(management, {
    persons: createPersons({
      records: personRecords,
      caughtUp,
      log,
      events,
      follower: personFollower,
      cohortsOf: async (projectId) => (await compiledFlags.get(projectId)).flagSet.cohorts,
      backtracking,
      clock,
    }),
    cohortStore,
    activityLog,
    accounts,
  });
  groupRoutes(management, {
    groups: createGroups({
      records: createGroupRecords(database),
      persons: personRecords,
      caughtUp,
      log,
      events,
      backtracking,
      clock,
    }),
    activityLog,
    accounts,
  });
}

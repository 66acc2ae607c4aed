import { activityLogContract } from "../../activity/activity-log.contract.ts";
import { createActivityLog } from "./activity-log.ts";
import { createCohortStore } from "./cohort-store.ts";
import { createFlagStore } from "./flag-store.ts";
import { projectsAndUsers } from "./projects-and-users.setup.ts";
import { describeEachSqlEngine } from "./sql-engines.contract.ts";

describeEachSqlEngine("ActivityLog", (open) => {
  activityLogContract(async () => {
    const database = await open();
    return {
      activityLog: createActivityLog(database),
      flagStore: createFlagStore(database),
      cohortStore: createCohortStore(database),
      ...(await projectsAndUsers(database)),
      close: () => database.close(),
    };
  });
});

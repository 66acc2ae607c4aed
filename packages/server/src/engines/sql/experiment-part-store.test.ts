import { experimentPartStoreContract } from "../../experiments/experiment-part-store.contract.ts";
import { createActivityLog } from "./activity-log.ts";
import { createExperimentPartStore } from "./experiment-part-store.ts";
import { projectsAndUsers } from "./projects-and-users.setup.ts";
import { describeEachSqlEngine } from "./sql-engines.contract.ts";

describeEachSqlEngine("ExperimentPartStore", (open) => {
  experimentPartStoreContract(async () => {
    const database = await open();
    return {
      store: createExperimentPartStore(database, "holdout"),
      otherKind: createExperimentPartStore(database, "saved-metric"),
      activityLog: createActivityLog(database),
      ...(await projectsAndUsers(database)),
      close: () => database.close(),
    };
  });
});

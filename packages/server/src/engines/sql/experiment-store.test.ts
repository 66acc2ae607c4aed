import { experimentStoreContract } from "../../experiments/experiment-store.contract.ts";
import { createExperimentStore } from "./experiment-store.ts";
import { createFlagStore } from "./flag-store.ts";
import { projectsAndUsers } from "./projects-and-users.setup.ts";
import { describeEachSqlEngine } from "./sql-engines.contract.ts";

describeEachSqlEngine("ExperimentStore", (open) => {
  experimentStoreContract(async () => {
    const database = await open();
    return {
      store: createExperimentStore(database),
      flagStore: createFlagStore(database),
      ...(await projectsAndUsers(database)),
      close: () => database.close(),
    };
  });
});

import { v7 } from "uuid";
import { cohortStoreContract } from "../../cohorts/cohort-store.contract.ts";
import { createCohortStore } from "./cohort-store.ts";
import { createFlagStore } from "./flag-store.ts";
import { plainPersonStore } from "./plain-person-store.setup.ts";
import { projectsAndUsers } from "./projects-and-users.setup.ts";
import { describeEachSqlEngine } from "./sql-engines.contract.ts";

describeEachSqlEngine("CohortStore", (open) => {
  cohortStoreContract(async () => {
    const database = await open();
    const persons = plainPersonStore(database);
    let position = 0;
    return {
      store: createCohortStore(database),
      flagStore: createFlagStore(database),
      ...(await projectsAndUsers(database)),
      async mergePersons(projectId, from, into) {
        const now = new Date();
        const event = {
          uuid: v7(),
          projectId,
          event: "$merge_dangerously",
          distinctId: into,
          properties: { alias: from },
          timestamp: now,
          clientTimestamp: null,
          receivedAt: now,
        };
        await persons.applyEvents([{ position: ++position, event }]);
      },
      close: () => database.close(),
    };
  });
});

import { flagStoreContract } from "../../flags/flag-store.contract.ts";
import { createAccountStore } from "./account-store.ts";
import { createFlagStore } from "./flag-store.ts";
import { projectsAndUsers } from "./projects-and-users.setup.ts";
import { describeEachSqlEngine } from "./sql-engines.contract.ts";

describeEachSqlEngine("FlagStore", (open) => {
  flagStoreContract(async () => {
    const database = await open();
    return {
      store: createFlagStore(database),
      ...(await projectsAndUsers(database)),
      async addGroupType(projectId, index, name) {
        await database.writes
          .insertInto("group_types")
          .values({ project_id: projectId, index, name })
          .execute();
      },
      async changeTimeZone(projectId, timeZone) {
        await createAccountStore(database).updateProject(projectId, { timeZone }, new Date());
      },
      close: () => database.close(),
    };
  });
});

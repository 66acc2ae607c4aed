import { groupRecordsContract } from "../../persons/group-records.contract.ts";
import { createGroupRecords } from "./group-records.ts";
import { createPersonStore } from "./person-store.ts";
import { projectsAndUsers } from "./projects-and-users.setup.ts";
import { describeEachSqlEngine } from "./sql-engines.contract.ts";

describeEachSqlEngine("GroupRecords", (open) => {
  groupRecordsContract(async () => {
    const database = await open();
    const store = createPersonStore(database, {
      continuityFlagKeys: () => [],
      onGroupTypeAdded: () => {},
      reportFault: (error) => {
        throw error;
      },
    });
    const { newProject } = await projectsAndUsers(database);
    return {
      store,
      records: createGroupRecords(database),
      newProject: () => newProject(),
      close: () => database.close(),
    };
  });
});

import { groupRecordsContract } from "../../persons/group-records.contract.ts";
import { createGroupRecords } from "./group-records.ts";
import { plainPersonStore } from "./plain-person-store.setup.ts";
import { projectsAndUsers } from "./projects-and-users.setup.ts";
import { describeEachSqlEngine } from "./sql-engines.contract.ts";

describeEachSqlEngine("GroupRecords", (open) => {
  groupRecordsContract(async () => {
    const database = await open();
    const store = plainPersonStore(database);
    const { newProject } = await projectsAndUsers(database);
    return {
      store,
      records: createGroupRecords(database),
      newProject: () => newProject(),
      close: () => database.close(),
    };
  });
});

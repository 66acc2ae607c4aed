import { personRecordsContract } from "../../persons/person-records.contract.ts";
import { createPersonRecords } from "./person-records.ts";
import { plainPersonStore } from "./plain-person-store.setup.ts";
import { projectsAndUsers } from "./projects-and-users.setup.ts";
import { describeEachSqlEngine } from "./sql-engines.contract.ts";

describeEachSqlEngine("PersonRecords", (open) => {
  personRecordsContract(async () => {
    const database = await open();
    const store = plainPersonStore(database);
    const { newProject, newStaticCohort } = await projectsAndUsers(database);
    return {
      store,
      records: createPersonRecords(database, store),
      newProject: () => newProject(),
      newStaticCohort,
      close: () => database.close(),
    };
  });
});

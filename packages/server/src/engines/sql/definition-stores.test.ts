import { v7 } from "uuid";
import { definitionStoresContract } from "../../event-definitions/definition-stores.contract.ts";
import { createActivityLog } from "./activity-log.ts";
import { createEventDefinitionStore } from "./event-definition-store.ts";
import { projectsAndUsers } from "./projects-and-users.setup.ts";
import { createPropertyDefinitionStore } from "./property-definition-store.ts";
import { createSightingStore } from "./sighting-store.ts";
import { describeEachSqlEngine } from "./sql-engines.contract.ts";

describeEachSqlEngine("Stores of definitions", (open) => {
  definitionStoresContract(async () => {
    const database = await open();
    const newUuid = () => v7();
    return {
      sightings: createSightingStore(database, { newUuid }),
      events: createEventDefinitionStore(database, { newUuid }),
      properties: createPropertyDefinitionStore(database),
      activityLog: createActivityLog(database),
      ...(await projectsAndUsers(database)),
      close: () => database.close(),
    };
  });
});

import { randomUUID } from "node:crypto";
import { transformationStoresContract } from "../../transformations/transformation-stores.contract.ts";
import { createAccountStore } from "./account-store.ts";
import { createActivityLog } from "./activity-log.ts";
import { projectsAndUsers } from "./projects-and-users.setup.ts";
import { describeEachSqlEngine } from "./sql-engines.contract.ts";
import { createTransformationConfigStore } from "./transformation-config-store.ts";
import { createTransformationStore } from "./transformation-store.ts";

describeEachSqlEngine("TransformationStore and TransformationConfigStore", (open) => {
  transformationStoresContract(async () => {
    const database = await open();
    const accounts = createAccountStore(database);
    const { newUser } = await projectsAndUsers(database);
    const at = new Date("2026-01-01T00:00:00Z");
    return {
      store: createTransformationStore(database),
      configs: createTransformationConfigStore(database),
      activityLog: createActivityLog(database),
      newUser,
      newOrganization: async () =>
        (await accounts.createOrganization({ id: randomUUID(), name: "O", slug: "o" }, at)).id,
      newProject: async (organizationId) => {
        const uuid = randomUUID();
        const project = await accounts.createProject(
          {
            uuid,
            organizationId,
            name: "P",
            apiToken: `phc_${uuid}`,
            secretApiToken: `phs_${uuid}`,
            timeZone: "UTC",
          },
          at,
        );
        if (typeof project === "string") throw new Error(project);
        return project.id;
      },
      close: () => database.close(),
    };
  });
});

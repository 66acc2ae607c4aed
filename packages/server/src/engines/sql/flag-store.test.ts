import { randomUUID } from "node:crypto";
import { flagStoreContract } from "../../flags/flag-store.contract.ts";
import { createSqlAccountStore } from "./account-store.ts";
import { createFlagStore } from "./flag-store.ts";
import { describeEachSqlEngine } from "./sql-engines.contract.ts";

describeEachSqlEngine("FlagStore", (open) => {
  flagStoreContract(async () => {
    const database = await open();
    const accounts = createSqlAccountStore(database);
    const now = new Date();
    const organization = await accounts.createOrganization(
      { id: randomUUID(), name: "O", slug: "o" },
      now,
    );
    const newProject = async (timeZone = "UTC") => {
      const uuid = randomUUID();
      const project = await accounts.createProject(
        {
          uuid,
          organizationId: organization.id,
          name: "P",
          apiToken: `phc_${uuid}`,
          secretApiToken: `phs_${uuid}`,
          timeZone,
        },
        now,
      );
      if (project === "duplicate-token") throw new Error(project);
      return project.id;
    };
    return {
      store: createFlagStore(database),
      newProject,
      async newUser() {
        const uuid = randomUUID();
        const user = await accounts.createUser(
          {
            uuid,
            distinctId: uuid,
            email: `${uuid}@example.org`,
            passwordHash: "hash",
            firstName: "Ada",
            lastName: "",
            currentOrganizationId: organization.id,
            currentProjectId: await newProject(),
          },
          now,
        );
        if (user === "duplicate-email") throw new Error(user);
        return user.id;
      },
      async addGroupType(projectId, index, name) {
        await database.writes
          .insertInto("group_types")
          .values({ project_id: projectId, index, name })
          .execute();
      },
      close: () => database.close(),
    };
  });
});

import { randomUUID } from "node:crypto";
import { cohortStoreContract } from "../../cohorts/cohort-store.contract.ts";
import { createCohortStore } from "./cohort-store.ts";
import { createFlagStore } from "./flag-store.ts";
import { projectsAndUsers } from "./projects-and-users.setup.ts";
import { describeEachSqlEngine } from "./sql-engines.contract.ts";

describeEachSqlEngine("CohortStore", (open) => {
  cohortStoreContract(async () => {
    const database = await open();
    return {
      store: createCohortStore(database),
      flagStore: createFlagStore(database),
      ...(await projectsAndUsers(database)),
      async newPerson(projectId, distinctIds) {
        const uuid = randomUUID();
        const { id } = await database.writes
          .insertInto("persons")
          .values({
            project_id: projectId,
            uuid,
            properties: "{}",
            property_times: "{}",
            created_at: 0,
            is_identified: 0,
          })
          .returning("id")
          .executeTakeFirstOrThrow();
        await database.writes
          .insertInto("person_distinct_ids")
          .values(
            distinctIds.map((distinctId) => ({
              project_id: projectId,
              distinct_id: distinctId,
              person_id: id,
            })),
          )
          .execute();
        return { id, uuid };
      },
      async cohortIdsOf(personId) {
        const rows = await database.reads
          .selectFrom("cohort_members")
          .select("cohort_id")
          .where("person_id", "=", personId)
          .orderBy("cohort_id")
          .execute();
        return rows.map(({ cohort_id }) => cohort_id);
      },
      close: () => database.close(),
    };
  });
});

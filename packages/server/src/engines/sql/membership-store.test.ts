import { membershipStoreContract } from "../../cohorts/membership-store.contract.ts";
import { createCohortStore } from "./cohort-store.ts";
import { createFlagStore } from "./flag-store.ts";
import { createMembershipStore } from "./membership-store.ts";
import { projectsAndUsers } from "./projects-and-users.setup.ts";
import { describeEachSqlEngine } from "./sql-engines.contract.ts";

describeEachSqlEngine("MembershipStore", (open) => {
  membershipStoreContract(async () => {
    const database = await open();
    return {
      memberships: createMembershipStore(database),
      store: createCohortStore(database),
      flagStore: createFlagStore(database),
      ...(await projectsAndUsers(database)),
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

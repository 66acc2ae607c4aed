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
      close: () => database.close(),
    };
  });
});

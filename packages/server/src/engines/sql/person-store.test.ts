import { describe } from "vitest";
import { personModelContract } from "../../persons/person-model.contract.ts";
import {
  brokenPersonStoreContract,
  type PersonStoreFixture,
  personStoreContract,
} from "../../persons/person-store.contract.ts";
import { createPersonRecords } from "./person-records.ts";
import { createPersonStore } from "./person-store.ts";
import { projectsAndUsers } from "./projects-and-users.setup.ts";
import { describeEachSqlEngine, type OpenDatabase } from "./sql-engines.contract.ts";

describeEachSqlEngine("PersonStore", (open) => {
  personStoreContract(() => openFixture(open));
  describe("against a model", () => {
    personModelContract(() => openFixture(open));
  });
  describe("whose database fails", () => {
    brokenPersonStoreContract(() => openFixture(open));
  });
});

async function openFixture(open: OpenDatabase): Promise<PersonStoreFixture> {
  const database = await open();
  const groupTypeNotices: number[] = [];
  const continuityFlagKeys = new Map<number, readonly string[]>();
  const newStore = () =>
    createPersonStore(database, {
      continuityFlagKeys: (projectId) => continuityFlagKeys.get(projectId) ?? [],
      onGroupTypeAdded: (projectId) => groupTypeNotices.push(projectId),
      reportFault: () => {},
    });
  const { newProject, newStaticCohort } = await projectsAndUsers(database);
  let store = newStore();
  const secondStore = database.capabilities.isExclusive ? store : newStore();
  return {
    get store() {
      return store;
    },
    secondStore,
    restart() {
      store = newStore();
    },
    async changeByHand(projectId, distinctId, { changes, now }) {
      const records = createPersonRecords(database, store);
      await records.changeProperties(projectId, { distinctId }, changes, { now });
    },
    groupTypeNotices,
    continuityFlagKeys,
    newProject: () => newProject(),
    async deleteProject(id) {
      await database.writes.deleteFrom("projects").where("id", "=", id).execute();
    },
    async revision(projectId) {
      const row = await database.reads
        .selectFrom("project_revisions")
        .select("revision")
        .where("project_id", "=", projectId)
        .executeTakeFirst();
      return row?.revision ?? 0;
    },
    newStaticCohort,
    breakStore: async () => {
      await database.writes.schema.dropTable("person_distinct_ids").execute();
      await database.writes.schema.dropTable("groups").execute();
    },
    close: () => database.close(),
  };
}

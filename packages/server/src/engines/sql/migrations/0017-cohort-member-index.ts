import type { SqlMigration } from "../sql-migration.ts";

/** Of a person's memberships everything is in the index: no row of the table is looked up. */
export const cohortMemberIndex: SqlMigration = () => ({
  async up(db) {
    await db.schema
      .createIndex("cohort_members_of_person")
      .on("cohort_members")
      .columns(["person_id", "cohort_id"])
      .execute();
    await db.schema.dropIndex("cohort_members_by_person").execute();
  },
});

import type { SqlMigration } from "../sql-migration.ts";

/** How deep the event was captured that a job was asked for by: what the job captures is deeper. */
export const jobDepths: SqlMigration = () => ({
  async up(db) {
    await db.schema
      .alterTable("transformation_jobs")
      .addColumn("hops", "integer", (column) => column.notNull().defaultTo(0))
      .execute();
  },
});

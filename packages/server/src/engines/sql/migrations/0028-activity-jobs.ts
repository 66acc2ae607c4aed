import type { SqlMigration } from "../sql-migration.ts";

/** The job that somebody had run, and with what. */
export const activityJobs: SqlMigration = () => ({
  async up(db) {
    await db.schema.alterTable("activity_log").addColumn("job", "text").execute();
  },
});

import type { SqlMigration } from "../sql-migration.ts";

/** The secret key that a project had before: it opens the same until somebody takes it away. */
export const secretKeyBackup: SqlMigration = () => ({
  async up(db) {
    await db.schema.alterTable("projects").addColumn("secret_api_token_backup", "text").execute();
    await db.schema
      .createIndex("projects_by_secret_backup")
      .on("projects")
      .column("secret_api_token_backup")
      .execute();
  },
});

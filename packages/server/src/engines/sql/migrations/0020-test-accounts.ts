import type { SqlMigration } from "../sql-migration.ts";

export const testAccounts: SqlMigration = () => ({
  async up(db) {
    await db.schema
      .alterTable("projects")
      .addColumn("test_account_filters", "text", (column) => column.notNull().defaultTo("[]"))
      .execute();
  },
});

import type { SqlMigration } from "../sql-migration.ts";

export const flagManagement: SqlMigration = ({ identity }) => ({
  async up(db) {
    await db.schema
      .createTable("activity_log")
      .addColumn("id", "integer", identity)
      .addColumn("project_id", "integer", (column) =>
        column.notNull().references("projects.id").onDelete("cascade"),
      )
      .addColumn("scope", "text", (column) => column.notNull())
      .addColumn("item_id", "text", (column) => column.notNull())
      .addColumn("item_version", "integer")
      .addColumn("activity", "text", (column) => column.notNull())
      .addColumn("name", "text", (column) => column.notNull())
      .addColumn("changes", "text", (column) => column.notNull())
      .addColumn("author_id", "integer", (column) =>
        column.references("users.id").onDelete("set null"),
      )
      .addColumn("created_at", "bigint", (column) => column.notNull())
      .execute();
    await db.schema
      .createIndex("activity_log_items")
      .on("activity_log")
      .columns(["project_id", "scope", "item_id", "id"])
      .execute();
    await db.schema
      .createIndex("activity_log_projects")
      .on("activity_log")
      .columns(["project_id", "id"])
      .execute();
  },
});

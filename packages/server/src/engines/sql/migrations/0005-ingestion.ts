import type { SqlMigration } from "../sql-migration.ts";

export const ingestion: SqlMigration = () => ({
  async up(db) {
    await db.schema
      .createTable("event_refusals")
      .addColumn("project_id", "integer", (column) =>
        column.notNull().references("projects.id").onDelete("cascade"),
      )
      .addColumn("uuid", "text", (column) => column.notNull())
      .addColumn("code", "text", (column) => column.notNull())
      .addColumn("detail", "text", (column) => column.notNull())
      .addColumn("times", "integer", (column) => column.notNull())
      .addColumn("first_at", "bigint", (column) => column.notNull())
      .addColumn("last_at", "bigint", (column) => column.notNull())
      .addPrimaryKeyConstraint("event_refusals_key", ["project_id", "uuid", "code"])
      .execute();
    await db.schema
      .createIndex("event_refusals_by_time")
      .on("event_refusals")
      .columns(["project_id", "last_at"])
      .execute();
    await db.schema
      .createTable("ingestion_warnings")
      .addColumn("project_id", "integer", (column) =>
        column.notNull().references("projects.id").onDelete("cascade"),
      )
      .addColumn("day", "integer", (column) => column.notNull())
      .addColumn("type", "text", (column) => column.notNull())
      .addColumn("sdk", "text", (column) => column.notNull())
      .addColumn("sdk_version", "text", (column) => column.notNull())
      .addColumn("times", "bigint", (column) => column.notNull())
      .addColumn("first_at", "bigint", (column) => column.notNull())
      .addColumn("last_at", "bigint", (column) => column.notNull())
      .addColumn("samples", "text", (column) => column.notNull())
      .addPrimaryKeyConstraint("ingestion_warnings_key", [
        "project_id",
        "day",
        "type",
        "sdk",
        "sdk_version",
      ])
      .execute();
  },
});

import type { SqlMigration } from "../sql-migration.ts";

export const experimentParts: SqlMigration = ({ identity }) => ({
  async up({ schema }) {
    await schema
      .createTable("experiment_parts")
      .addColumn("id", "integer", identity)
      .addColumn("project_id", "integer", (column) =>
        column.notNull().references("projects.id").onDelete("cascade"),
      )
      .addColumn("kind", "text", (column) => column.notNull())
      .addColumn("name", "text", (column) => column.notNull())
      .addColumn("description", "text")
      .addColumn("content", "text", (column) => column.notNull())
      .addColumn("tags", "text", (column) => column.notNull())
      .addColumn("deleted", "integer", (column) => column.notNull())
      .addColumn("created_at", "bigint", (column) => column.notNull())
      .addColumn("updated_at", "bigint", (column) => column.notNull())
      .addColumn("created_by", "integer", (column) =>
        column.references("users.id").onDelete("set null"),
      )
      .execute();
    await schema
      .createIndex("experiment_parts_by_project")
      .on("experiment_parts")
      .columns(["project_id", "kind", "created_at"])
      .execute();
    await schema.alterTable("experiments").addColumn("holdout_id", "integer").execute();
    await schema
      .alterTable("experiments")
      .addColumn("saved_metrics", "text", (column) => column.notNull().defaultTo("[]"))
      .execute();
  },
});

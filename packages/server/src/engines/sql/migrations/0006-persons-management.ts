import type { SqlMigration } from "../sql-migration.ts";

export const personsManagement: SqlMigration = ({ identity }) => ({
  async up(db) {
    await db.schema
      .createIndex("persons_by_creation")
      .on("persons")
      .columns(["project_id", "created_at", "id"])
      .execute();
    await db.schema
      .createIndex("groups_by_creation")
      .on("groups")
      .columns(["project_id", "group_type_index", "created_at", "group_key"])
      .execute();
    await db.schema
      .createTable("released_distinct_ids")
      .addColumn("project_id", "integer", (column) =>
        column.notNull().references("projects.id").onDelete("cascade"),
      )
      .addColumn("distinct_id", "text", (column) => column.notNull())
      .addColumn("times", "integer", (column) => column.notNull())
      .addPrimaryKeyConstraint("released_distinct_ids_key", ["project_id", "distinct_id"])
      .execute();
    await db.schema
      .createTable("event_changes")
      .addColumn("id", "integer", identity)
      .addColumn("project_id", "integer", (column) =>
        column.notNull().references("projects.id").onDelete("cascade"),
      )
      .addColumn("position", "bigint", (column) => column.notNull())
      .addColumn("change", "text", (column) => column.notNull())
      .execute();
    await db.schema.alterTable("group_types").addColumn("name_singular", "text").execute();
    await db.schema.alterTable("group_types").addColumn("name_plural", "text").execute();
  },
});

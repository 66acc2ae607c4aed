import type { SqlMigration } from "../sql-migration.ts";

export const flagDecisions: SqlMigration = () => ({
  async up(db) {
    await db.schema
      .createTable("flag_decisions")
      .addColumn("project_id", "integer", (column) =>
        column.notNull().references("projects.id").onDelete("cascade"),
      )
      .addColumn("flag_key", "text", (column) => column.notNull())
      .addColumn("day", "text", (column) => column.notNull())
      .addColumn("value", "text", (column) => column.notNull())
      .addColumn("times", "double precision", (column) => column.notNull())
      .addPrimaryKeyConstraint("flag_decisions_key", ["project_id", "flag_key", "day", "value"])
      .execute();
  },
});

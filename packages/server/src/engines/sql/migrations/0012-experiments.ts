import type { SqlMigration } from "../sql-migration.ts";

export const experiments: SqlMigration = ({ identity }) => ({
  async up(db) {
    await db.schema
      .createTable("experiments")
      .addColumn("id", "integer", identity)
      .addColumn("project_id", "integer", (column) =>
        column.notNull().references("projects.id").onDelete("cascade"),
      )
      .addColumn("name", "text", (column) => column.notNull())
      .addColumn("description", "text")
      .addColumn("start_date", "bigint")
      .addColumn("end_date", "bigint")
      .addColumn("flag_id", "integer", (column) => column.notNull().references("feature_flags.id"))
      .addColumn("exposure_cohort_id", "integer")
      .addColumn("type", "text", (column) => column.notNull())
      .addColumn("parameters", "text", (column) => column.notNull())
      .addColumn("filters", "text", (column) => column.notNull())
      .addColumn("secondary_metrics", "text", (column) => column.notNull())
      .addColumn("metrics", "text", (column) => column.notNull())
      .addColumn("metrics_secondary", "text", (column) => column.notNull())
      .addColumn("exposure_criteria", "text", (column) => column.notNull())
      .addColumn("stats_config", "text", (column) => column.notNull())
      .addColumn("primary_order", "text", (column) => column.notNull())
      .addColumn("secondary_order", "text", (column) => column.notNull())
      .addColumn("conclusion", "text")
      .addColumn("conclusion_comment", "text")
      .addColumn("archived", "integer", (column) => column.notNull())
      .addColumn("deleted", "integer", (column) => column.notNull())
      .addColumn("created_at", "bigint", (column) => column.notNull())
      .addColumn("updated_at", "bigint", (column) => column.notNull())
      .addColumn("created_by", "integer", (column) =>
        column.references("users.id").onDelete("set null"),
      )
      .execute();
    await db.schema
      .createIndex("experiments_by_project")
      .on("experiments")
      .columns(["project_id", "created_at"])
      .execute();
    await db.schema
      .createIndex("experiments_by_flag")
      .on("experiments")
      .column("flag_id")
      .execute();
  },
});

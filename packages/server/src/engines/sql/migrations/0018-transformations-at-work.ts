import { sql } from "kysely";
import type { SqlMigration } from "../sql-migration.ts";

export const transformationsAtWork: SqlMigration = ({ identity }) => ({
  async up(db) {
    const ofConfig = (table: string) =>
      db.schema
        .createTable(table)
        .addColumn("config_id", "integer", (column) =>
          column.notNull().references("transformation_configs.id").onDelete("cascade"),
        );
    await ofConfig("transformation_hours")
      .addColumn("hour", "bigint", (column) => column.notNull())
      .addColumn("events_in", "double precision", (column) => column.notNull())
      .addColumn("events_out", "double precision", (column) => column.notNull())
      .addColumn("dropped", "double precision", (column) => column.notNull())
      .addColumn("failed", "double precision", (column) => column.notNull())
      .addColumn("durations", "text", (column) => column.notNull())
      .addColumn("own_metrics", "text", (column) => column.notNull())
      .addPrimaryKeyConstraint("transformation_hours_key", ["config_id", "hour"])
      .execute();
    await db.schema
      .createTable("transformation_count_position")
      .addColumn("position", "double precision", (column) => column.notNull())
      .execute();
    await sql`insert into transformation_count_position (position) values (0)`.execute(db);

    await ofConfig("transformation_logs")
      .addColumn("id", "text", (column) => column.primaryKey())
      .addColumn("transformation_id", "integer", (column) => column.notNull())
      .addColumn("at", "bigint", (column) => column.notNull())
      .addColumn("source", "text", (column) => column.notNull())
      .addColumn("type", "text", (column) => column.notNull())
      .addColumn("message", "text", (column) => column.notNull())
      .addColumn("instance_id", "text", (column) => column.notNull())
      .execute();
    await db.schema
      .createIndex("transformation_logs_by_config")
      .on("transformation_logs")
      .columns(["config_id", "id"])
      .execute();

    await ofConfig("transformation_storage")
      .addColumn("key", "text", (column) => column.notNull())
      .addColumn("value", "text", (column) => column.notNull())
      .addColumn("chars", "integer", (column) => column.notNull())
      .addPrimaryKeyConstraint("transformation_storage_key", ["config_id", "key"])
      .execute();

    await ofConfig("transformation_jobs")
      .addColumn("id", "integer", identity)
      .addColumn("project_id", "integer", (column) => column.notNull())
      .addColumn("name", "text", (column) => column.notNull())
      .addColumn("payload", "text", (column) => column.notNull())
      .addColumn("run_at", "bigint", (column) => column.notNull())
      .addColumn("attempts", "integer", (column) => column.notNull())
      .execute();
    await db.schema
      .createIndex("transformation_jobs_due")
      .on("transformation_jobs")
      .columns(["run_at", "id"])
      .execute();
    await db.schema
      .createIndex("transformation_jobs_by_config")
      .on("transformation_jobs")
      .column("config_id")
      .execute();

    await ofConfig("transformation_periods")
      .addColumn("task", "text", (column) => column.notNull())
      .addColumn("period", "bigint", (column) => column.notNull())
      .addPrimaryKeyConstraint("transformation_periods_key", ["config_id", "task"])
      .execute();
  },
});

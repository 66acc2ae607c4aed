import { sql } from "kysely";
import type { SqlMigration } from "../sql-migration.ts";

export const flags: SqlMigration = ({ identity }) => ({
  async up(db) {
    await db.schema
      .createTable("project_revisions")
      .addColumn("project_id", "integer", (column) =>
        column.primaryKey().references("projects.id").onDelete("cascade"),
      )
      .addColumn("revision", "bigint", (column) => column.notNull())
      .execute();
    await db.schema
      .createTable("feature_flags")
      .addColumn("id", "integer", identity)
      .addColumn("project_id", "integer", (column) =>
        column.notNull().references("projects.id").onDelete("cascade"),
      )
      .addColumn("key", "text", (column) => column.notNull())
      .addColumn("name", "text", (column) => column.notNull())
      .addColumn("active", "integer", (column) => column.notNull())
      .addColumn("deleted", "integer", (column) => column.notNull())
      .addColumn("version", "integer", (column) => column.notNull())
      .addColumn("filters", "text", (column) => column.notNull())
      .addColumn("is_multivariate", "integer", (column) => column.notNull())
      .addColumn("ensure_experience_continuity", "integer", (column) => column.notNull())
      .addColumn("bucketing_identifier", "text", (column) => column.notNull())
      .addColumn("evaluation_runtime", "text", (column) => column.notNull())
      .addColumn("evaluation_contexts", "text", (column) => column.notNull())
      .addColumn("tags", "text", (column) => column.notNull())
      .addColumn("is_remote_configuration", "integer", (column) => column.notNull())
      .addColumn("has_experiment", "integer", (column) => column.notNull().defaultTo(0))
      .addColumn("creation_context", "text", (column) => column.notNull())
      .addColumn("details", "text", (column) => column.notNull())
      .addColumn("created_at", "bigint", (column) => column.notNull())
      .addColumn("updated_at", "bigint", (column) => column.notNull())
      .addColumn("created_by", "integer", (column) =>
        column.references("users.id").onDelete("set null"),
      )
      .addColumn("last_modified_by", "integer", (column) =>
        column.references("users.id").onDelete("set null"),
      )
      .addColumn("last_called_at", "bigint")
      .addColumn("changed_revision", "bigint", (column) => column.notNull())
      .execute();
    // Deleted flags keep their key; only a live one blocks it.
    await db.schema
      .createIndex("feature_flags_live_key")
      .on("feature_flags")
      .columns(["project_id", "key"])
      .unique()
      .where(sql.ref("deleted"), "=", 0)
      .execute();
    await db.schema
      .createIndex("feature_flags_changes")
      .on("feature_flags")
      .columns(["project_id", "changed_revision"])
      .execute();
    await db.schema
      .createTable("cohorts")
      .addColumn("id", "integer", identity)
      .addColumn("project_id", "integer", (column) =>
        column.notNull().references("projects.id").onDelete("cascade"),
      )
      .addColumn("name", "text", (column) => column.notNull())
      .addColumn("description", "text", (column) => column.notNull())
      .addColumn("is_static", "integer", (column) => column.notNull())
      .addColumn("filters", "text", (column) => column.notNull())
      .addColumn("deleted", "integer", (column) => column.notNull())
      .addColumn("created_at", "bigint", (column) => column.notNull())
      .addColumn("created_by", "integer", (column) =>
        column.references("users.id").onDelete("set null"),
      )
      .addColumn("members_changed_at", "bigint")
      .addColumn("changed_revision", "bigint", (column) => column.notNull())
      .execute();
    await db.schema
      .createIndex("cohorts_changes")
      .on("cohorts")
      .columns(["project_id", "changed_revision"])
      .execute();
    await db.schema
      .createTable("cohort_members")
      .addColumn("cohort_id", "integer", (column) =>
        column.notNull().references("cohorts.id").onDelete("cascade"),
      )
      .addColumn("person_id", "integer", (column) => column.notNull())
      .addPrimaryKeyConstraint("cohort_members_key", ["cohort_id", "person_id"])
      .execute();
    await db.schema
      .createIndex("cohort_members_by_person")
      .on("cohort_members")
      .columns(["person_id", "cohort_id"])
      .execute();
  },
});

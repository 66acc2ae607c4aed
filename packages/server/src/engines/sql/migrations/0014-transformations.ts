import { sql } from "kysely";
import type { SqlMigration } from "../sql-migration.ts";

export const transformations: SqlMigration = ({ identity }) => ({
  async up(db) {
    await db.schema
      .createTable("transformations")
      .addColumn("id", "integer", identity)
      .addColumn("organization_id", "text", (column) =>
        column.notNull().references("organizations.id").onDelete("cascade"),
      )
      .addColumn("type", "text", (column) => column.notNull())
      .addColumn("name", "text", (column) => column.notNull())
      .addColumn("description", "text")
      .addColumn("url", "text")
      .addColumn("url_key", "text", (column) => column.unique())
      .addColumn("icon", "text")
      .addColumn("config_schema", "text", (column) => column.notNull())
      .addColumn("tag", "text")
      .addColumn("latest_tag", "text")
      .addColumn("latest_tag_checked_at", "bigint")
      .addColumn("is_global", "integer", (column) => column.notNull())
      .addColumn("capabilities", "text", (column) => column.notNull())
      .addColumn("metrics", "text", (column) => column.notNull())
      .addColumn("public_jobs", "text", (column) => column.notNull())
      .addColumn("version", "integer", (column) => column.notNull())
      .addColumn("created_at", "bigint", (column) => column.notNull())
      .addColumn("updated_at", "bigint", (column) => column.notNull())
      .execute();
    await db.schema
      .createIndex("transformations_by_organization")
      .on("transformations")
      .column("organization_id")
      .execute();

    await db.schema
      .createTable("transformation_versions")
      .addColumn("transformation_id", "integer", (column) =>
        column.notNull().references("transformations.id").onDelete("cascade"),
      )
      .addColumn("version", "integer", (column) => column.notNull())
      .addColumn("files", "text", (column) => column.notNull())
      .addColumn("file_names", "text", (column) => column.notNull())
      .addColumn("program", "text")
      .addColumn("tag", "text")
      .addColumn("restored_from", "integer")
      .addColumn("created_at", "bigint", (column) => column.notNull())
      .addColumn("created_by", "integer", (column) =>
        column.references("users.id").onDelete("set null"),
      )
      .addPrimaryKeyConstraint("transformation_versions_key", ["transformation_id", "version"])
      .execute();

    await db.schema
      .createTable("transformation_configs")
      .addColumn("id", "integer", identity)
      .addColumn("project_id", "integer", (column) =>
        column.notNull().references("projects.id").onDelete("cascade"),
      )
      .addColumn("transformation_id", "integer", (column) =>
        column.notNull().references("transformations.id").onDelete("cascade"),
      )
      .addColumn("enabled", "integer", (column) => column.notNull())
      .addColumn("run_order", "bigint", (column) => column.notNull())
      .addColumn("config", "text", (column) => column.notNull())
      .addColumn("name", "text")
      .addColumn("description", "text")
      .addColumn("allowed_hosts", "text", (column) => column.notNull())
      .addColumn("problem", "text")
      .addColumn("problem_at", "bigint")
      .addColumn("deleted", "integer", (column) => column.notNull())
      .addColumn("created_at", "bigint", (column) => column.notNull())
      .addColumn("updated_at", "bigint", (column) => column.notNull())
      .execute();
    await db.schema
      .createIndex("transformation_configs_by_project")
      .on("transformation_configs")
      .columns(["project_id", "run_order"])
      .execute();
    await db.schema
      .createIndex("transformation_configs_by_transformation")
      .on("transformation_configs")
      .column("transformation_id")
      .execute();

    await db.schema
      .createTable("transformation_attachments")
      .addColumn("id", "integer", identity)
      .addColumn("config_id", "integer", (column) =>
        column.notNull().references("transformation_configs.id").onDelete("cascade"),
      )
      .addColumn("key", "text", (column) => column.notNull())
      .addColumn("file_name", "text", (column) => column.notNull())
      .addColumn("content_type", "text", (column) => column.notNull())
      .addColumn("size_bytes", "integer", (column) => column.notNull())
      .addColumn("contents", "text", (column) => column.notNull())
      .addUniqueConstraint("transformation_attachments_keys", ["config_id", "key"])
      .execute();

    await db.schema
      .createTable("transformation_revisions")
      .addColumn("project_id", "integer", (column) =>
        column.primaryKey().references("projects.id").onDelete("cascade"),
      )
      .addColumn("revision", "integer", (column) => column.notNull())
      .execute();
    await db.schema
      .createTable("transformation_clock")
      .addColumn("revision", "integer", (column) => column.notNull())
      .execute();
    await sql`insert into transformation_clock (revision) values (0)`.execute(db);

    // Organizations have activity of their own besides that of their projects.
    await db.schema
      .createTable("activities")
      .addColumn("id", "integer", identity)
      .addColumn("project_id", "integer", (column) =>
        column.references("projects.id").onDelete("cascade"),
      )
      .addColumn("organization_id", "text", (column) =>
        column.references("organizations.id").onDelete("cascade"),
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
    await sql`
      insert into activities
        (project_id, scope, item_id, item_version, activity, name, changes, author_id, created_at)
      select
        project_id, scope, item_id, item_version, activity, name, changes, author_id, created_at
      from activity_log order by id
    `.execute(db);
    await db.schema.dropTable("activity_log").execute();
    await db.schema.alterTable("activities").renameTo("activity_log").execute();
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
    await db.schema
      .createIndex("activity_log_organizations")
      .on("activity_log")
      .columns(["organization_id", "id"])
      .execute();
  },
});

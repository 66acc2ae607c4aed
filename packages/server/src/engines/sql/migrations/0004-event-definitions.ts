import type { CreateTableBuilder } from "kysely";
import type { SqlMigration } from "../sql-migration.ts";

export const eventDefinitions: SqlMigration = ({ identity }) => ({
  async up(db) {
    /** What definitions of events and of properties have in common. */
    const withDefinitionColumns = (table: CreateTableBuilder<string>) =>
      table
        .addColumn("id", "integer", identity)
        .addColumn("uuid", "text", (column) => column.notNull().unique())
        .addColumn("project_id", "integer", (column) =>
          column.notNull().references("projects.id").onDelete("cascade"),
        )
        .addColumn("name", "text", (column) => column.notNull())
        .addColumn("description", "text")
        .addColumn("tags", "text", (column) => column.notNull())
        .addColumn("created_at", "bigint", (column) => column.notNull())
        .addColumn("updated_at", "bigint")
        .addColumn("updated_by", "integer", (column) =>
          column.references("users.id").onDelete("set null"),
        )
        .addColumn("verified", "integer", (column) => column.notNull())
        .addColumn("verified_at", "bigint")
        .addColumn("verified_by", "integer", (column) =>
          column.references("users.id").onDelete("set null"),
        )
        .addColumn("hidden", "integer", (column) => column.notNull());

    await withDefinitionColumns(db.schema.createTable("event_definitions"))
      .addColumn("owner", "integer", (column) => column.references("users.id").onDelete("set null"))
      .addColumn("last_seen_at", "bigint")
      .addColumn("default_columns", "text", (column) => column.notNull())
      .addColumn("post_to_slack", "integer", (column) => column.notNull())
      .addUniqueConstraint("event_definitions_name", ["project_id", "name"])
      .execute();
    await withDefinitionColumns(db.schema.createTable("property_definitions"))
      .addColumn("kind", "text", (column) => column.notNull())
      // A number also where there is no group: unique constraints tell nulls apart.
      .addColumn("group_type_index", "integer", (column) => column.notNull())
      .addColumn("property_type", "text")
      .addColumn("is_numerical", "integer", (column) => column.notNull())
      .addUniqueConstraint("property_definitions_name", [
        "project_id",
        "kind",
        "group_type_index",
        "name",
      ])
      .execute();
    await db.schema
      .createTable("event_properties")
      .addColumn("event_id", "integer", (column) =>
        column.notNull().references("event_definitions.id").onDelete("cascade"),
      )
      .addColumn("property_id", "integer", (column) =>
        column.notNull().references("property_definitions.id").onDelete("cascade"),
      )
      .addColumn("project_id", "integer", (column) => column.notNull())
      .addPrimaryKeyConstraint("event_properties_key", ["event_id", "property_id"])
      .execute();
    await db.schema
      .createIndex("event_properties_by_property")
      .on("event_properties")
      .column("property_id")
      .execute();
    await db.schema
      .createIndex("event_properties_by_project")
      .on("event_properties")
      .column("project_id")
      .execute();
  },
});

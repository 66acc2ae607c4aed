import type { SqlMigration } from "../sql-migration.ts";

export const persons: SqlMigration = ({ identity }) => ({
  async up(db) {
    await db.schema
      .createTable("persons")
      .addColumn("id", "integer", identity)
      .addColumn("project_id", "integer", (column) =>
        column.notNull().references("projects.id").onDelete("cascade"),
      )
      .addColumn("uuid", "text", (column) => column.notNull())
      .addColumn("properties", "text", (column) => column.notNull())
      .addColumn("property_times", "text", (column) => column.notNull())
      .addColumn("created_at", "bigint", (column) => column.notNull())
      .addColumn("is_identified", "integer", (column) => column.notNull())
      .addUniqueConstraint("persons_uuid", ["project_id", "uuid"])
      .execute();
    await db.schema
      .createTable("person_distinct_ids")
      .addColumn("project_id", "integer", (column) =>
        column.notNull().references("projects.id").onDelete("cascade"),
      )
      .addColumn("distinct_id", "text", (column) => column.notNull())
      .addColumn("person_id", "integer", (column) =>
        column.notNull().references("persons.id").onDelete("cascade"),
      )
      .addPrimaryKeyConstraint("person_distinct_ids_key", ["project_id", "distinct_id"])
      .execute();
    await db.schema
      .createIndex("person_distinct_ids_by_person")
      .on("person_distinct_ids")
      .column("person_id")
      .execute();
    await db.schema
      .createTable("person_merges")
      .addColumn("position", "bigint", (column) => column.primaryKey())
      .addColumn("project_id", "integer", (column) =>
        column.notNull().references("projects.id").onDelete("cascade"),
      )
      .addColumn("from_uuid", "text", (column) => column.notNull())
      .addColumn("into_uuid", "text", (column) => column.notNull())
      .execute();
    await db.schema
      .createTable("group_types")
      .addColumn("project_id", "integer", (column) =>
        column.notNull().references("projects.id").onDelete("cascade"),
      )
      .addColumn("index", "integer", (column) => column.notNull())
      .addColumn("name", "text", (column) => column.notNull())
      .addPrimaryKeyConstraint("group_types_key", ["project_id", "index"])
      .addUniqueConstraint("group_types_name", ["project_id", "name"])
      .execute();
    await db.schema
      .createTable("groups")
      .addColumn("project_id", "integer", (column) =>
        column.notNull().references("projects.id").onDelete("cascade"),
      )
      .addColumn("group_type_index", "integer", (column) => column.notNull())
      .addColumn("group_key", "text", (column) => column.notNull())
      .addColumn("properties", "text", (column) => column.notNull())
      .addColumn("property_times", "text", (column) => column.notNull())
      .addColumn("created_at", "bigint", (column) => column.notNull())
      .addPrimaryKeyConstraint("groups_key", ["project_id", "group_type_index", "group_key"])
      .execute();
    await db.schema
      .createTable("flag_hash_key_overrides")
      .addColumn("person_id", "integer", (column) =>
        column.notNull().references("persons.id").onDelete("cascade"),
      )
      .addColumn("flag_key", "text", (column) => column.notNull())
      .addColumn("hash_key", "text", (column) => column.notNull())
      .addPrimaryKeyConstraint("flag_hash_key_overrides_key", ["person_id", "flag_key"])
      .execute();
    await db.schema
      .createTable("consumer_positions")
      .addColumn("name", "text", (column) => column.primaryKey())
      .addColumn("position", "bigint", (column) => column.notNull())
      .execute();
  },
});

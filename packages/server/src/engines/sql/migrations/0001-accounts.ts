import type { SqlMigration } from "../sql-migration.ts";

export const accounts: SqlMigration = ({ identity }) => ({
  async up(db) {
    await db.schema
      .createTable("organizations")
      .addColumn("id", "text", (column) => column.primaryKey())
      .addColumn("name", "text", (column) => column.notNull())
      .addColumn("slug", "text", (column) => column.notNull())
      .addColumn("created_at", "bigint", (column) => column.notNull())
      .addColumn("updated_at", "bigint", (column) => column.notNull())
      .execute();
    await db.schema
      .createTable("projects")
      .addColumn("id", "integer", identity)
      .addColumn("uuid", "text", (column) => column.notNull())
      .addColumn("organization_id", "text", (column) =>
        column.notNull().references("organizations.id"),
      )
      .addColumn("name", "text", (column) => column.notNull())
      .addColumn("api_token", "text", (column) => column.notNull().unique())
      .addColumn("secret_api_token", "text", (column) => column.notNull().unique())
      .addColumn("time_zone", "text", (column) => column.notNull())
      .addColumn("anonymize_ips", "integer", (column) => column.notNull().defaultTo(0))
      .addColumn("created_at", "bigint", (column) => column.notNull())
      .addColumn("updated_at", "bigint", (column) => column.notNull())
      .execute();
    await db.schema
      .createTable("users")
      .addColumn("id", "integer", identity)
      .addColumn("uuid", "text", (column) => column.notNull())
      .addColumn("distinct_id", "text", (column) => column.notNull())
      .addColumn("email", "text", (column) => column.notNull().unique())
      .addColumn("password_hash", "text", (column) => column.notNull())
      .addColumn("first_name", "text", (column) => column.notNull())
      .addColumn("last_name", "text", (column) => column.notNull())
      .addColumn("is_active", "integer", (column) => column.notNull())
      .addColumn("created_at", "bigint", (column) => column.notNull())
      .addColumn("current_organization_id", "text", (column) => column.notNull())
      .addColumn("current_project_id", "integer", (column) => column.notNull())
      .execute();
    await db.schema
      .createTable("memberships")
      .addColumn("organization_id", "text", (column) =>
        column.notNull().references("organizations.id"),
      )
      .addColumn("user_id", "integer", (column) => column.notNull().references("users.id"))
      .addColumn("level", "integer", (column) => column.notNull())
      .addPrimaryKeyConstraint("memberships_key", ["organization_id", "user_id"])
      .execute();
    await db.schema
      .createTable("personal_keys")
      .addColumn("id", "text", (column) => column.primaryKey())
      .addColumn("user_id", "integer", (column) => column.notNull().references("users.id"))
      .addColumn("label", "text", (column) => column.notNull())
      .addColumn("hash", "text", (column) => column.notNull().unique())
      .addColumn("mask_value", "text", (column) => column.notNull())
      .addColumn("scopes", "text", (column) => column.notNull())
      .addColumn("scoped_projects", "text", (column) => column.notNull())
      .addColumn("scoped_organizations", "text", (column) => column.notNull())
      .addColumn("created_at", "bigint", (column) => column.notNull())
      .addColumn("last_used_at", "bigint")
      .execute();
  },
});

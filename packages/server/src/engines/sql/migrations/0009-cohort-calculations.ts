import { sql } from "kysely";
import type { SqlMigration } from "../sql-migration.ts";

export const cohortCalculations: SqlMigration = () => ({
  async up(db) {
    const { schema } = db;
    await schema.alterTable("cohorts").addColumn("member_count", "bigint").execute();
    await schema.alterTable("cohorts").addColumn("calculated_at", "bigint").execute();
    await schema
      .alterTable("cohorts")
      .addColumn("is_calculating", "integer", (column) => column.notNull().defaultTo(0))
      .execute();
    await schema
      .alterTable("cohorts")
      .addColumn("errors_calculating", "integer", (column) => column.notNull().defaultTo(0))
      .execute();
    await schema.alterTable("cohorts").addColumn("calculation_error", "text").execute();
    await schema.alterTable("cohorts").addColumn("calculation_due_at", "bigint").execute();
    await schema
      .createIndex("cohorts_due")
      .on("cohorts")
      .columns(["calculation_due_at", "id"])
      .execute();
    // Whatever is there has not been counted yet.
    await sql`update cohorts set calculation_due_at = 0 where deleted = 0`.execute(db);
  },
});

import { constantValue } from "@hedgerow/core/flags/constant-value";
import { sql } from "kysely";
import { decodeJson } from "../codec.ts";
import type { SqlMigration } from "../sql-migration.ts";

export const flagLife: SqlMigration = () => ({
  async up(db) {
    await db.schema
      .alterTable("feature_flags")
      .addColumn("is_constant", "integer", (column) => column.notNull().defaultTo(0))
      .execute();
    await db.schema.alterTable("feature_flags").addColumn("sealed_payloads", "text").execute();
    const flags = await sql<{ id: number; filters: string }>`
      select id, filters from feature_flags`.execute(db);
    for (const { id, filters } of flags.rows) {
      if (constantValue(decodeJson(filters)) === null) continue;
      await sql`update feature_flags set is_constant = 1 where id = ${id}`.execute(db);
    }
  },
});

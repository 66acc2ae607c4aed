import type { SqlMigration } from "../sql-migration.ts";

/** Events are counted once what became of them is durable, and need no position to be told by. */
export const durableCounts: SqlMigration = () => ({
  async up(db) {
    await db.schema.dropTable("transformation_count_position").execute();
  },
});

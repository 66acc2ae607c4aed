import type { SqlMigration } from "../sql-migration.ts";

/** Times of properties apart from the row: most events move nothing else of their person. */
export const personTimes: SqlMigration = () => ({
  async up(db) {
    await db.schema
      .createTable("person_times")
      .addColumn("person_id", "integer", (column) =>
        column.primaryKey().references("persons.id").onDelete("cascade"),
      )
      .addColumn("times", "text", (column) => column.notNull())
      .execute();
  },
});

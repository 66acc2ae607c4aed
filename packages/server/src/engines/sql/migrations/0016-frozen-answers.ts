import type { SqlMigration } from "../sql-migration.ts";

export const frozenAnswers: SqlMigration = () => ({
  async up(db) {
    await db.schema
      .createTable("frozen_answers")
      .addColumn("experiment_id", "integer", (column) =>
        column.notNull().references("experiments.id").onDelete("cascade"),
      )
      .addColumn("answer_key", "text", (column) => column.notNull())
      .addColumn("answer_window", "text", (column) => column.notNull())
      .addColumn("body", "text", (column) => column.notNull())
      .addColumn("computed_at", "bigint", (column) => column.notNull())
      .addPrimaryKeyConstraint("frozen_answers_key", ["experiment_id", "answer_key"])
      .execute();
  },
});

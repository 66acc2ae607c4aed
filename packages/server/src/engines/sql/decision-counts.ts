import { sql } from "kysely";
import type { DecisionCounts } from "../../flags/decision-counts.ts";
import type { SqlDatabase } from "./sql-database.ts";

/** Rows written by one statement. */
const ROWS = 200;

/** {@link DecisionCounts} on SQL. */
export function createDecisionCounts({
  reads,
  writes,
}: Pick<SqlDatabase, "reads" | "writes">): DecisionCounts {
  return {
    async add(projectId, counts) {
      await writes.transaction().execute(async (transaction) => {
        for (let from = 0; from < counts.length; from += ROWS) {
          await transaction
            .insertInto("flag_decisions")
            .values(
              counts.slice(from, from + ROWS).map(({ flagKey, day, value, times }) => ({
                project_id: projectId,
                flag_key: flagKey,
                day,
                value,
                times,
              })),
            )
            .onConflict((conflict) =>
              conflict.columns(["project_id", "flag_key", "day", "value"]).doUpdateSet({
                times: sql<number>`flag_decisions.times + excluded.times`,
              }),
            )
            .execute();
        }
      });
    },

    async ofFlag(projectId, flagKey, { from, to }) {
      const rows = await reads
        .selectFrom("flag_decisions")
        .select(["day", "value", "times"])
        .where("project_id", "=", projectId)
        .where("flag_key", "=", flagKey)
        .where("day", ">=", from)
        .where("day", "<", to)
        .orderBy("day")
        .orderBy("value")
        .execute();
      return rows.map((row) => ({ flagKey, ...row }));
    },
  };
}

import { sql } from "kysely";
import type { RefusalStore } from "../../events/refusal-store.ts";
import { decodeInstant, encodeInstant } from "./codec.ts";
import type { SqlDatabase } from "./sql-database.ts";

/** {@link RefusalStore} on SQL. */
export function createRefusalStore({ reads, writes }: SqlDatabase): RefusalStore {
  return {
    async add(refused) {
      if (refused.length === 0) return;
      await writes.transaction().execute(async (transaction) => {
        const ids = [...new Set(refused.map(({ projectId }) => projectId))];
        const projects = await transaction
          .selectFrom("projects")
          .select("id")
          .where("id", "in", ids)
          .execute();
        const known = new Set(projects.map(({ id }) => id));
        for (const { projectId, uuid, code, detail, times, firstAt, lastAt } of refused) {
          if (!known.has(projectId)) continue;
          await transaction
            .insertInto("event_refusals")
            .values({
              project_id: projectId,
              uuid,
              code,
              detail,
              times,
              first_at: encodeInstant(firstAt),
              last_at: encodeInstant(lastAt),
            })
            .onConflict((conflict) =>
              conflict.columns(["project_id", "uuid", "code"]).doUpdateSet({
                times: sql`event_refusals.times + excluded.times`,
                detail: sql`excluded.detail`,
                last_at: sql`excluded.last_at`,
              }),
            )
            .execute();
        }
      });
    },

    async find(projectId, uuid) {
      const rows = await reads
        .selectFrom("event_refusals")
        .selectAll()
        .where("project_id", "=", projectId)
        .where("uuid", "=", uuid)
        .orderBy("last_at", "desc")
        .execute();
      return rows.map((row) => ({
        projectId: row.project_id,
        uuid: row.uuid,
        code: row.code,
        detail: row.detail,
        times: row.times,
        firstAt: decodeInstant(row.first_at),
        lastAt: decodeInstant(row.last_at),
      }));
    },

    async prune(before, mostPerProject) {
      await writes
        .deleteFrom("event_refusals")
        .where("last_at", "<", encodeInstant(before))
        .execute();
      const projects = await reads
        .selectFrom("event_refusals")
        .select("project_id")
        .groupBy("project_id")
        .having((eb) => eb.fn.countAll(), ">", mostPerProject)
        .execute();
      for (const { project_id } of projects) {
        const oldest = await reads
          .selectFrom("event_refusals")
          .select("last_at")
          .where("project_id", "=", project_id)
          .orderBy("last_at", "desc")
          .offset(mostPerProject - 1)
          .limit(1)
          .executeTakeFirst();
        if (!oldest) continue;
        await writes
          .deleteFrom("event_refusals")
          .where("project_id", "=", project_id)
          .where("last_at", "<", oldest.last_at)
          .execute();
      }
    },
  };
}

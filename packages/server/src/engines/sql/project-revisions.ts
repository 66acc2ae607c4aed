import type { Transaction } from "kysely";
import type { Schema } from "./schema.ts";

/**
 * Counts a change of what a project's flags depend on (flags, cohorts, group types, time zone) and
 * returns the new revision. Call it first in the transaction of the change: the row it writes is
 * locked until the commit, so that revisions become visible in their order.
 */
export async function nextRevision(
  transaction: Transaction<Schema>,
  projectId: number,
): Promise<number> {
  const { revision } = await transaction
    .insertInto("project_revisions")
    .values({ project_id: projectId, revision: 1 })
    .onConflict((conflict) =>
      conflict
        .column("project_id")
        .doUpdateSet((eb) => ({ revision: eb("project_revisions.revision", "+", 1) })),
    )
    .returning("revision")
    .executeTakeFirstOrThrow();
  return revision;
}

/**
 * {@link nextRevision} for a change that was decided on the definitions of `revision`; `undefined`,
 * and nothing is written, when the project has moved on since.
 */
export async function nextRevisionAfter(
  transaction: Transaction<Schema>,
  projectId: number,
  revision: number,
): Promise<number | undefined> {
  const advanced =
    revision === 0
      ? await transaction
          .insertInto("project_revisions")
          .values({ project_id: projectId, revision: 1 })
          .onConflict((conflict) => conflict.column("project_id").doNothing())
          .returning("revision")
          .executeTakeFirst()
      : await transaction
          .updateTable("project_revisions")
          .set((eb) => ({ revision: eb("revision", "+", 1) }))
          .where("project_id", "=", projectId)
          .where("revision", "=", revision)
          .returning("revision")
          .executeTakeFirst();
  return advanced?.revision;
}

import type { Transaction } from "kysely";
import type { Schema } from "./schema.ts";

/**
 * Counts a change of transformations or their configs and returns its number. Call it first in the
 * transaction of the change: the one row that it writes is locked until the commit, so that changes
 * come one after the other and each sees all before it.
 */
export async function nextTransformationRevision(
  transaction: Transaction<Schema>,
): Promise<number> {
  const { revision } = await transaction
    .updateTable("transformation_clock")
    .set((eb) => ({ revision: eb("revision", "+", 1) }))
    .returning("revision")
    .executeTakeFirstOrThrow();
  return revision;
}

/** Gives a project the number of a change. */
export async function markProject(
  transaction: Transaction<Schema>,
  projectId: number,
  revision: number,
): Promise<void> {
  await transaction
    .insertInto("transformation_revisions")
    .values({ project_id: projectId, revision })
    .onConflict((conflict) => conflict.column("project_id").doUpdateSet({ revision }))
    .execute();
}

/** Gives every project with a config of a transformation the number of a change. */
export async function markProjectsOf(
  transaction: Transaction<Schema>,
  transformationId: number,
  revision: number,
): Promise<void> {
  const projects = await transaction
    .selectFrom("transformation_configs")
    .select("project_id")
    .distinct()
    .where("transformation_id", "=", transformationId)
    .execute();
  for (const { project_id } of projects) await markProject(transaction, project_id, revision);
}

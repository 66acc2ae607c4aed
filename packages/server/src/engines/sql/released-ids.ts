import type { Transaction } from "kysely";
import { inTurns } from "./in-turns.ts";
import type { Schema } from "./schema.ts";

/** How often each of some ids lost its person, for `personUuid`; those that never did are absent. */
export async function releasesOf(
  transaction: Transaction<Schema>,
  projectId: number,
  distinctIds: readonly string[],
): Promise<ReadonlyMap<string, number>> {
  const releases = new Map<string, number>();
  if (distinctIds.length === 0) return releases;
  const any = await transaction
    .selectFrom("released_distinct_ids")
    .select("times")
    .where("project_id", "=", projectId)
    .limit(1)
    .executeTakeFirst();
  if (!any) return releases;
  for await (const some of inTurns(distinctIds)) {
    const rows = await transaction
      .selectFrom("released_distinct_ids")
      .select(["distinct_id", "times"])
      .where("project_id", "=", projectId)
      .where("distinct_id", "in", some)
      .execute();
    for (const row of rows) releases.set(row.distinct_id, row.times);
  }
  return releases;
}

/**
 * Notes that persons of a project lose ids, all or those not kept, so that whoever comes next under
 * one of them is somebody new. The caller holds the lock of `lockPersons`.
 */
export async function releaseIds(
  transaction: Transaction<Schema>,
  personIds: readonly number[],
  keptId: string | null = null,
): Promise<void> {
  await transaction
    .insertInto("released_distinct_ids")
    .columns(["project_id", "distinct_id", "times"])
    .expression((eb) => {
      const ids = eb
        .selectFrom("person_distinct_ids")
        .select(["project_id", "distinct_id", eb.lit(1).as("times")])
        .where("person_id", "in", personIds);
      return keptId === null ? ids : ids.where("distinct_id", "!=", keptId);
    })
    .onConflict((conflict) =>
      conflict
        .columns(["project_id", "distinct_id"])
        .doUpdateSet((eb) => ({ times: eb("released_distinct_ids.times", "+", 1) })),
    )
    .execute();
}

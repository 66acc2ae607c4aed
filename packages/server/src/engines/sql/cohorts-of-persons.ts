import type { Kysely } from "kysely";
import type { Schema } from "./schema.ts";

export const NO_COHORTS: ReadonlySet<number> = new Set();

/** Ids of the cohorts among whose stored members each person is; whoever is in none is left out. */
export async function cohortsOfPersons(
  reads: Kysely<Schema>,
  personIds: readonly number[],
): Promise<ReadonlyMap<number, ReadonlySet<number>>> {
  const cohorts = new Map<number, Set<number>>();
  if (personIds.length === 0) return cohorts;
  const members = await reads
    .selectFrom("cohort_members")
    .select(["person_id", "cohort_id"])
    .where("person_id", "in", personIds)
    .execute();
  for (const { person_id, cohort_id } of members) {
    const ids = cohorts.get(person_id);
    if (ids) ids.add(cohort_id);
    else cohorts.set(person_id, new Set([cohort_id]));
  }
  return cohorts;
}

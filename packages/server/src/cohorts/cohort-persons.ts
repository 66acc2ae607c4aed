import { hasStoredMembers } from "@hedgerow/core/cohorts/read-cohort-filters";
import type { CompiledFlags } from "../flags/compiled-flags.ts";
import { inCohort } from "../persons/person-conditions.ts";
import type { ListedPerson, PersonMark, PersonRecords } from "../persons/person-records.ts";
import type { CohortRecord } from "./cohort-store.ts";
import type { MembershipStore } from "./membership-store.ts";

/** Persons of a cohort. */
export interface CohortPersons {
  readonly persons: readonly ListedPerson[];
  /** Where to go on; `null` at the end. A page may end before its limit, where few match. */
  readonly next: PersonMark | null;
}

/** Which persons of a cohort: `offset` counts from `after`, where that is given. */
export interface CohortPage {
  readonly limit: number;
  readonly offset: number;
  readonly after?: PersonMark;
}

/** Lists who is in a cohort: as flag requests would find it now. */
export type FindCohortPersons = (cohort: CohortRecord, page: CohortPage) => Promise<CohortPersons>;

/**
 * A {@link FindCohortPersons}: stored members by their list, in the order in which persons were first
 * seen; those of a rule by the routine of flags, newest first, on pages that may end early where few
 * match.
 */
export function createCohortPersons({
  memberships,
  personRecords,
  compiledFlags,
  clock,
}: {
  memberships: Pick<MembershipStore, "memberUuids">;
  personRecords: Pick<PersonRecords, "list" | "byUuids">;
  compiledFlags: Pick<CompiledFlags, "get">;
  clock: () => Date;
}): FindCohortPersons {
  return async (cohort, { limit, offset, after }) => {
    const { projectId, id } = cohort;
    if (hasStoredMembers(cohort)) {
      const range = { after: after?.id ?? 0, limit: limit + 1, offset };
      const members = await memberships.memberUuids(projectId, id, range);
      const listed = members.slice(0, limit);
      const found = await personRecords.byUuids(
        projectId,
        listed.map(({ uuid }) => uuid),
      );
      const last = members.length > limit ? listed.at(-1) : undefined;
      return {
        persons: listed.flatMap(({ uuid }) => found.get(uuid) ?? []),
        next: last ? { createdAtMs: 0, id: last.id } : null,
      };
    }
    const { cohorts } = (await compiledFlags.get(projectId)).flagSet;
    const compiled = cohorts.get(id);
    if (!compiled || compiled.failure !== null) return { persons: [], next: null };
    const condition = inCohort(compiled, cohorts, { now: clock(), wanted: true });
    return await personRecords.list({
      projectId,
      condition,
      limit,
      offset,
      ...(after && { after }),
    });
  };
}

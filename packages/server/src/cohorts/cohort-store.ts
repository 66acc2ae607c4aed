import type { CohortDefinition } from "@hedgerow/core/flags/flag";
import type { DescribedWrite } from "../activity/activity-log.ts";
import type { DefinitionWrite } from "../flags/flag-store.ts";

/** Everything stored of a cohort. */
export interface CohortRecord extends CohortDefinition {
  readonly projectId: number;
  readonly description: string;
  readonly deleted: boolean;
  readonly createdAt: Date;
  /** User id; `null` once the user is gone. */
  readonly createdById: number | null;
  /**
   * Members: of a small static cohort as they are, otherwise as last counted; `null` before that.
   */
  readonly memberCount: number | null;
  /** When the members of a static cohort last changed. */
  readonly membersChangedAt: Date | null;
  /** True from when a calculation is asked for until it has ended. */
  readonly isCalculating: boolean;
  readonly calculatedAt: Date | null;
  /** Failed calculations since the last one that did not fail, and why the last one did. */
  readonly errorsCalculating: number;
  readonly calculationError: string | null;
}

/** The fields a caller decides; the store gives the rest. */
export type CohortFields = Pick<
  CohortRecord,
  "name" | "description" | "isStatic" | "filters" | "deleted"
>;

/** Persons named by a caller: by uuid or by any of their distinct ids. */
export interface NamedPersons {
  readonly uuids: readonly string[];
  readonly distinctIds: readonly string[];
}

/** What became of adding or removing persons. */
export interface MembershipChange {
  /** Memberships that are new, or that ended; others were so before. */
  readonly changed: number;
  /** Names that belong to no person of the project, as given. */
  readonly unknown: NamedPersons;
}

export interface CohortListQuery {
  readonly isStatic: boolean | null;
  /** Part of the name, whatever its case. */
  readonly search: string | null;
  readonly createdById: number | null;
  readonly limit: number;
  readonly offset: number;
}

/**
 * Cohorts of all projects and the members of static ones. Every write is durable when its promise
 * resolves and is all or nothing. Writes of cohorts move the project's revision on in the same
 * step; changes of membership do not, since membership is read per person. A new cohort, and a new
 * rule, is due for calculation at once: see `MembershipStore`.
 */
export interface CohortStore {
  /** A new cohort with its first members; names nobody has are left out and reported. */
  create(
    projectId: number,
    fields: CohortFields,
    members: NamedPersons,
    write: DefinitionWrite & DescribedWrite<CohortRecord>,
  ): Promise<{ cohort: CohortRecord; unknown: NamedPersons } | "stale">;

  /** Changes the given fields, of deleted cohorts too. */
  update(
    projectId: number,
    id: number,
    change: Partial<CohortFields>,
    write: DefinitionWrite & DescribedWrite<CohortRecord>,
  ): Promise<CohortRecord | "not-found" | "stale">;

  /** Deleted cohorts are found too. */
  cohort(projectId: number, id: number): Promise<CohortRecord | undefined>;

  /** Cohorts that are not deleted, newest first. */
  list(
    projectId: number,
    query: CohortListQuery,
  ): Promise<{ count: number; cohorts: readonly CohortRecord[] }>;

  /**
   * Makes persons members of a static cohort, or ends their membership; `undefined` when the
   * project has no such cohort. Seen by the next flag request.
   */
  addMembers(
    projectId: number,
    id: number,
    persons: NamedPersons,
    now: Date,
  ): Promise<MembershipChange | undefined>;
  removeMembers(
    projectId: number,
    id: number,
    persons: NamedPersons,
    now: Date,
  ): Promise<MembershipChange | undefined>;
}

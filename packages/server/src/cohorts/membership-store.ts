import type { JsonObject } from "@hedgerow/core/json";

/** A cohort whose members, or their number, are to be found out. */
export interface CohortTask {
  readonly projectId: number;
  readonly id: number;
  /** The project's revision at the last change of the cohort. */
  readonly changedRevision: number;
  readonly errorsCalculating: number;
}

/** What became of a task. */
export type CalculationOutcome =
  | { readonly kind: "calculated"; readonly count: number }
  /** Of a static cohort; what went wrong when it was filled stays told. */
  | { readonly kind: "counted"; readonly count: number }
  /** Nothing is known, and nothing told. */
  | { readonly kind: "postponed" }
  | { readonly kind: "failed"; readonly error: string };

/** A person as rules see them. */
export interface CandidatePerson {
  readonly id: number;
  readonly uuid: string;
  /** Empty unless asked for. */
  readonly properties: JsonObject;
  readonly createdAt: Date;
  /** The first in alphabetical order; empty unless asked for. */
  readonly distinctId: string;
  /** Cohorts with stored members; empty unless asked for. */
  readonly cohortIds: ReadonlySet<number>;
}

/** What of persons to read. */
export interface PersonParts {
  readonly properties: boolean;
  readonly distinctId: boolean;
  readonly cohortIds: boolean;
}

/** Places of persons by record number: after one (exclusive), up to another (inclusive). */
export interface PersonStretch {
  readonly after: number;
  /** `null` for no bound. */
  readonly upTo: number | null;
}

/**
 * Who is in which cohort, and which cohorts are to be calculated. Nothing here moves a project's
 * revision: membership is read for each person, and never part of the definitions.
 */
export interface MembershipStore {
  /** Cohorts, not deleted, whose calculation is due, longest due first. */
  due(now: Date, limit: number): Promise<readonly CohortTask[]>;

  /** Asks for the calculation of cohorts from a moment on, and shows them as being calculated. */
  request(projectId: number, ids: readonly number[], dueAt: Date): Promise<void>;

  /**
   * Shows a static cohort as being calculated while many members are added, until a moment at most:
   * if `settle` has not ended that by then, the cohort is counted and `error` told of it.
   */
  fill(projectId: number, id: number, until: Date, error: string): Promise<void>;

  /** Ends every filling: for a process that starts and knows that no other runs. */
  endFillings(now: Date): Promise<void>;

  /** Shows a cohort as calculated, without error; it is due again at a moment. */
  settle(projectId: number, id: number, dueAt: Date): Promise<void>;

  /** Shows a cohort as being calculated. */
  start(task: CohortTask): Promise<void>;

  /**
   * Keeps the outcome and when to calculate again. A cohort that was changed since stays due: the
   * outcome is that of another rule.
   */
  finish(
    task: CohortTask,
    outcome: CalculationOutcome,
    times: { readonly now: Date; readonly dueAt: Date },
  ): Promise<void>;

  /** Persons of a project by record number, from the lowest after a place on. */
  persons(
    projectId: number,
    range: { readonly after: number; readonly limit: number },
    parts: PersonParts,
  ): Promise<readonly CandidatePerson[]>;

  /** Persons by uuid, at most some hundreds, of those that are there. */
  personsByUuid(
    projectId: number,
    uuids: readonly string[],
    parts: PersonParts,
  ): Promise<readonly CandidatePerson[]>;

  /** Record numbers of members, ascending. */
  memberIds(cohortId: number, stretch: PersonStretch, limit: number): Promise<readonly number[]>;

  /** Members with their UUIDs, by record number after one (exclusive), but for the first `offset`. */
  memberUuids(
    projectId: number,
    cohortId: number,
    page: { readonly after: number; readonly limit: number; readonly offset: number },
  ): Promise<readonly { readonly id: number; readonly uuid: string }[]>;

  /**
   * Adds and removes members, at most some hundreds: all or nothing. Persons who are gone are left
   * out. For what can be found out again: a machine that dies may lose it until `finish`.
   */
  changeMembers(
    projectId: number,
    cohortId: number,
    change: { readonly add: readonly number[]; readonly remove: readonly number[] },
  ): Promise<void>;
}

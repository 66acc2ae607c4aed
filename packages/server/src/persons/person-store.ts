import type { LoggedEvent } from "@hedgerow/core/events/event";
import type { EvaluationRequest, StoredFacts } from "@hedgerow/core/flags/evaluation-request";
import type { GroupType } from "@hedgerow/core/flags/flag";
import type { JsonObject } from "@hedgerow/core/json";

export interface Person {
  readonly id: number;
  /** UUID: the public identity of the person. */
  readonly uuid: string;
  readonly projectId: number;
  readonly distinctIds: readonly string[];
  readonly properties: JsonObject;
  readonly createdAt: Date;
  readonly isIdentified: boolean;
}

/** What a flag request needs of the stores, by name; computed from compiled flags and the request. */
export interface FactsQuery {
  readonly projectId: number;
  readonly distinctId: string;
  readonly anonDistinctId: string | null;
  readonly person: boolean;
  readonly staticCohorts: boolean;
  readonly hashKeyOverrides: boolean;
  /** Group keys by group type name, only those whose stored properties are needed. */
  readonly groups: Readonly<Record<string, string>>;
}

/** What became of an event's person. */
export interface PersonOutcome {
  readonly position: number;
  /** UUID of the event's person; deterministic for an id nobody stored (personless events). */
  readonly personId: string;
  /** Merges that this event carried out: later queries read `from` as `into`. */
  readonly merged: { readonly from: string; readonly into: string } | null;
  readonly warnings: readonly string[];
}

/** A person with more distinct ids than these is asked for them in vain: see `distinctIdsOf`. */
export const MAX_TOLD_DISTINCT_IDS = 1000;

/**
 * Persons, their distinct ids, groups, static cohort membership and stored flag overrides.
 */
export interface PersonStore {
  /**
   * The stored facts for one flag request, in one consistent read. A hot path: a single prepared
   * look-up per kind of fact asked for. Never throws for an unknown person; `"unavailable"` parts
   * only when the store itself fails. No promise is made for what is known without a read.
   */
  factsFor(query: FactsQuery): StoredFacts | Promise<StoredFacts>;

  /**
   * Applies the person and group changes of a run of events, in order, in one transaction together
   * with the consumer position: entries at or below the stored position change nothing, but are
   * answered all the same. Exactly once therefore, whatever is replayed. Fails when nothing can be
   * written now, even where nothing has to be.
   */
  applyEvents(entries: readonly LoggedEvent[]): Promise<readonly PersonOutcome[]>;

  /** Log position up to which events are applied; 0 at first. */
  position(): Promise<number>;

  /**
   * Makes sure that what is applied by now stays applied even if the machine dies, and tells up to
   * which position. Until then the log must keep the events: some may have to be applied again.
   */
  secure(): Promise<number>;

  /**
   * Stores the anonymous id as hash key for every given flag that has none yet, for the persons of
   * both ids (flag-evaluation 16.3). Never changes an existing row.
   */
  storeHashKeyOverrides(
    projectId: number,
    request: Pick<EvaluationRequest, "distinctId"> & { anonDistinctId: string },
    flagKeys: readonly string[],
  ): Promise<void>;

  /**
   * All distinct ids of the person who has the given one, that one included; none where nobody has
   * it, and `"too-many"` beyond {@link MAX_TOLD_DISTINCT_IDS}. As hot a path as `factsFor`.
   */
  distinctIdsOf(projectId: number, distinctId: string): Promise<readonly string[] | "too-many">;

  personByDistinctId(projectId: number, distinctId: string): Promise<Person | undefined>;
  groupTypes(projectId: number): Promise<readonly GroupType[]>;
}

import type { JsonObject } from "@hedgerow/core/json";
import type { PropertyChanges } from "@hedgerow/core/persons/property-changes";
import type { ActivityDraft } from "../activity/activity-log.ts";
import type { Person } from "./person-store.ts";

/** A place in the list of persons, newest first: that of the last one seen. */
export interface PersonMark {
  readonly createdAtMs: number;
  readonly id: number;
}

/** A person as conditions see them. */
export interface PersonFacts {
  readonly distinctId: string;
  readonly properties: JsonObject;
  readonly createdAt: Date;
  readonly staticCohortIds: ReadonlySet<number>;
}

/** A condition that only code can decide, with what lets a store skip persons without reading them. */
export interface PersonCondition {
  /** Properties without which nobody can match. */
  readonly requiredNames: readonly string[];
  readonly needsStaticCohorts: boolean;
  /** May throw to end a search that takes too long. */
  matches(person: PersonFacts): boolean;
}

/** Which persons; all that is given must hold. */
export interface PersonQuery {
  readonly projectId: number;
  /** At most some hundreds. */
  readonly uuids?: readonly string[];
  readonly distinctId?: string;
  /** Value of the property `email`, exactly. */
  readonly email?: string;
  /** A uuid or distinct id, exactly, or part of what a person is called, whatever the case. */
  readonly search?: string;
  /** Id of a static cohort. */
  readonly memberOf?: number;
  readonly condition?: PersonCondition;
  readonly limit: number;
  readonly offset: number;
  /** Only persons after this place; `offset` counts from there. */
  readonly after?: PersonMark;
}

/** Persons that a query found, newest first. */
export interface PersonPage {
  readonly persons: readonly ListedPerson[];
  /**
   * Where to go on; `null` at the end. A page may end before its limit, where searching takes long
   * or persons are large.
   */
  readonly next: PersonMark | null;
}

/** A person of a list, with the first of their distinct ids in alphabetical order. */
export type ListedPerson = Person;

/** Which person: by record number, uuid or distinct id. */
export type PersonName =
  | { readonly id: number }
  | { readonly uuid: string }
  | { readonly distinctId: string };

/** What stored events still have to follow of a change of persons, once they are stored up to a position. */
export interface EventChange {
  readonly id: number;
  readonly projectId: number;
  readonly position: number;
  readonly change:
    | { readonly kind: "delete"; readonly personIds: readonly string[] }
    | {
        readonly kind: "reassign";
        readonly moves: readonly { readonly distinctId: string; readonly personId: string }[];
      };
}

/** Who writes persons or groups by hand, and how it is told: kept in the transaction of the change. */
export interface WriteByHand<Subject> {
  readonly now: Date;
  /** User id; `null` where nobody is to be named. */
  readonly authorId?: number | null;
  /** `null` keeps no activity. */
  readonly describe?: (subject: Subject) => ActivityDraft | null;
}

/** What activities are told of: properties are not kept, since they would outlive the person. */
export type DescribedPerson = Pick<Person, "id" | "uuid">;

/** How many distinct ids a list shows of each person, and a single person. */
export const MAX_LISTED_IDS = 100;
export const MAX_SHOWN_IDS = 10_000;

/**
 * Persons as people look at them and change them by hand. Changes are seen by the next flag request.
 */
export interface PersonRecords {
  list(query: PersonQuery): Promise<PersonPage>;

  /** How many persons a project has. */
  count(projectId: number): Promise<number>;

  /** With at most {@link MAX_SHOWN_IDS} distinct ids. */
  person(projectId: number, name: PersonName): Promise<Person | undefined>;

  /** Persons by uuid, of those that are there. */
  byUuids(projectId: number, uuids: readonly string[]): Promise<ReadonlyMap<string, ListedPerson>>;

  /** Of distinct ids that anybody has, the persons, by id. */
  byDistinctIds(
    projectId: number,
    distinctIds: readonly string[],
  ): Promise<ReadonlyMap<string, ListedPerson>>;

  /** Ids of the static cohorts that a person is in. */
  staticCohortIds(personId: number): Promise<ReadonlySet<number>>;

  /**
   * Properties of persons, newest first, in runs: only of those that may have one, where it is named.
   * Fewer than `maxPersons` are looked at where they are large.
   */
  properties(
    projectId: number,
    options: { readonly name?: string; readonly maxPersons: number },
  ): AsyncIterable<readonly JsonObject[]>;

  /** Changes properties as an event of that time would; `undefined` for nobody. */
  changeProperties(
    projectId: number,
    name: PersonName,
    changes: PropertyChanges,
    write: WriteByHand<DescribedPerson>,
  ): Promise<"changed" | "too-long" | undefined>;

  /**
   * Deletes persons with their ids, overrides and cohort memberships, and, where asked, leaves an
   * {@link EventChange} for their events. Unknown uuids are left out.
   * @returns uuids of those who are gone
   */
  deletePersons(
    projectId: number,
    uuids: readonly string[],
    options: { readonly withEvents: boolean } & WriteByHand<DescribedPerson>,
  ): Promise<readonly string[]>;

  /** Leaves an {@link EventChange} that deletes the events of persons, who stay. */
  deleteEvents(projectId: number, uuids: readonly string[]): Promise<void>;

  /**
   * Gives every distinct id of a person but one to a new person of its own, with an
   * {@link EventChange} that takes the id's events along. Where no id is named the first one stays,
   * and the properties go.
   */
  split(
    projectId: number,
    uuid: string,
    options: { readonly mainDistinctId: string | null } & WriteByHand<DescribedPerson>,
  ): Promise<"split" | "not-found" | "unknown-distinct-id">;

  /** Oldest first. */
  eventChanges(limit: number): Promise<readonly EventChange[]>;
  removeEventChange(id: number): Promise<void>;
}

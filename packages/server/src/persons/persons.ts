import type { BacktrackingPatterns } from "@hedgerow/core/flags/pattern";
import type { JsonObject } from "@hedgerow/core/json";
import type { PropertyChanges } from "@hedgerow/core/persons/property-changes";
import type { ActivityDraft } from "../activity/activity-log.ts";
import { type EventStore, QueryTooLong } from "../events/event-store.ts";
import type { PropertyFilter } from "../events/property-search.ts";
import { type ReachNowDeps, reachNow } from "../events/reach-now.ts";
import { Refusal } from "../http/errors.ts";
import { presentFields } from "../http/present-fields.ts";
import { type CountedName, type CountedValue, countNames, countValues } from "./count-values.ts";
import type { ChangeFollower } from "./follow-changes.ts";
import {
  allOf,
  type CompiledCohorts,
  cohortIdsOf,
  havingProperties,
  inCohort,
} from "./person-conditions.ts";
import type {
  DescribedPerson,
  PersonCondition,
  PersonMark,
  PersonName,
  PersonPage,
  PersonQuery,
  PersonRecords,
  WriteByHand,
} from "./person-records.ts";
import type { Person } from "./person-store.ts";

/** Which persons a list has; all that is given must hold. */
export interface PersonSelection {
  readonly search?: string;
  readonly distinctId?: string;
  readonly email?: string;
  /** Of a cohort of either kind, and where it was asked for, for refusals. */
  readonly cohorts: readonly {
    readonly id: number;
    readonly wanted: boolean;
    readonly attr: string;
  }[];
  readonly properties: readonly PropertyFilter[];
}

export interface FoundPersons extends PersonPage {
  /** How many there are in all; `null` where only looking at everybody could tell. */
  readonly count: number | null;
}

/** Where a project stands, for what depends on it. */
export interface ProjectPlace {
  readonly id: number;
  /** IANA name. */
  readonly timeZone: string;
}

/** Persons as people look at them and change them. Everything acknowledged before a call is seen by it. */
export interface Persons {
  /** @param countAll counts a selection too, where that takes no more than some seconds */
  find(
    project: ProjectPlace,
    selection: PersonSelection,
    page: {
      readonly limit: number;
      readonly offset: number;
      readonly after?: PersonMark;
      readonly countAll: boolean;
    },
  ): Promise<FoundPersons>;

  /** Throws `not_found`. */
  person(projectId: number, name: PersonName): Promise<Person>;

  /** Ids of the cohorts of either kind that a person is in. Throws `not_found`. */
  cohortIds(projectId: number, name: PersonName): Promise<readonly number[]>;

  /** Values that persons have of a property, of the newest 20,000 persons who have it. */
  values(projectId: number, name: string, part?: string): Promise<readonly CountedValue[]>;

  /** Properties that persons have, of the newest 20,000 persons. */
  propertyNames(projectId: number): Promise<readonly CountedName[]>;

  /** Sets and removes properties as of now. Throws `not_found`. */
  changeProperties(
    projectId: number,
    name: PersonName,
    changes: { readonly set: JsonObject; readonly unset: readonly string[] },
    authorId: number,
  ): Promise<Person>;

  /**
   * Deletes persons, their events, or both; names of nobody are left out. Events are deleted as soon
   * as they are stored: normally before this resolves.
   * @returns how many persons there were
   */
  delete(
    projectId: number,
    names: { readonly uuids: readonly string[] } | { readonly distinctIds: readonly string[] },
    options: { readonly events: boolean; readonly keepPersons: boolean; readonly authorId: number },
  ): Promise<number>;

  /** Makes a person of every distinct id but one. Throws `not_found`. */
  split(
    projectId: number,
    name: PersonName,
    options: { readonly mainDistinctId: string | null; readonly authorId: number },
  ): Promise<void>;
}

export interface PersonsDeps {
  readonly records: PersonRecords;
  /** Waits until what was captured before is applied to persons; false when that takes long. */
  readonly caughtUp: (projectId: number) => Promise<boolean>;
  readonly log: ReachNowDeps["log"];
  readonly events: Pick<EventStore, "reached">;
  readonly follower: Pick<ChangeFollower, "follow">;
  readonly cohortsOf: (projectId: number) => Promise<CompiledCohorts>;
  readonly backtracking: BacktrackingPatterns;
  readonly clock: () => Date;
}

const MAX_SCANNED = 20_000;
/** Counting a selection takes no longer. */
const MAX_COUNT_MS = 2000;
/** Persons looked at by one step of counting. */
const COUNT_PAGE = 1000;
/** Events of somebody who is deleted are waited for no longer. */
const MAX_STORE_WAIT_MS = 5000;

const NOT_FOUND = () => new Refusal("not_found", "Not found.");
const LATE = () =>
  new Refusal("unavailable", "Events are stored late now. Try again later.", {
    headers: { "retry-after": "5" },
  });

/** {@link Persons} over their records. */
export function createPersons({
  records,
  caughtUp,
  log,
  events,
  follower,
  cohortsOf,
  backtracking,
  clock,
}: PersonsDeps): Persons {
  async function existing(projectId: number, name: PersonName): Promise<Person> {
    await caughtUp(projectId);
    const person = await records.person(projectId, name);
    if (!person) throw NOT_FOUND();
    return person;
  }

  async function queryOf(
    project: ProjectPlace,
    selection: PersonSelection,
  ): Promise<Omit<PersonQuery, "limit" | "offset">> {
    const { search, distinctId, email, properties } = selection;
    const conditions: PersonCondition[] = [];
    let memberOf: number | undefined;
    if (properties.length > 0) {
      const tools = { now: clock(), timeZone: project.timeZone, backtracking };
      conditions.push(havingProperties(properties, tools));
    }
    if (selection.cohorts.length > 0) {
      const cohorts = await cohortsOf(project.id);
      for (const { id, wanted, attr } of selection.cohorts) {
        const cohort = cohorts.get(id);
        if (!cohort) {
          throw new Refusal("cohort_does_not_exist", `There is no cohort with id ${id}.`, { attr });
        }
        if (cohort.failure !== null) {
          const detail = `The cohort with id ${id} cannot be decided: ${cohort.failure}.`;
          throw new Refusal("invalid_input", detail, { attr });
        }
        // Members by list are found by an index; further lists are looked up one by one.
        if (wanted && cohort.hasStoredMembers && memberOf === undefined) memberOf = id;
        else conditions.push(inCohort(cohort, cohorts, { now: clock(), wanted }));
      }
    }
    return presentFields({
      projectId: project.id,
      search,
      distinctId,
      email,
      memberOf,
      condition: allOf(conditions),
    });
  }

  async function countOf(query: Omit<PersonQuery, "limit" | "offset">): Promise<number | null> {
    const endMs = performance.now() + MAX_COUNT_MS;
    let count = 0;
    let after: PersonMark | undefined;
    while (performance.now() < endMs) {
      const place = after && { after };
      const page = await records.list({ ...query, ...place, limit: COUNT_PAGE, offset: 0 });
      count += page.persons.length;
      if (!page.next) return count;
      after = page.next;
    }
    return null;
  }

  const described = (
    authorId: number,
    draft: Pick<ActivityDraft, "activity" | "changes">,
  ): WriteByHand<DescribedPerson> => ({
    now: clock(),
    authorId,
    describe: ({ id, uuid }) => ({
      scope: "Person",
      itemId: String(id),
      itemVersion: null,
      name: uuid,
      ...draft,
    }),
  });

  return {
    async find(project, selection, { limit, offset, after, countAll }) {
      await caughtUp(project.id);
      try {
        const query = await queryOf(project, selection);
        const place = after ? { after, offset: 0 } : { offset };
        const page = await records.list({ ...query, ...place, limit });
        const isWhole = Object.keys(query).length === 1;
        const isOnlyPage = !page.next && after === undefined && offset === 0;
        const count = isWhole
          ? await records.count(project.id)
          : isOnlyPage
            ? page.persons.length
            : countAll
              ? await countOf(query)
              : null;
        return { ...page, count };
      } catch (error) {
        if (!(error instanceof QueryTooLong)) throw error;
        throw new Refusal("invalid_input", "The search takes too long. Ask for less.", {
          attr: "properties",
        });
      }
    },

    person: existing,

    async cohortIds(projectId, name) {
      const person = await existing(projectId, name);
      const facts = {
        distinctId: person.distinctIds[0] ?? "",
        properties: person.properties,
        createdAt: person.createdAt,
        staticCohortIds: await records.staticCohortIds(person.id),
      };
      return cohortIdsOf(facts, await cohortsOf(projectId), clock());
    },

    async values(projectId, name, part) {
      await caughtUp(projectId);
      return countValues(records.properties(projectId, { name, maxPersons: MAX_SCANNED }), {
        name,
        part,
      });
    },

    async propertyNames(projectId) {
      await caughtUp(projectId);
      return countNames(records.properties(projectId, { maxPersons: MAX_SCANNED }));
    },

    async changeProperties(projectId, name, { set, unset }, authorId) {
      const { id } = await existing(projectId, name);
      const changes: PropertyChanges = {
        set: new Map(Object.entries(set)),
        setOnce: new Map(),
        unset,
      };
      const outcome = await records.changeProperties(
        projectId,
        { id },
        changes,
        described(authorId, {
          activity: unset.length > 0 ? "delete_property" : "updated",
          // Which ones, not what they say: activities stay when the person goes.
          changes: [{ field: "properties", before: [...unset], after: Object.keys(set) }],
        }),
      );
      if (outcome === undefined) throw NOT_FOUND();
      if (outcome === "too-long") {
        const detail = "The properties of a person may have 640 KiB as JSON.";
        throw new Refusal("invalid_input", detail, { attr: "properties" });
      }
      return await existing(projectId, { id });
    },

    async delete(projectId, names, options) {
      // An event that is applied later would make the person again, with what it had.
      if (!(await caughtUp(projectId))) throw LATE();
      const found =
        "uuids" in names
          ? await records.byUuids(projectId, names.uuids)
          : await records.byDistinctIds(projectId, names.distinctIds);
      const uuids = [...new Set([...found.values()].map(({ uuid }) => uuid))];
      if (uuids.length === 0) return 0;
      // An event that is not stored yet could come in later as that of the id's next person.
      if (options.events && !(await reachNow({ events, log }, projectId, MAX_STORE_WAIT_MS))) {
        throw LATE();
      }
      if (options.keepPersons) {
        if (options.events) await records.deleteEvents(projectId, uuids);
      } else {
        await records.deletePersons(projectId, uuids, {
          withEvents: options.events,
          ...described(options.authorId, { activity: "deleted", changes: [] }),
        });
      }
      if (options.events) await follower.follow();
      return uuids.length;
    },

    async split(projectId, name, { mainDistinctId, authorId }) {
      // An identification that is applied later would join again what is split.
      if (!(await caughtUp(projectId))) throw LATE();
      const person = await records.person(projectId, name);
      if (!person) throw NOT_FOUND();
      const outcome = await records.split(projectId, person.uuid, {
        mainDistinctId,
        ...described(authorId, {
          activity: "split_person",
          changes: [{ field: "distinct_ids", before: person.distinctIds.length, after: 1 }],
        }),
      });
      switch (outcome) {
        case "split":
          return follower.follow();
        case "not-found":
          throw NOT_FOUND();
        case "unknown-distinct-id":
          throw new Refusal("invalid_input", "The person has no such distinct id.", {
            attr: "main_distinct_id",
          });
      }
    },
  };
}

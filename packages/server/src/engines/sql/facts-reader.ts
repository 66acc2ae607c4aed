import { cleanText } from "@hedgerow/core/events/clean-json";
import type { StoredFacts, StoredPersonFacts } from "@hedgerow/core/flags/evaluation-request";
import type { JsonObject } from "@hedgerow/core/json";
import { type Kysely, sql } from "kysely";
import { type FactsQuery, MAX_TOLD_DISTINCT_IDS } from "../../persons/person-store.ts";
import { asksForPerson, createFactsReader, type FoundFacts } from "./person-facts.ts";
import { prepareQuery, prepareReadAtOnce } from "./prepared-query.ts";
import {
  type DistinctIds,
  type RememberedPerson,
  RememberedPersons,
} from "./remembered-persons.ts";
import type { Schema } from "./schema.ts";
import type { ReadAtOnce, SqlDatabase } from "./sql-database.ts";

/** Reads stored facts, and is told what was written. */
export interface FactsReader {
  /** What is known, or read at once; `undefined` where it has to be waited for. May throw. */
  recall(query: FactsQuery): StoredFacts | undefined;
  read(query: FactsQuery): Promise<StoredFacts>;
  /** See `PersonStore.distinctIdsOf`. */
  distinctIdsOf(projectId: number, distinctId: string): Promise<DistinctIds>;
  /** Call after each commit that wrote persons, before answering for it. */
  forget: RememberedPersons["forget"];
}

const NO_PROPERTIES: JsonObject = Object.freeze({});
const NO_GROUPS: FoundFacts["groups"] = Object.freeze({});
const NO_COHORTS: ReadonlySet<number> = new Set();
const NO_OVERRIDES: ReadonlyMap<string, string> = new Map();

/** A reader that asks the database each time: others may write to it. */
export function createPlainFacts(reads: Kysely<Schema>): FactsReader {
  const readFacts = createFactsReader(reads);
  return {
    recall: () => undefined,
    read: async (query) => toStoredFacts(await readFacts(query)),
    distinctIdsOf: createDistinctIdsReader(reads),
    forget: () => {},
  };
}

/**
 * One look into an index for a member of one cohort or two; another one for those of more, and at the
 * person for those of none.
 */
function createCohortIdsAtOnce(database: {
  readonly reads: Kysely<Schema>;
  readonly readAtOnce: ReadAtOnce;
}): (personId: number) => readonly CohortIdRow[] {
  const { reads } = database;
  const bounds = prepareReadAtOnce<{ first: number | null; last: number; count: number }>(
    database,
    (bind) =>
      reads
        .selectFrom("cohort_members")
        .select(({ fn }) => [
          fn.min("cohort_id").as("first"),
          fn.max("cohort_id").as("last"),
          fn.countAll<number>().as("count"),
        ])
        .where("person_id", "=", bind("person")),
  );
  const all = prepareReadAtOnce<CohortIdRow>(database, (bind) =>
    reads.selectFrom("cohort_members").select("cohort_id").where("person_id", "=", bind("person")),
  );
  const person = prepareReadAtOnce<CohortIdRow>(database, (bind) =>
    reads
      .selectFrom("persons")
      .select(sql<null>`null`.as("cohort_id"))
      .where("id", "=", bind("person")),
  );
  return (personId) => {
    const values = { person: personId };
    const found = bounds.row(values);
    if (!found || found.first === null) return person.rows(values);
    if (found.count > 2) return all.rows(values);
    return [{ cohort_id: found.first }, { cohort_id: found.last }];
  };
}

interface CohortIdRow {
  readonly cohort_id: number | null;
}

function createDistinctIdsReader(reads: Kysely<Schema>): FactsReader["distinctIdsOf"] {
  const readIds = prepareQuery<{ distinct_id: string }>(reads, (bind) =>
    reads
      .selectFrom("person_distinct_ids as asked")
      .innerJoin("person_distinct_ids as told", "told.person_id", "asked.person_id")
      .select("told.distinct_id")
      .where("asked.project_id", "=", bind("project"))
      .where("asked.distinct_id", "=", bind("id"))
      .limit(sql.lit(MAX_TOLD_DISTINCT_IDS + 1)),
  );
  return async (projectId, distinctId) => {
    const rows = await readIds({ project: projectId, id: cleanText(distinctId) });
    return rows.length > MAX_TOLD_DISTINCT_IDS ? "too-many" : rows.map((row) => row.distinct_id);
  };
}

/**
 * A reader that remembers persons, and the cohorts they are in for as long as no memberships change;
 * of a person who is remembered these are read without a promise where the database can. Groups are
 * always read. A write that is committed while a request is being answered from both makes it start
 * again from the database.
 */
export function createRememberingFacts({
  reads,
  readAtOnce,
  membershipChanges,
}: Pick<SqlDatabase, "reads" | "readAtOnce" | "membershipChanges">): FactsReader {
  const persons = new RememberedPersons();
  const readFacts = createFactsReader(reads);
  const readDistinctIds = createDistinctIdsReader(reads);
  const readCohortIds = prepareQuery<CohortIdRow>(reads, (bind) =>
    reads
      .selectFrom("persons")
      .leftJoin("cohort_members", "cohort_members.person_id", "persons.id")
      .select("cohort_members.cohort_id")
      .where("persons.id", "=", bind("person")),
  );
  const readCohortIdsAtOnce = readAtOnce && createCohortIdsAtOnce({ reads, readAtOnce });

  async function load(
    { projectId, hashKeyOverrides }: FactsQuery,
    askedId: string,
  ): Promise<RememberedPerson | null> {
    const distinctId = cleanText(askedId);
    const known = persons.find(projectId, distinctId);
    if (known === null || (known && tellsEnough(known, hashKeyOverrides))) return known;
    const { generation } = persons;
    const found = await readFacts({
      projectId,
      distinctId,
      anonDistinctId: null,
      person: true,
      staticCohorts: false,
      hashKeyOverrides,
      groups: {},
    });
    const person = found.person && {
      ...found.person,
      hashKeyOverrides: hashKeyOverrides ? found.person.hashKeyOverrides : null,
      distinctIds: known?.distinctIds ?? null,
      cohorts: known?.cohorts ?? null,
    };
    persons.remember(projectId, distinctId, { person, generation });
    return person;
  }

  /** Ids of the cohorts with stored members that a person is in; `undefined` for one who is gone. */
  async function cohortIdsOf(
    query: FactsQuery,
    person: RememberedPerson,
    generation: number,
  ): Promise<ReadonlySet<number> | undefined> {
    const known = knownCohortIds(person);
    if (known) return known;
    const changes = membershipChanges.count;
    const rows = await readCohortIds({ person: person.id });
    return rememberCohortIds(query, person, { rows, changes, generation });
  }

  /** The same where they are known or can be read at once; also `undefined` where they cannot. */
  function cohortIdsAtOnce(
    query: FactsQuery,
    person: RememberedPerson,
  ): ReadonlySet<number> | undefined {
    const known = knownCohortIds(person);
    if (known || !readCohortIdsAtOnce) return known;
    const rows = readCohortIdsAtOnce(person.id);
    const { generation } = persons;
    return rememberCohortIds(query, person, { rows, changes: membershipChanges.count, generation });
  }

  function rememberCohortIds(
    { projectId, distinctId }: FactsQuery,
    person: RememberedPerson,
    read: { rows: readonly CohortIdRow[]; changes: number; generation: number },
  ): ReadonlySet<number> | undefined {
    const { rows, changes, generation } = read;
    // No row at all: the person became part of another a moment ago.
    if (rows.length === 0) return undefined;
    const ids = new Set(rows.flatMap(({ cohort_id }) => cohort_id ?? []));
    persons.remember(projectId, cleanText(distinctId), {
      person: { ...person, cohorts: { ids, changes } },
      generation,
    });
    return ids;
  }

  function knownCohortIds({ cohorts }: RememberedPerson): ReadonlySet<number> | undefined {
    return cohorts?.changes === membershipChanges.count ? cohorts.ids : undefined;
  }

  return {
    recall(query) {
      if (!asksForPerson(query) || hasGroups(query)) return undefined;
      const { projectId, distinctId, anonDistinctId, hashKeyOverrides } = query;
      const person = persons.find(projectId, cleanText(distinctId));
      if (person === undefined || (person && !tellsEnough(person, hashKeyOverrides))) {
        return undefined;
      }
      const cohortIds = query.staticCohorts && person ? cohortIdsAtOnce(query, person) : NO_COHORTS;
      if (cohortIds === undefined) return undefined;
      if (!hashKeyOverrides || anonDistinctId === null) {
        return factsOf(query, { person, cohortIds });
      }
      const anonymous = persons.find(projectId, cleanText(anonDistinctId));
      return anonymous === undefined || (anonymous && !tellsEnough(anonymous, true))
        ? undefined
        : factsOf(query, { person, anonymous, cohortIds });
    },

    async read(query) {
      if (!asksForPerson(query)) return toStoredFacts(await readFacts(query));
      const { generation } = persons;
      const person = await load(query, query.distinctId);
      const anonymous =
        query.hashKeyOverrides && query.anonDistinctId !== null
          ? await load(query, query.anonDistinctId)
          : null;
      const cohortIds =
        query.staticCohorts && person ? await cohortIdsOf(query, person, generation) : NO_COHORTS;
      const groups = hasGroups(query) ? (await readFacts(groupsOnly(query))).groups : {};
      if (cohortIds === undefined || generation !== persons.generation) {
        return toStoredFacts(await readFacts(query));
      }
      return factsOf(query, { person, anonymous, cohortIds, groups });
    },

    async distinctIdsOf(projectId, distinctId) {
      const known = persons.find(projectId, cleanText(distinctId));
      if (known === null) return [];
      if (known?.distinctIds) return known.distinctIds;
      const { generation } = persons;
      const distinctIds = await readDistinctIds(projectId, distinctId);
      if (known) {
        const person = { ...known, distinctIds };
        persons.remember(projectId, cleanText(distinctId), { person, generation });
      }
      return distinctIds;
    },

    forget: (changes) => persons.forget(changes),
  };
}

/** Whether a remembered person holds what a query asks of it. */
function tellsEnough({ hashKeyOverrides }: RememberedPerson, asksForOverrides: boolean): boolean {
  return hashKeyOverrides !== null || !asksForOverrides;
}

/** What a query asks for, of what was remembered and read. */
function factsOf(
  query: FactsQuery,
  {
    person,
    anonymous = null,
    cohortIds,
    groups = NO_GROUPS,
  }: {
    person: RememberedPerson | null;
    anonymous?: RememberedPerson | null;
    cohortIds: ReadonlySet<number>;
    groups?: FoundFacts["groups"];
  },
): StoredFacts {
  const others = anonymous !== null && anonymous.id !== person?.id && anonymous.hashKeyOverrides;
  return {
    person: person && {
      properties: query.person ? person.properties : NO_PROPERTIES,
      createdAt: person.createdAt,
      staticCohortIds: cohortIds,
      hashKeyOverrides: (query.hashKeyOverrides && person.hashKeyOverrides) || NO_OVERRIDES,
    },
    groups,
    ...(others && { anonymousHashKeyOverrides: others }),
  };
}

function hasGroups({ groups }: FactsQuery): boolean {
  return Object.keys(groups).length > 0;
}

/** Without what only the store wants to know of a row. */
function toStoredFacts({
  person,
  anonymousHashKeyOverrides,
  groups,
}: Omit<FoundFacts, "person"> & { readonly person: StoredPersonFacts | null }): StoredFacts {
  const anonymous = anonymousHashKeyOverrides && { anonymousHashKeyOverrides };
  if (!person) return { person, groups, ...anonymous };
  const { properties, createdAt, staticCohortIds, hashKeyOverrides } = person;
  return {
    person: { properties, createdAt, staticCohortIds, hashKeyOverrides },
    groups,
    ...anonymous,
  };
}

function groupsOnly(query: FactsQuery): FactsQuery {
  return { ...query, person: false, staticCohorts: false, hashKeyOverrides: false };
}

import { cleanText } from "@hedgerow/core/events/clean-json";
import type { StoredFacts, StoredPersonFacts } from "@hedgerow/core/flags/evaluation-request";
import type { JsonObject } from "@hedgerow/core/json";
import { type Kysely, sql } from "kysely";
import { type FactsQuery, MAX_TOLD_DISTINCT_IDS } from "../../persons/person-store.ts";
import { asksForPerson, createFactsReader, type FoundFacts } from "./person-facts.ts";
import { prepareQuery } from "./prepared-query.ts";
import {
  type DistinctIds,
  type RememberedPerson,
  RememberedPersons,
} from "./remembered-persons.ts";
import type { Schema } from "./schema.ts";

/** Reads stored facts, and is told what was written. */
export interface FactsReader {
  read(query: FactsQuery): Promise<StoredFacts>;
  /** See `PersonStore.distinctIdsOf`. */
  distinctIdsOf(projectId: number, distinctId: string): Promise<DistinctIds>;
  /** Call after each commit that wrote persons, before answering for it. */
  forget: RememberedPersons["forget"];
}

const NO_PROPERTIES: JsonObject = Object.freeze({});
const NO_COHORTS: ReadonlySet<number> = new Set();
const NO_OVERRIDES: ReadonlyMap<string, string> = new Map();

/** A reader that asks the database each time: others may write to it. */
export function createPlainFacts(reads: Kysely<Schema>): FactsReader {
  const readFacts = createFactsReader(reads);
  return {
    read: async (query) => toStoredFacts(await readFacts(query)),
    distinctIdsOf: createDistinctIdsReader(reads),
    forget: () => {},
  };
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
 * A reader that remembers persons. Static cohorts and groups are always read. A write that is
 * committed while a request is being answered from both makes it start again from the database.
 */
export function createRememberingFacts(reads: Kysely<Schema>): FactsReader {
  const persons = new RememberedPersons();
  const readFacts = createFactsReader(reads);
  const readDistinctIds = createDistinctIdsReader(reads);
  const readCohortIds = prepareQuery<{ cohort_id: number | null }>(reads, (bind) =>
    reads
      .selectFrom("persons")
      .leftJoin("cohort_members", "cohort_members.person_id", "persons.id")
      .select("cohort_members.cohort_id")
      .where("persons.id", "=", bind("person")),
  );

  async function load(
    { projectId, hashKeyOverrides }: FactsQuery,
    askedId: string,
  ): Promise<RememberedPerson | null> {
    const distinctId = cleanText(askedId);
    const known = persons.find(projectId, distinctId);
    if (known === null) return null;
    if (known && (known.hashKeyOverrides || !hashKeyOverrides)) return known;
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
    };
    persons.remember(projectId, distinctId, { person, generation });
    return person;
  }

  return {
    async read(query) {
      if (!asksForPerson(query)) return toStoredFacts(await readFacts(query));
      const { generation } = persons;
      const person = await load(query, query.distinctId);
      const anonymous =
        query.hashKeyOverrides && query.anonDistinctId !== null
          ? await load(query, query.anonDistinctId)
          : null;
      const cohorts =
        query.staticCohorts && person ? await readCohortIds({ person: person.id }) : undefined;
      const hasGroups = Object.keys(query.groups).length > 0;
      const groups = hasGroups ? (await readFacts(groupsOnly(query))).groups : {};
      // No row at all: the person became part of another a moment ago.
      const isGone = cohorts?.length === 0;
      if (isGone || generation !== persons.generation) {
        return toStoredFacts(await readFacts(query));
      }
      const isAnother = anonymous !== null && anonymous.id !== person?.id;
      return toStoredFacts({
        anonymousHashKeyOverrides: isAnother ? anonymous.hashKeyOverrides : null,
        groups,
        person: person && {
          properties: query.person ? person.properties : NO_PROPERTIES,
          createdAt: person.createdAt,
          staticCohortIds: cohorts
            ? new Set(cohorts.flatMap(({ cohort_id }) => cohort_id ?? []))
            : NO_COHORTS,
          hashKeyOverrides: (query.hashKeyOverrides && person.hashKeyOverrides) || NO_OVERRIDES,
        },
      });
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

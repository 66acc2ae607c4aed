import { cleanText } from "@hedgerow/core/events/clean-json";
import { type JsonObject, ownValue } from "@hedgerow/core/json";
import { namesOf } from "@hedgerow/core/persons/person-name";
import { type Kysely, type Selectable, sql, type Transaction } from "kysely";
import {
  type DescribedPerson,
  type ListedPerson,
  MAX_LISTED_IDS,
  MAX_SHOWN_IDS,
  type PersonFacts,
  type PersonMark,
  type PersonName,
  type PersonRecords,
  type WriteByHand,
} from "../../persons/person-records.ts";
import type { Person } from "../../persons/person-store.ts";
import { createSlices, filterInSlices } from "../../platform/slices.ts";
import { keepActivity } from "./activity-log.ts";
import {
  changePersonProperties,
  deletePersons,
  leaveEventChange,
  splitPerson,
} from "./change-persons.ts";
import { decodeBoolean, decodeInstant, decodeJson } from "./codec.ts";
import { cohortsOfPersons, NO_COHORTS } from "./cohorts-of-persons.ts";
import { bytesOf } from "./contains-text.ts";
import type { FactsReader } from "./facts-reader.ts";
import { inWindows, MAX_SCANNED_BYTES, pageOfWindows } from "./in-windows.ts";
import {
  type Condition,
  conditionsOf,
  hasProperty,
  isAfter,
  isUpTo,
  PROPERTIES,
} from "./person-conditions.ts";
import { lockPersons } from "./person-lock.ts";
import type { Schema } from "./schema.ts";
import type { SqlDatabase } from "./sql-database.ts";

/** A page ends here, however few were found. */
const MAX_SEARCH_MS = 2000;

/**
 * {@link PersonRecords} on SQL.
 * @param forget of the person store on the same database, which remembers persons
 */
export function createPersonRecords(
  { reads, writes }: SqlDatabase,
  { forget }: Pick<FactsReader, "forget">,
): PersonRecords {
  const selectPersons = (projectId: number) =>
    reads.selectFrom("persons as p").select(PERSON_COLUMNS).where("p.project_id", "=", projectId);

  /**
   * All persons after a place in runs, but for those whom a condition in SQL rules out.
   * @param among conditions of so few persons that runs are made of them alone
   */
  const windowsOf = (
    projectId: number,
    {
      after,
      among = [],
      conditions,
      maxRows,
    }: {
      after: PersonMark | undefined;
      among?: readonly Condition[];
      conditions: readonly Condition[];
      maxRows?: number;
    },
  ) =>
    inWindows<PersonMark, PersonRow>({
      after,
      ...(maxRows !== undefined && { maxRows }),
      measure: async (from, rowCount) => {
        const rows = await reads
          .selectFrom("persons as p")
          .select(["p.created_at", "p.id", bytesOf(PROPERTIES).as("bytes")])
          .where("p.project_id", "=", projectId)
          .$if(from !== undefined, (query) => query.where(isAfter(from)))
          .where((eb) => eb.and([...among]))
          .orderBy("p.created_at", "desc")
          .orderBy("p.id", "desc")
          .limit(rowCount)
          .execute();
        return rows.map(({ bytes, ...row }) => ({ mark: markOf(row), bytes }));
      },
      rowsOf: (from, end) =>
        selectPersons(projectId)
          .$if(from !== undefined, (query) => query.where(isAfter(from)))
          .where(isUpTo(end))
          .where((eb) => eb.and([...among, ...conditions]))
          .orderBy("p.created_at", "desc")
          .orderBy("p.id", "desc")
          .execute(),
    });

  /** The place of the n-th person of a list; `null` where it is shorter. */
  async function placeOf(
    projectId: number,
    { after, number }: { after: PersonMark | undefined; number: number },
  ): Promise<PersonMark | null> {
    const row = await reads
      .selectFrom("persons as p")
      .select(["p.created_at", "p.id"])
      .where("p.project_id", "=", projectId)
      .$if(after !== undefined, (query) => query.where(isAfter(after)))
      .orderBy("p.created_at", "desc")
      .orderBy("p.id", "desc")
      .offset(number - 1)
      .limit(1)
      .executeTakeFirst();
    return row ? markOf(row) : null;
  }

  async function withIds(
    rows: readonly PersonRow[],
    maxIds: number = MAX_LISTED_IDS,
  ): Promise<readonly ListedPerson[]> {
    const ids = await firstIdsOf(
      reads,
      rows.map(({ id }) => id),
      maxIds,
    );
    const persons: ListedPerson[] = [];
    const slices = createSlices();
    for (const row of rows) {
      if (slices.isOver()) await slices.next();
      persons.push(decodePerson(row, ids.get(row.id) ?? []));
    }
    return persons;
  }

  /** Persons who are called what is searched for, by ids that nobody else has. */
  async function idsNamed(projectId: number, search: string): Promise<ReadonlySet<number>> {
    const rows = await reads
      .selectFrom("person_distinct_ids")
      .select("person_id as id")
      .where("project_id", "=", projectId)
      .where("distinct_id", "=", search)
      .union(
        reads
          .selectFrom("persons")
          .select("id")
          .where("project_id", "=", projectId)
          .where("uuid", "=", search.toLowerCase()),
      )
      .execute();
    return new Set(rows.map(({ id }) => id));
  }

  async function factsOf(
    rows: readonly PersonRow[],
    { needsStaticCohorts }: { needsStaticCohorts: boolean },
  ): Promise<readonly PersonFacts[]> {
    if (rows.length === 0) return [];
    const personIds = rows.map(({ id }) => id);
    const distinctIds = await firstIdsOf(reads, personIds, 1);
    const cohorts = await cohortsOfPersons(reads, needsStaticCohorts ? personIds : []);
    return rows.map((row) => ({
      distinctId: distinctIds.get(row.id)?.[0] ?? "",
      properties: decodeJson(row.properties),
      createdAt: decodeInstant(row.created_at),
      staticCohortIds: cohorts.get(row.id) ?? NO_COHORTS,
    }));
  }

  async function personRow(projectId: number, name: PersonName): Promise<PersonRow | undefined> {
    const query = selectPersons(projectId);
    if ("id" in name) return query.where("p.id", "=", name.id).executeTakeFirst();
    if ("uuid" in name) return query.where("p.uuid", "=", name.uuid).executeTakeFirst();
    return query
      .innerJoin("person_distinct_ids as d", "d.person_id", "p.id")
      .where("d.project_id", "=", projectId)
      .where("d.distinct_id", "=", cleanText(name.distinctId))
      .executeTakeFirst();
  }

  return {
    async list(query) {
      const { projectId, limit, offset, after, email, condition, uuids, distinctId } = query;
      const search = query.search === undefined ? undefined : cleanText(query.search);
      const named = search === undefined ? new Set<number>() : await idsNamed(projectId, search);
      const folded = search?.toLowerCase();
      const conditions = conditionsOf({ ...query, search }, named);

      async function accept(rows: readonly PersonRow[]): Promise<readonly PersonRow[]> {
        const likely = rows.filter((row) => {
          if (email === undefined && folded === undefined) return true;
          const properties = decodeJson(row.properties);
          if (email !== undefined && ownValue(properties, "email") !== email) return false;
          return (
            folded === undefined ||
            named.has(row.id) ||
            namesOf(properties).some((name) => name.toLowerCase().includes(folded))
          );
        });
        if (!condition) return likely;
        const facts = await factsOf(likely, condition);
        const pairs = likely.flatMap((row, index) => {
          const person = facts[index];
          return person ? [{ row, person }] : [];
        });
        const found = await filterInSlices(pairs, ({ person }) => condition.matches(person));
        return found.map(({ row }) => row);
      }

      const isSearch = conditions.length > 0 || condition !== undefined;
      const isShort = uuids !== undefined || distinctId !== undefined;
      const start =
        isSearch || offset === 0 ? after : await placeOf(projectId, { after, number: offset });
      if (start === null) return { persons: [], next: null };
      const windows = windowsOf(
        projectId,
        isSearch && !isShort
          ? { after: start, conditions }
          : {
              after: start,
              among: conditions,
              conditions: [],
              ...(!isSearch && { maxRows: limit + 1 }),
            },
      );
      const page = await pageOfWindows<PersonMark, PersonRow>(windows, {
        limit,
        offset: isSearch ? offset : 0,
        maxMs: MAX_SEARCH_MS,
        accept,
        markOf,
      });
      return { persons: await withIds(page.rows), next: page.next };
    },

    async count(projectId) {
      const { count } = await reads
        .selectFrom("persons")
        .select((eb) => eb.fn.countAll<number>().as("count"))
        .where("project_id", "=", projectId)
        .executeTakeFirstOrThrow();
      return count;
    },

    async person(projectId, name) {
      const row = await personRow(projectId, name);
      if (!row) return undefined;
      const [person] = await withIds([row], MAX_SHOWN_IDS);
      return person;
    },

    async byUuids(projectId, uuids) {
      if (uuids.length === 0) return new Map();
      const rows = await selectPersons(projectId).where("p.uuid", "in", uuids).execute();
      return new Map((await withIds(rows)).map((person) => [person.uuid, person]));
    },

    async byDistinctIds(projectId, distinctIds) {
      if (distinctIds.length === 0) return new Map();
      const rows = await reads
        .selectFrom("person_distinct_ids as d")
        .innerJoin("persons as p", "p.id", "d.person_id")
        .select([...PERSON_COLUMNS, "d.distinct_id"])
        .where("d.project_id", "=", projectId)
        .where("d.distinct_id", "in", distinctIds.map(cleanText))
        .execute();
      const unique = new Map(rows.map((row) => [row.id, row]));
      const persons = await withIds([...unique.values()]);
      const byId = new Map(persons.map((person) => [person.id, person]));
      return new Map(
        rows.flatMap((row) => {
          const person = byId.get(row.id);
          return person ? [[row.distinct_id, person] as const] : [];
        }),
      );
    },

    async staticCohortIds(personId) {
      const rows = await reads
        .selectFrom("cohort_members")
        .select("cohort_id")
        .where("person_id", "=", personId)
        .execute();
      return new Set(rows.map((row) => row.cohort_id));
    },

    async *properties(projectId, { name, maxPersons }) {
      let seen = 0;
      let bytes = 0;
      const conditions = name === undefined ? [] : [hasProperty(name)];
      for await (const { rows, looked } of windowsOf(projectId, { after: undefined, conditions })) {
        yield rows.map((row) => decodeJson<JsonObject>(row.properties));
        seen += looked.rows;
        bytes += looked.bytes;
        if (seen >= maxPersons || bytes >= MAX_SCANNED_BYTES) return;
      }
    },

    async changeProperties(projectId, name, changes, write) {
      const { now } = write;
      const outcome = await writes.transaction().execute(async (transaction) => {
        await lockPersons(transaction);
        const row = await personRow(projectId, name);
        if (!row) return undefined;
        const changed = await changePersonProperties(transaction, row.id, { changes, now });
        if (typeof changed === "object") await keepWord(transaction, projectId, { of: row, write });
        return changed;
      });
      if (outcome === undefined || outcome === "too-long") return outcome;
      forget({ projectId, personIds: [outcome.personId], distinctIds: [] });
      return "changed";
    },

    async deletePersons(projectId, uuids, { withEvents, ...write }) {
      const gone = await writes.transaction().execute(async (transaction) => {
        const position = await lockPersons(transaction);
        const deleted = await deletePersons(transaction, projectId, uuids);
        const personIds = deleted.map(({ uuid }) => uuid);
        for (const of of deleted) await keepWord(transaction, projectId, { of, write });
        if (withEvents && personIds.length > 0) {
          const change = { kind: "delete", personIds } as const;
          await leaveEventChange(transaction, { projectId, position, change });
        }
        return deleted;
      });
      forget({ projectId, personIds: gone.map(({ id }) => id), distinctIds: [] });
      return gone.map(({ uuid }) => uuid);
    },

    async deleteEvents(projectId, uuids) {
      if (uuids.length === 0) return;
      await writes.transaction().execute(async (transaction) => {
        const position = await lockPersons(transaction);
        const change = { kind: "delete", personIds: uuids } as const;
        await leaveEventChange(transaction, { projectId, position, change });
      });
    },

    async split(projectId, uuid, options) {
      const outcome = await writes.transaction().execute(async (transaction) => {
        const position = await lockPersons(transaction);
        const split = await splitPerson(transaction, projectId, { uuid, ...options });
        if (typeof split !== "string" && split.moves.length > 0) {
          const change = { kind: "reassign", moves: split.moves } as const;
          await leaveEventChange(transaction, { projectId, position, change });
          const of = { id: split.personId, uuid };
          await keepWord(transaction, projectId, { of, write: options });
        }
        return split;
      });
      if (typeof outcome === "string") return outcome;
      forget({
        projectId,
        personIds: [outcome.personId],
        distinctIds: outcome.moves.map(({ distinctId }) => distinctId),
      });
      return "split";
    },

    async eventChanges(limit) {
      const rows = await reads
        .selectFrom("event_changes")
        .selectAll()
        .orderBy("id")
        .limit(limit)
        .execute();
      return rows.map((row) => ({
        id: row.id,
        projectId: row.project_id,
        position: row.position,
        change: decodeJson(row.change),
      }));
    },

    async removeEventChange(id) {
      await writes.deleteFrom("event_changes").where("id", "=", id).execute();
    },
  };
}

type PersonRow = Selectable<Pick<Schema["persons"], PersonColumn>>;
type PersonColumn = "id" | "project_id" | "uuid" | "properties" | "created_at" | "is_identified";

const PERSON_COLUMNS = [
  "p.id",
  "p.project_id",
  "p.uuid",
  "p.properties",
  "p.created_at",
  "p.is_identified",
] as const;

function markOf({ created_at, id }: Pick<PersonRow, "created_at" | "id">): PersonMark {
  return { createdAtMs: created_at, id };
}

/** The first distinct ids of each person, in alphabetical order. */
async function firstIdsOf(
  reads: Kysely<Schema>,
  personIds: readonly number[],
  maxIds: number,
): Promise<ReadonlyMap<number, readonly string[]>> {
  const ids = new Map<number, string[]>();
  if (personIds.length === 0) return ids;
  const rows = await reads
    .selectFrom(
      reads
        .selectFrom("person_distinct_ids")
        .select(["person_id", "distinct_id"])
        .select(
          sql<number>`row_number() over (partition by person_id order by distinct_id)`.as("place"),
        )
        .where("person_id", "in", personIds)
        .as("d"),
    )
    .select(["d.person_id", "d.distinct_id"])
    .where("d.place", "<=", maxIds)
    .orderBy("d.person_id")
    .orderBy("d.place")
    .execute();
  for (const { person_id, distinct_id } of rows) {
    const known = ids.get(person_id);
    if (known) known.push(distinct_id);
    else ids.set(person_id, [distinct_id]);
  }
  return ids;
}

/** Keeps the activity of a change, in its transaction. */
async function keepWord(
  transaction: Transaction<Schema>,
  projectId: number,
  { of, write }: { of: DescribedPerson; write: WriteByHand<DescribedPerson> },
): Promise<void> {
  await keepActivity(transaction, write.describe?.({ id: of.id, uuid: of.uuid }), {
    projectId,
    authorId: write.authorId ?? null,
    now: write.now,
  });
}

function decodePerson(row: PersonRow, distinctIds: readonly string[]): Person {
  return {
    id: row.id,
    uuid: row.uuid,
    projectId: row.project_id,
    distinctIds,
    properties: decodeJson(row.properties),
    createdAt: decodeInstant(row.created_at),
    isIdentified: decodeBoolean(row.is_identified),
  };
}

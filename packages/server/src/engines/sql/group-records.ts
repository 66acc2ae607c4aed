import { cleanText } from "@hedgerow/core/events/clean-json";
import { type JsonObject, ownValue } from "@hedgerow/core/json";
import type { PropertyChanges } from "@hedgerow/core/persons/property-changes";
import { PropertySheet } from "@hedgerow/core/persons/property-sheet";
import { type Expression, type Selectable, type SqlBool, sql, type Transaction } from "kysely";
import type { Group, GroupChange, GroupMark, GroupRecords } from "../../persons/group-records.ts";
import type { WriteByHand } from "../../persons/person-records.ts";
import { createSlices, filterInSlices } from "../../platform/slices.ts";
import { keepActivity } from "./activity-log.ts";
import { decodeSheet } from "./apply-to-persons.ts";
import { decodeInstant, decodeJson, encodeInstant } from "./codec.ts";
import { bytesOf, containsText, likeText } from "./contains-text.ts";
import { inWindows, MAX_SCANNED_BYTES, pageOfWindows } from "./in-windows.ts";
import { lockPersons } from "./person-lock.ts";
import { encodeSheet } from "./save-person-ledger.ts";
import type { Schema } from "./schema.ts";
import type { SqlDatabase } from "./sql-database.ts";

/** A page ends here, however few were found. */
const MAX_SEARCH_MS = 2000;

/** {@link GroupRecords} on SQL. */
export function createGroupRecords({ reads, writes }: SqlDatabase): GroupRecords {
  const selectGroups = (projectId: number, typeIndex: number) =>
    reads
      .selectFrom("groups as g")
      .select(["g.group_type_index", "g.group_key", "g.properties", "g.created_at"])
      .where("g.project_id", "=", projectId)
      .where("g.group_type_index", "=", typeIndex);

  const windowsOf = (
    { projectId, typeIndex }: { projectId: number; typeIndex: number },
    {
      after,
      conditions,
      maxRows,
    }: {
      after: GroupMark | undefined;
      conditions: readonly Condition[];
      maxRows?: number;
    },
  ) =>
    inWindows<GroupMark, GroupRow>({
      after,
      ...(maxRows !== undefined && { maxRows }),
      measure: async (from, rowCount) => {
        const rows = await reads
          .selectFrom("groups as g")
          .select(["g.created_at", "g.group_key", bytesOf(PROPERTIES).as("bytes")])
          .where("g.project_id", "=", projectId)
          .where("g.group_type_index", "=", typeIndex)
          .$if(from !== undefined, (query) => query.where(isAfter(from)))
          .orderBy("g.created_at", "desc")
          .orderBy("g.group_key", "desc")
          .limit(rowCount)
          .execute();
        return rows.map(({ bytes, ...row }) => ({ mark: markOf(row), bytes }));
      },
      rowsOf: (from, end) =>
        selectGroups(projectId, typeIndex)
          .$if(from !== undefined, (query) => query.where(isAfter(from)))
          .where(isUpTo(end))
          .where((eb) => eb.and([...conditions]))
          .orderBy("g.created_at", "desc")
          .orderBy("g.group_key", "desc")
          .execute(),
    });

  /** The place of the n-th group of a list; `null` where it is shorter. */
  async function placeOf(
    { projectId, typeIndex }: { projectId: number; typeIndex: number },
    { after, number }: { after: GroupMark | undefined; number: number },
  ): Promise<GroupMark | null> {
    const row = await reads
      .selectFrom("groups as g")
      .select(["g.created_at", "g.group_key"])
      .where("g.project_id", "=", projectId)
      .where("g.group_type_index", "=", typeIndex)
      .$if(after !== undefined, (query) => query.where(isAfter(after)))
      .orderBy("g.created_at", "desc")
      .orderBy("g.group_key", "desc")
      .offset(number - 1)
      .limit(1)
      .executeTakeFirst();
    return row ? markOf(row) : null;
  }

  return {
    async types(projectId) {
      const rows = await reads
        .selectFrom("group_types")
        .selectAll()
        .where("project_id", "=", projectId)
        .orderBy("index")
        .execute();
      return rows.map((row) => ({
        index: row.index,
        name: row.name,
        nameSingular: row.name_singular,
        namePlural: row.name_plural,
      }));
    },

    async renameTypes(projectId, changes) {
      await writes.transaction().execute(async (transaction) => {
        for (const { index, nameSingular, namePlural } of changes) {
          if (nameSingular === undefined && namePlural === undefined) continue;
          await transaction
            .updateTable("group_types")
            .set({
              ...(nameSingular !== undefined && { name_singular: nameSingular }),
              ...(namePlural !== undefined && { name_plural: namePlural }),
            })
            .where("project_id", "=", projectId)
            .where("index", "=", index)
            .execute();
        }
      });
    },

    async list({ limit, offset, after, ...query }) {
      const search = query.search === undefined ? undefined : cleanText(query.search);
      const keyPart = query.keyContains === undefined ? undefined : cleanText(query.keyContains);
      const conditions: Condition[] = (query.condition?.requiredNames ?? []).map(hasProperty);
      if (keyPart !== undefined) {
        conditions.push(isAscii(keyPart) ? containsText(KEY, keyPart) : ALWAYS);
      }
      if (search !== undefined) {
        const written = JSON.stringify(search).slice(1, -1);
        conditions.push(
          isAscii(search)
            ? sql<SqlBool>`(${containsText(KEY, search)} or ${containsText(PROPERTIES, written)})`
            : ALWAYS,
        );
      }
      const contains = (text: string, part: string | undefined) =>
        part === undefined || text.toLowerCase().includes(part.toLowerCase());
      const matches = (row: GroupRow): boolean => {
        if (!contains(row.group_key, keyPart)) return false;
        if (search === undefined && !query.condition) return true;
        const properties = decodeJson<JsonObject>(row.properties);
        const name = ownValue(properties, "name");
        const isNamed =
          contains(row.group_key, search) || (typeof name === "string" && contains(name, search));
        return isNamed && (query.condition?.matches({ key: row.group_key, properties }) ?? true);
      };
      const isSearch = conditions.length > 0 || query.condition !== undefined;
      const start =
        isSearch || offset === 0 ? after : await placeOf(query, { after, number: offset });
      if (start === null) return { groups: [], next: null };
      const windows = windowsOf(query, {
        after: start,
        conditions,
        ...(!isSearch && { maxRows: limit + 1 }),
      });
      const page = await pageOfWindows<GroupMark, GroupRow>(windows, {
        limit,
        offset: isSearch ? offset : 0,
        maxMs: MAX_SEARCH_MS,
        accept: (rows) => filterInSlices(rows, matches),
        markOf,
      });
      const groups: Group[] = [];
      const slices = createSlices();
      for (const row of page.rows) {
        if (slices.isOver()) await slices.next();
        groups.push(decodeGroup(row));
      }
      return { groups, next: page.next };
    },

    async count(projectId, typeIndex) {
      const { count } = await reads
        .selectFrom("groups")
        .select((eb) => eb.fn.countAll<number>().as("count"))
        .where("project_id", "=", projectId)
        .where("group_type_index", "=", typeIndex)
        .executeTakeFirstOrThrow();
      return count;
    },

    async group(projectId, typeIndex, key) {
      const row = await selectGroups(projectId, typeIndex)
        .where("g.group_key", "=", cleanText(key))
        .executeTakeFirst();
      return row && decodeGroup(row);
    },

    async *properties(projectId, { typeIndex, name, maxGroups }) {
      let seen = 0;
      let bytes = 0;
      const conditions = name === undefined ? [] : [hasProperty(name)];
      const windows = windowsOf({ projectId, typeIndex }, { after: undefined, conditions });
      for await (const { rows, looked } of windows) {
        yield rows.map((row) => decodeJson<JsonObject>(row.properties));
        seen += looked.rows;
        bytes += looked.bytes;
        if (seen >= maxGroups || bytes >= MAX_SCANNED_BYTES) return;
      }
    },

    async create(projectId, { typeIndex, key, properties }, write) {
      const { now } = write;
      return await writes.transaction().execute(async (transaction) => {
        await lockPersons(transaction);
        const sheet = new PropertySheet();
        const changes: PropertyChanges = {
          set: new Map(Object.entries(properties)),
          setOnce: new Map(),
          unset: [],
        };
        if (sheet.apply(changes, encodeInstant(now)) === "too-long") return "too-long";
        const row = await transaction
          .insertInto("groups")
          .values({
            ...encodeSheet(sheet),
            project_id: projectId,
            group_type_index: typeIndex,
            group_key: cleanText(key),
            created_at: encodeInstant(now),
          })
          .onConflict((conflict) =>
            conflict.columns(["project_id", "group_type_index", "group_key"]).doNothing(),
          )
          .returningAll()
          .executeTakeFirst();
        if (!row) return "exists";
        const after = decodeGroup(row);
        await keepWord(transaction, projectId, { of: { before: null, after }, write });
        return after;
      });
    },

    async changeProperties(projectId, { typeIndex, key }, changes, write) {
      const { now } = write;
      return await writes.transaction().execute(async (transaction) => {
        await lockPersons(transaction);
        const row = await transaction
          .selectFrom("groups")
          .selectAll()
          .where("project_id", "=", projectId)
          .where("group_type_index", "=", typeIndex)
          .where("group_key", "=", cleanText(key))
          .executeTakeFirst();
        if (!row) return undefined;
        const sheet = decodeSheet(row);
        if (sheet.apply(changes, encodeInstant(now)) === "too-long") return "too-long";
        await transaction
          .updateTable("groups")
          .set(encodeSheet(sheet))
          .where("project_id", "=", projectId)
          .where("group_type_index", "=", typeIndex)
          .where("group_key", "=", cleanText(key))
          .execute();
        const before = decodeGroup(row);
        const after = { ...before, properties: sheet.state.properties };
        await keepWord(transaction, projectId, { of: { before, after }, write });
        return after;
      });
    },

    async delete(projectId, { typeIndex, key }, write) {
      return await writes.transaction().execute(async (transaction) => {
        await lockPersons(transaction);
        const row = await transaction
          .deleteFrom("groups")
          .where("project_id", "=", projectId)
          .where("group_type_index", "=", typeIndex)
          .where("group_key", "=", cleanText(key))
          .returningAll()
          .executeTakeFirst();
        if (!row) return false;
        const before = decodeGroup(row);
        await keepWord(transaction, projectId, { of: { before, after: null }, write });
        return true;
      });
    },
  };
}

type GroupRow = Pick<
  Selectable<Schema["groups"]>,
  "group_type_index" | "group_key" | "properties" | "created_at"
>;
type Condition = Expression<SqlBool>;

const KEY = sql.ref<string>("g.group_key");
const PROPERTIES = sql.ref<string>("g.properties");
const ALWAYS = sql<SqlBool>`1 = 1`;

function hasProperty(name: string): Condition {
  return likeText(PROPERTIES, `${JSON.stringify(cleanText(name))}:`);
}

/** Keeps the activity of a change, in its transaction. */
async function keepWord(
  transaction: Transaction<Schema>,
  projectId: number,
  { of, write }: { of: GroupChange; write: WriteByHand<GroupChange> },
): Promise<void> {
  await keepActivity(transaction, write.describe?.(of), {
    projectId,
    authorId: write.authorId ?? null,
    now: write.now,
  });
}

/** Of other letters only code knows which is the small form of which. */
const isAscii = (text: string) => /^[\0-\x7f]*$/.test(text);

function isAfter(mark: GroupMark | undefined): Condition {
  return sql<SqlBool>`(g.created_at, g.group_key) < (${mark?.createdAtMs}, ${mark?.key})`;
}

function isUpTo({ createdAtMs, key }: GroupMark): Condition {
  return sql<SqlBool>`(g.created_at, g.group_key) >= (${createdAtMs}, ${key})`;
}

function markOf(row: Pick<GroupRow, "created_at" | "group_key">): GroupMark {
  return { createdAtMs: row.created_at, key: row.group_key };
}

function decodeGroup(row: GroupRow): Group {
  return {
    typeIndex: row.group_type_index,
    key: row.group_key,
    properties: decodeJson(row.properties),
    createdAt: decodeInstant(row.created_at),
  };
}

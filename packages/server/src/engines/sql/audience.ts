import { type Kysely, type SqlBool, sql } from "kysely";
import type { Audience, AudiencePerson } from "../../flags/audience.ts";
import type { GroupMark } from "../../persons/group-records.ts";
import type { PersonMark } from "../../persons/person-records.ts";
import { decodeInstant, decodeJson } from "./codec.ts";
import { cohortsOfPersons, NO_COHORTS } from "./cohorts-of-persons.ts";
import { bytesOf } from "./contains-text.ts";
import { inWindows } from "./in-windows.ts";
import type { Schema } from "./schema.ts";
import type { SqlDatabase } from "./sql-database.ts";

const PROPERTIES = sql.ref<string>("properties");
const NO_OVERRIDES: ReadonlyMap<string, string> = new Map();

/** {@link Audience} on SQL. */
export function createAudience({ reads }: Pick<SqlDatabase, "reads">): Audience {
  return {
    async countPersons(projectId) {
      const { count } = await reads
        .selectFrom("persons")
        .select((eb) => eb.fn.countAll<number>().as("count"))
        .where("project_id", "=", projectId)
        .executeTakeFirstOrThrow();
      return Number(count);
    },

    async countGroups(projectId, typeIndex) {
      const { count } = await reads
        .selectFrom("groups")
        .select((eb) => eb.fn.countAll<number>().as("count"))
        .where("project_id", "=", projectId)
        .where("group_type_index", "=", typeIndex)
        .executeTakeFirstOrThrow();
      return Number(count);
    },

    async *persons(projectId, { hashKeyOverrides }) {
      const selectAfter = (mark: PersonMark | undefined) =>
        reads
          .selectFrom("persons")
          .where("project_id", "=", projectId)
          .$if(mark !== undefined, (query) =>
            query.where(sql<SqlBool>`(created_at, id) < (${mark?.createdAtMs}, ${mark?.id})`),
          )
          .orderBy("created_at", "desc")
          .orderBy("id", "desc");
      const windows = inWindows({
        after: undefined as PersonMark | undefined,
        measure: async (after, maxRows) => {
          const rows = await selectAfter(after)
            .select(["created_at", "id", bytesOf(PROPERTIES).as("bytes")])
            .limit(maxRows)
            .execute();
          return rows.map(({ created_at, id, bytes }) => ({
            mark: { createdAtMs: created_at, id },
            bytes,
          }));
        },
        rowsOf: (after, end) =>
          selectAfter(after)
            .select(["id", "uuid", "properties", "created_at"])
            .where(sql<SqlBool>`(created_at, id) >= (${end.createdAtMs}, ${end.id})`)
            .execute(),
      });
      for await (const { rows } of windows) {
        if (rows.length === 0) continue;
        const ids = rows.map(({ id }) => id);
        const distinctIds = await firstIds(reads, ids);
        const cohorts = await cohortsOfPersons(reads, ids);
        const overrides = hashKeyOverrides ? await hashKeys(reads, ids) : undefined;
        yield rows.map(
          (row): AudiencePerson => ({
            uuid: row.uuid,
            distinctId: distinctIds.get(row.id) ?? "",
            facts: {
              properties: decodeJson(row.properties),
              createdAt: decodeInstant(row.created_at),
              staticCohortIds: cohorts.get(row.id) ?? NO_COHORTS,
              hashKeyOverrides: overrides?.get(row.id) ?? NO_OVERRIDES,
            },
          }),
        );
      }
    },

    async *groups(projectId, typeIndex) {
      const selectAfter = (mark: GroupMark | undefined) =>
        reads
          .selectFrom("groups")
          .where("project_id", "=", projectId)
          .where("group_type_index", "=", typeIndex)
          .$if(mark !== undefined, (query) =>
            query.where(
              sql<SqlBool>`(created_at, group_key) < (${mark?.createdAtMs}, ${mark?.key})`,
            ),
          )
          .orderBy("created_at", "desc")
          .orderBy("group_key", "desc");
      const windows = inWindows({
        after: undefined as GroupMark | undefined,
        measure: async (after, maxRows) => {
          const rows = await selectAfter(after)
            .select(["created_at", "group_key", bytesOf(PROPERTIES).as("bytes")])
            .limit(maxRows)
            .execute();
          return rows.map(({ created_at, group_key, bytes }) => ({
            mark: { createdAtMs: created_at, key: group_key },
            bytes,
          }));
        },
        rowsOf: (after, end) =>
          selectAfter(after)
            .select(["group_key", "properties"])
            .where(sql<SqlBool>`(created_at, group_key) >= (${end.createdAtMs}, ${end.key})`)
            .execute(),
      });
      for await (const { rows } of windows) {
        if (rows.length === 0) continue;
        yield rows.map((row) => ({ key: row.group_key, properties: decodeJson(row.properties) }));
      }
    },
  };
}

async function firstIds(reads: Kysely<Schema>, personIds: readonly number[]) {
  const rows = await reads
    .selectFrom("person_distinct_ids")
    .select(["person_id", (eb) => eb.fn.min("distinct_id").as("first")])
    .where("person_id", "in", personIds)
    .groupBy("person_id")
    .execute();
  return new Map(rows.map(({ person_id, first }) => [person_id, first]));
}

async function hashKeys(reads: Kysely<Schema>, personIds: readonly number[]) {
  const rows = await reads
    .selectFrom("flag_hash_key_overrides")
    .selectAll()
    .where("person_id", "in", personIds)
    .execute();
  const keys = new Map<number, Map<string, string>>();
  for (const { person_id, flag_key, hash_key } of rows) {
    const known = keys.get(person_id);
    if (known) known.set(flag_key, hash_key);
    else keys.set(person_id, new Map([[flag_key, hash_key]]));
  }
  return keys;
}

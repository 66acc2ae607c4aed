import { type Expression, type Selectable, type SqlBool, sql, type UpdateObject } from "kysely";
import {
  type EventDefinition,
  type EventDefinitionFields,
  type EventDefinitionOrder,
  type EventDefinitionQuery,
  type EventDefinitionStore,
  OFFICIAL_EVENT_NAMES,
} from "../../event-definitions/event-definition-store.ts";
import { MAX_EVENT_DEFINITIONS } from "../../event-definitions/sighting-store.ts";
import { decodeBoolean, decodeJson, encodeBoolean, encodeInstant, encodeJson } from "./codec.ts";
import {
  beginsWith,
  commonConditions,
  decodeCommon,
  decodeInstantOrNull,
  encodeAuthorship,
  encodeCommon,
} from "./definition-rows.ts";
import type { Schema } from "./schema.ts";
import type { SqlDatabase } from "./sql-database.ts";

const MS_PER_DAY = 86_400_000;

const ORDERS: Readonly<Record<EventDefinitionOrder["by"], Expression<unknown>>> = {
  name: sql.ref("name"),
  createdAt: sql.ref("created_at"),
  lastSeenAt: sql.ref("last_seen_at"),
  lastSeenDay: sql`${sql.ref("last_seen_at")} / ${sql.lit(MS_PER_DAY)}`,
};

/** {@link EventDefinitionStore} on SQL. */
export function createEventDefinitionStore(
  { reads, writes, capabilities }: SqlDatabase,
  { newUuid }: { newUuid: () => string },
): EventDefinitionStore {
  return {
    async declare(projectId, name, fields, { authorId, now }) {
      const { count } = await reads
        .selectFrom("event_definitions")
        .select((eb) => eb.fn.countAll().as("count"))
        .where("project_id", "=", projectId)
        .executeTakeFirstOrThrow();
      if (Number(count) >= MAX_EVENT_DEFINITIONS) return "limit-reached";
      try {
        const row = await writes
          .insertInto("event_definitions")
          .values({
            ...encodeAll(fields),
            uuid: newUuid(),
            project_id: projectId,
            name,
            created_at: encodeInstant(now),
            updated_at: encodeInstant(now),
            updated_by: authorId,
            last_seen_at: null,
          })
          .returningAll()
          .executeTakeFirstOrThrow();
        return decode(row);
      } catch (error) {
        if (capabilities.isUniqueViolation(error)) return "duplicate-name";
        throw error;
      }
    },

    async update(projectId, id, change, authorship) {
      const row = await writes
        .updateTable("event_definitions")
        .set({ ...encode(change), ...encodeAuthorship(authorship) })
        .where("project_id", "=", projectId)
        .where("uuid", "=", id)
        .returningAll()
        .executeTakeFirst();
      return row && decode(row);
    },

    async delete(projectId, id) {
      const { numDeletedRows } = await writes
        .deleteFrom("event_definitions")
        .where("project_id", "=", projectId)
        .where("uuid", "=", id)
        .executeTakeFirstOrThrow();
      return numDeletedRows > 0n;
    },

    async definition(projectId, id) {
      const row = await reads
        .selectFrom("event_definitions")
        .selectAll()
        .where("project_id", "=", projectId)
        .where("uuid", "=", id)
        .executeTakeFirst();
      return row && decode(row);
    },

    async definitionByName(projectId, name) {
      const row = await reads
        .selectFrom("event_definitions")
        .selectAll()
        .where("project_id", "=", projectId)
        .where("name", "=", name)
        .executeTakeFirst();
      return row && decode(row);
    },

    async list(projectId, query) {
      const matching = reads.selectFrom("event_definitions").where((eb) => {
        const conditions = commonConditions(
          // The columns that both tables have have the same types.
          eb as unknown as Parameters<typeof commonConditions>[0],
          projectId,
          query,
        );
        if (query.origin !== null) conditions.push(isOf(query.origin, eb.ref("name")));
        return eb.and(conditions);
      });
      const { count } = await matching
        .select((eb) => eb.fn.countAll().as("count"))
        .executeTakeFirstOrThrow();
      let ordered = matching.selectAll();
      for (const { by, descending } of query.order) {
        ordered = ordered.orderBy(ORDERS[by], (order) =>
          (descending ? order.desc() : order.asc()).nullsLast(),
        );
      }
      const rows = await ordered.orderBy("name").limit(query.limit).offset(query.offset).execute();
      return { count: Number(count), definitions: rows.map(decode) };
    },
  };
}

function isOf(
  origin: NonNullable<EventDefinitionQuery["origin"]>,
  name: Expression<string>,
): Expression<SqlBool> {
  const isOfficial = sql<SqlBool>`(${beginsWith(name, "$")} or ${name} in (${sql.join([
    ...OFFICIAL_EVENT_NAMES,
  ])}))`;
  return origin === "official" ? isOfficial : sql<SqlBool>`not ${isOfficial}`;
}

function encodeAll(fields: EventDefinitionFields) {
  return {
    ...(encodeCommon(fields) as Required<ReturnType<typeof encodeCommon>>),
    owner: fields.ownerId,
    default_columns: encodeJson(fields.defaultColumns),
    post_to_slack: encodeBoolean(fields.postToSlack),
  };
}

function encode(
  change: Partial<EventDefinitionFields>,
): UpdateObject<Schema, "event_definitions", "event_definitions"> {
  const { ownerId, defaultColumns, postToSlack } = change;
  return {
    ...encodeCommon(change),
    ...(ownerId === undefined ? {} : { owner: ownerId }),
    ...(defaultColumns === undefined ? {} : { default_columns: encodeJson(defaultColumns) }),
    ...(postToSlack === undefined ? {} : { post_to_slack: encodeBoolean(postToSlack) }),
  };
}

function decode(row: Selectable<Schema["event_definitions"]>): EventDefinition {
  return {
    ...decodeCommon(row),
    ownerId: row.owner,
    lastSeenAt: decodeInstantOrNull(row.last_seen_at),
    defaultColumns: decodeJson<string[]>(row.default_columns),
    postToSlack: decodeBoolean(row.post_to_slack),
  };
}

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
  createDefinitionRows,
  decodeCommon,
  decodeInstantOrNull,
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
  database: SqlDatabase,
  { newUuid }: { newUuid: () => string },
): EventDefinitionStore {
  const { reads, capabilities } = database;
  const rows = createDefinitionRows(database, { table: "event_definitions", decode });
  return {
    async declare(projectId, name, fields, write) {
      const { count } = await reads
        .selectFrom("event_definitions")
        .select((eb) => eb.fn.countAll().as("count"))
        .where("project_id", "=", projectId)
        .executeTakeFirstOrThrow();
      if (Number(count) >= MAX_EVENT_DEFINITIONS) return "limit-reached";
      const row = {
        ...encodeAll(fields),
        uuid: newUuid(),
        project_id: projectId,
        name,
        created_at: encodeInstant(write.now),
        updated_at: encodeInstant(write.now),
        updated_by: write.authorId,
        last_seen_at: null,
      };
      try {
        return await rows.create(row, projectId, write);
      } catch (error) {
        if (capabilities.isUniqueViolation(error)) return "duplicate-name";
        throw error;
      }
    },

    update: (projectId, id, change, write) => rows.update(projectId, id, encode(change), write),
    delete: (projectId, id, write) => rows.delete(projectId, id, write),
    definition: (projectId, id) => rows.find(projectId, "uuid", id),
    definitionByName: (projectId, name) => rows.find(projectId, "name", name),

    async list(projectId, query) {
      const { count, found } = await rows.list(projectId, query, {
        conditions: (eb) => (query.origin === null ? [] : [isOf(query.origin, eb.ref("name"))]),
        order: query.order.map(({ by, descending }) => ({ by: ORDERS[by], descending })),
      });
      return { count, definitions: found.map(({ definition }) => definition) };
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

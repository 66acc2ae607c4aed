import { sql, type Transaction } from "kysely";
import {
  type EventSighting,
  MAX_EVENT_DEFINITIONS,
  MAX_EVENT_PROPERTIES,
  MAX_PROPERTY_DEFINITIONS,
  type PropertySighting,
  type SightingStore,
} from "../../event-definitions/sighting-store.ts";
import { encodeBoolean, encodeInstant, encodeJson } from "./codec.ts";
import { UNTOUCHED } from "./definition-rows.ts";
import { inTurns } from "./in-turns.ts";
import { subjectColumns } from "./property-definition-store.ts";
import type { Schema } from "./schema.ts";
import type { SqlDatabase } from "./sql-database.ts";

/** The consumer of stored events whose effects are definitions. */
const DEFINITIONS_CONSUMER = "definitions";
/** Sightings per transaction: other writers have to wait for its end. */
const PER_TRANSACTION = 500;

/** {@link SightingStore} on SQL. */
export function createSightingStore(
  { reads, writes }: SqlDatabase,
  { newUuid }: { newUuid: () => string },
): SightingStore {
  type Record<Item> = (transaction: Transaction<Schema>, items: readonly Item[]) => Promise<number>;

  /** Runs a recording over all items, some at a time; answers how many were refused. */
  async function inTransactions<Item>(
    projectId: number,
    items: readonly Item[],
    record: Record<Item>,
  ): Promise<number> {
    let refused = 0;
    for (let start = 0; start < items.length; start += PER_TRANSACTION) {
      const some = items.slice(start, start + PER_TRANSACTION);
      refused += await writes.transaction().execute(async (transaction) => {
        const project = await transaction
          .selectFrom("projects")
          .select("id")
          .where("id", "=", projectId)
          .executeTakeFirst();
        return project ? await record(transaction, some) : 0;
      });
    }
    return refused;
  }

  const recordEvents =
    (projectId: number): Record<EventSighting> =>
    async (transaction, sightings) => {
      const ids = await eventIds(
        transaction,
        projectId,
        sightings.map(({ name }) => name),
      );
      const isNew = ({ name }: EventSighting) => !ids.has(name);
      const room = sightings.some(isNew)
        ? MAX_EVENT_DEFINITIONS - (await countOf(transaction, "event_definitions", projectId))
        : 0;
      const { kept, refused } = withinRoom(sightings, isNew, room);
      for await (const some of inTurns(kept)) {
        await transaction
          .insertInto("event_definitions")
          .values(
            some.map(({ name, firstSeenAt, lastSeenAt }) => ({
              ...UNTOUCHED,
              uuid: newUuid(),
              project_id: projectId,
              name,
              created_at: encodeInstant(firstSeenAt),
              last_seen_at: encodeInstant(lastSeenAt),
              owner: null,
              default_columns: encodeJson([]),
              post_to_slack: encodeBoolean(false),
            })),
          )
          .onConflict((conflict) =>
            conflict.columns(["project_id", "name"]).doUpdateSet({
              last_seen_at: sql`case
                when event_definitions.last_seen_at > excluded.last_seen_at
                  then event_definitions.last_seen_at
                else excluded.last_seen_at end`,
            }),
          )
          .execute();
      }
      return refused;
    };

  const recordProperties =
    (projectId: number): Record<PropertySighting> =>
    async (transaction, sightings) => {
      const known = await propertyKeys(transaction, projectId, sightings);
      const isNew = (sighting: PropertySighting) => !known.has(keyOf(sighting));
      const room = sightings.some(isNew)
        ? MAX_PROPERTY_DEFINITIONS - (await countOf(transaction, "property_definitions", projectId))
        : 0;
      const { kept, refused } = withinRoom(sightings, isNew, room);
      for await (const some of inTurns(kept)) {
        await transaction
          .insertInto("property_definitions")
          .values(
            some.map(({ subject, name, type, seenAt }) => {
              const { kind, groupTypeIndex } = subjectColumns(subject);
              return {
                ...UNTOUCHED,
                uuid: newUuid(),
                project_id: projectId,
                name,
                created_at: encodeInstant(seenAt),
                kind,
                group_type_index: groupTypeIndex,
                property_type: type,
                is_numerical: encodeBoolean(type === "Numeric"),
              };
            }),
          )
          // The first type stays.
          .onConflict((conflict) =>
            conflict
              .columns(["project_id", "kind", "group_type_index", "name"])
              .doUpdateSet({
                property_type: sql`excluded.property_type`,
                is_numerical: sql`excluded.is_numerical`,
              })
              .where("property_definitions.property_type", "is", null)
              .where(sql.ref("excluded.property_type"), "is not", null),
          )
          .execute();
      }
      return refused;
    };

  const recordPairs =
    (projectId: number): Record<readonly [event: string, property: string]> =>
    async (transaction, pairs) => {
      const events = await eventIds(transaction, projectId, [
        ...new Set(pairs.map(([event]) => event)),
      ]);
      const properties = await eventPropertyIds(transaction, projectId, [
        ...new Set(pairs.map(([, property]) => property)),
      ]);
      const rows = pairs.flatMap(([event, property]) => {
        const event_id = events.get(event);
        const property_id = properties.get(property);
        // One of the two was refused.
        if (event_id === undefined || property_id === undefined) return [];
        return [{ event_id, property_id, project_id: projectId }];
      });
      const room = Math.max(
        0,
        MAX_EVENT_PROPERTIES - (await countOf(transaction, "event_properties", projectId)),
      );
      for await (const some of inTurns(rows.slice(0, room))) {
        await transaction
          .insertInto("event_properties")
          .values([...some])
          .onConflict((conflict) => conflict.columns(["event_id", "property_id"]).doNothing())
          .execute();
      }
      return Math.max(0, rows.length - room);
    };

  return {
    async record({ projectId, events, properties, pairs }) {
      const pairList = [...pairs].flatMap(([event, names]) =>
        [...names].map((property) => [event, property] as const),
      );
      // In one order everywhere: processes that record the same names do not wait for one another.
      return {
        events: await inTransactions(
          projectId,
          events.toSorted((a, b) => (a.name < b.name ? -1 : 1)),
          recordEvents(projectId),
        ),
        properties: await inTransactions(
          projectId,
          properties.toSorted((a, b) => (keyOf(a) < keyOf(b) ? -1 : 1)),
          recordProperties(projectId),
        ),
        pairs: await inTransactions(projectId, pairList, recordPairs(projectId)),
      };
    },

    async position() {
      const row = await reads
        .selectFrom("consumer_positions")
        .select("position")
        .where("name", "=", DEFINITIONS_CONSUMER)
        .executeTakeFirst();
      return row?.position ?? 0;
    },

    async moveTo(position) {
      await writes
        .insertInto("consumer_positions")
        .values({ name: DEFINITIONS_CONSUMER, position })
        .onConflict((conflict) =>
          conflict
            .column("name")
            .doUpdateSet({ position: sql`excluded.position` })
            .whereRef("consumer_positions.position", "<", sql.ref("excluded.position")),
        )
        .execute();
    },
  };
}

/** All that is known already, and of the rest as many as there is room for. */
function withinRoom<Item>(items: readonly Item[], isNew: (item: Item) => boolean, room: number) {
  let left = Math.max(0, room);
  const kept = items.filter((item) => !isNew(item) || left-- > 0);
  return { kept, refused: items.length - kept.length };
}

async function countOf(
  transaction: Transaction<Schema>,
  table: "event_definitions" | "property_definitions" | "event_properties",
  projectId: number,
): Promise<number> {
  const { count } = await transaction
    .selectFrom(table)
    .select((eb) => eb.fn.countAll().as("count"))
    .where("project_id", "=", projectId)
    .executeTakeFirstOrThrow();
  return Number(count);
}

async function eventIds(
  transaction: Transaction<Schema>,
  projectId: number,
  names: readonly string[],
): Promise<ReadonlyMap<string, number>> {
  const ids = new Map<string, number>();
  for await (const some of inTurns(names)) {
    const rows = await transaction
      .selectFrom("event_definitions")
      .select(["id", "name"])
      .where("project_id", "=", projectId)
      .where("name", "in", some)
      .execute();
    for (const { id, name } of rows) ids.set(name, id);
  }
  return ids;
}

async function eventPropertyIds(
  transaction: Transaction<Schema>,
  projectId: number,
  names: readonly string[],
): Promise<ReadonlyMap<string, number>> {
  const { kind, groupTypeIndex } = subjectColumns({ kind: "event" });
  const ids = new Map<string, number>();
  for await (const some of inTurns(names)) {
    const rows = await transaction
      .selectFrom("property_definitions")
      .select(["id", "name"])
      .where("project_id", "=", projectId)
      .where("kind", "=", kind)
      .where("group_type_index", "=", groupTypeIndex)
      .where("name", "in", some)
      .execute();
    for (const { id, name } of rows) ids.set(name, id);
  }
  return ids;
}

/** Which of some properties have a definition, as {@link keyOf} tells them apart. */
async function propertyKeys(
  transaction: Transaction<Schema>,
  projectId: number,
  sightings: readonly PropertySighting[],
): Promise<ReadonlySet<string>> {
  const keys = new Set<string>();
  for await (const some of inTurns([...new Set(sightings.map(({ name }) => name))])) {
    const rows = await transaction
      .selectFrom("property_definitions")
      .select(["kind", "group_type_index", "name"])
      .where("project_id", "=", projectId)
      .where("name", "in", some)
      .execute();
    for (const { kind, group_type_index, name } of rows) {
      keys.add(textOf(kind, group_type_index, name));
    }
  }
  return keys;
}

function keyOf({ subject, name }: PropertySighting): string {
  const { kind, groupTypeIndex } = subjectColumns(subject);
  return textOf(kind, groupTypeIndex, name);
}

function textOf(kind: string, groupTypeIndex: number, name: string): string {
  return `${kind} ${groupTypeIndex} ${name}`;
}

import { setImmediate as nextTurn } from "node:timers/promises";
import { type DuckDBAppender, type DuckDBConnection, DuckDBInstance } from "@duckdb/node-api";
import { decodeEvent, encodeEvent } from "@hedgerow/core/events/event-codec";
import { type Json, ownValue } from "@hedgerow/core/json";
import type { EventBatch, EventRow, EventStore } from "../../events/event-store.ts";
import { timestampOf, uuidValueOf } from "./duckdb-values.ts";
import { countEvents, findEvents } from "./find-events.ts";
import { createMergeTables, saveMerges } from "./person-merges.ts";
import { openUuidIndex, type UuidIndex } from "./uuid-index.ts";

export interface DuckDbEventsOptions {
  /** Memory that DuckDB may use before it spills to its temporary folder; 128 MiB unless given. */
  readonly memoryLimitMiB?: number;
  /** Disk space for spilling; 10 GiB unless given. */
  readonly maxTemporaryMiB?: number;
  /** 2 unless given. */
  readonly threads?: number;
}

const COLUMNS = [
  "project_id integer not null",
  "position bigint not null",
  "uuid uuid not null",
  "event varchar not null",
  "distinct_id varchar not null",
  "person_id uuid not null",
  "timestamp timestamp not null",
  "client_timestamp timestamp",
  "received_at timestamp not null",
  "properties varchar not null",
  // Length in UTF-16 units: tells how much a reader would take on, without reading it.
  "properties_length integer not null",
  "feature_flag varchar",
  "feature_flag_response varchar",
  "session_id varchar",
  "group_0 varchar",
  "group_1 varchar",
  "group_2 varchar",
  "group_3 varchar",
  "group_4 varchar",
];
const GROUP_COLUMNS = 5;

/** Rows appended without letting other work run in between: a few milliseconds. */
const ROWS_PER_TURN = 250;

/**
 * Events in a DuckDB file, with a small index of uuids beside it (`<path>.uuids`). An index inside
 * DuckDB would have to fit into its memory, and DuckDB alone would read the whole table per batch.
 */
export async function openDuckDbEvents(
  path: string,
  options: DuckDbEventsOptions = {},
): Promise<EventStore> {
  const instance = await DuckDBInstance.create(path, {
    threads: String(options.threads ?? 2),
    memory_limit: `${options.memoryLimitMiB ?? 128}MiB`,
    temp_directory: `${path}.tmp`,
    max_temp_directory_size: `${options.maxTemporaryMiB ?? 10 * 1024}MiB`,
    // Results are sorted where order matters; keeping the order of insertion costs memory.
    preserve_insertion_order: "false",
  });
  const writer = await instance.connect();
  await createTables(writer);
  let stored = await readPosition(writer);
  const uuids = await openUuidIndex(`${path}.uuids`);
  await catchUp(uuids, writer);

  let inserting: Promise<unknown> = Promise.resolve();
  const waiters = new Set<{ readonly position: number; readonly resolve: () => void }>();

  async function insert({ rows, merges, deadLetters, end }: EventBatch): Promise<number> {
    if (end < stored) return 0;
    const fresh = rows.filter(({ position }) => position > stored);
    const claims = fresh.map(({ position, event: { projectId, uuid } }) => ({
      projectId,
      uuid,
      position,
    }));
    const won = claims.length === 0 ? [] : await uuids.claim(claims);
    const kept = fresh.filter((_, index) => won[index] === 1);
    await writer.run("begin transaction");
    try {
      await appendRows(writer, kept);
      await saveMerges(
        writer,
        merges.filter(({ position }) => position > stored),
      );
      for (const { position, event, reason } of deadLetters) {
        if (position <= stored) continue;
        await writer.run("insert into dead_letters values ($1::bigint, $2, $3)", [
          String(position),
          reason,
          encodeEvent(event),
        ]);
      }
      await writer.run("update consumer set position = $1::bigint", [String(end)]);
      await writer.run("commit");
    } catch (error) {
      await writer.run("rollback").catch(() => {});
      throw error;
    }
    stored = end;
    for (const waiter of waiters) if (waiter.position <= end) waiter.resolve();
    return kept.length;
  }

  async function withConnection<Result>(
    use: (connection: DuckDBConnection) => Promise<Result>,
  ): Promise<Result> {
    const connection = await instance.connect();
    try {
      return await use(connection);
    } finally {
      connection.closeSync();
    }
  }

  /** A query by uuid as one by position; `undefined` when no event has the uuid. */
  async function searchOf<Query extends { projectId: number; uuid?: string }>({
    uuid,
    ...query
  }: Query) {
    if (uuid === undefined) return query;
    const position = await uuids.find(query.projectId, uuid);
    return position === undefined ? undefined : { ...query, position };
  }

  return {
    async insert(batch) {
      const run = inserting.then(() => insert(batch));
      inserting = run.catch(() => {});
      return { stored: await run };
    },

    async position() {
      return stored;
    },

    reached(position, timeoutMs) {
      if (stored >= position) return Promise.resolve(true);
      return new Promise((resolve) => {
        const finish = (hasReached: boolean) => {
          clearTimeout(timer);
          waiters.delete(waiter);
          resolve(hasReached);
        };
        const waiter = { position, resolve: () => finish(true) };
        const timer = setTimeout(() => finish(false), timeoutMs);
        waiters.add(waiter);
      });
    },

    async events(query) {
      const search = await searchOf(query);
      if (search === undefined) return { events: [], hasMore: false };
      return withConnection((connection) => findEvents(connection, search));
    },

    async count(query) {
      const search = await searchOf(query);
      if (search === undefined) return 0;
      return withConnection((connection) => countEvents(connection, search));
    },

    deadLetters: (limit) =>
      withConnection(async (connection) => {
        const rows = await connection.runAndReadAll(
          "select position::double, reason, event from dead_letters order by position limit $1",
          [limit],
        );
        return rows.getRows().map(([position, reason, event]) => ({
          position: position as number,
          reason: reason as string,
          event: decodeEvent(event as string),
        }));
      }),

    async close() {
      await inserting;
      await uuids.close();
      writer.closeSync();
      instance.closeSync();
    },
  };
}

async function createTables(connection: DuckDBConnection): Promise<void> {
  await connection.run(`create table if not exists events (${COLUMNS.join(", ")})`);
  await createMergeTables(connection);
  await connection.run(
    `create table if not exists dead_letters
      (position bigint not null, reason varchar not null, event varchar not null)`,
  );
  await connection.run("create table if not exists consumer (position bigint not null)");
  await connection.run("insert into consumer select 0 where not exists (from consumer)");
}

async function readPosition(connection: DuckDBConnection): Promise<number> {
  const rows = await connection.runAndReadAll("select max(position)::double from consumer");
  return Number(rows.getRows()[0]?.[0] ?? 0);
}

/** An index that is new, or older than the events (restored from elsewhere), learns what it lacks. */
async function catchUp(index: UuidIndex, connection: DuckDBConnection): Promise<void> {
  for (;;) {
    const rows = await connection.runAndReadAll(
      `select project_id, uuid::varchar, position::double from events
        where position > $1::bigint order by position limit 20000`,
      [String(index.end)],
    );
    const claims = rows.getRows().map(([projectId, uuid, position]) => ({
      projectId: projectId as number,
      uuid: uuid as string,
      position: position as number,
    }));
    if (claims.length === 0) return;
    await index.claim(claims);
  }
}

async function appendRows(connection: DuckDBConnection, rows: readonly EventRow[]): Promise<void> {
  if (rows.length === 0) return;
  const appender = await connection.createAppender("events");
  try {
    for (const [index, row] of rows.entries()) {
      if (index > 0 && index % ROWS_PER_TURN === 0) await nextTurn();
      appendRow(appender, row);
    }
  } finally {
    appender.closeSync();
  }
}

function appendRow(appender: DuckDBAppender, row: EventRow): void {
  const { position, event, personId, groupKeys } = row;
  const { properties } = event;
  appender.appendInteger(event.projectId);
  appender.appendBigInt(BigInt(position));
  appender.appendUUID(uuidValueOf(event.uuid));
  appender.appendVarchar(event.event);
  appender.appendVarchar(event.distinctId);
  appender.appendUUID(uuidValueOf(personId));
  appender.appendTimestamp(timestampOf(event.timestamp));
  if (event.clientTimestamp) appender.appendTimestamp(timestampOf(event.clientTimestamp));
  else appender.appendNull();
  appender.appendTimestamp(timestampOf(event.receivedAt));
  const text = JSON.stringify(properties);
  appender.appendVarchar(text);
  appender.appendInteger(text.length);
  appendText(appender, columnText(ownValue(properties, "$feature_flag")));
  appendText(appender, columnText(ownValue(properties, "$feature_flag_response")));
  appendText(appender, columnText(ownValue(properties, "$session_id")));
  for (let group = 0; group < GROUP_COLUMNS; group++) {
    appendText(appender, groupKeys[group] ?? null);
  }
  appender.endRow();
}

function appendText(appender: DuckDBAppender, text: string | null): void {
  if (text === null) appender.appendNull();
  else appender.appendVarchar(text);
}

/** Text as it is, everything else as JSON (a flag's answer may be `true`). */
function columnText(value: Json | undefined): string | null {
  if (value === undefined || value === null) return null;
  return typeof value === "string" ? value : JSON.stringify(value);
}

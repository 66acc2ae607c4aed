import { setImmediate as nextTurn } from "node:timers/promises";
import {
  type DuckDBAppender,
  type DuckDBConnection,
  DuckDBInstance,
  DuckDBTimestampValue,
  type DuckDBValue,
} from "@duckdb/node-api";
import { decodeEvent, encodeEvent } from "@hedgerow/core/events/event-codec";
import { type Json, type JsonObject, ownValue } from "@hedgerow/core/json";
import type {
  EventBatch,
  EventQuery,
  EventRow,
  EventStore,
  StoredEvent,
} from "../../events/event-store.ts";
import { timestampOf, uuidValueOf } from "./duckdb-values.ts";
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
/** Events read at a time while looking for ones whose properties match. */
const SCAN_PAGE = 1000;

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
    if (end <= stored) return 0;
    const fresh = rows.filter(({ position }) => position > stored);
    const won = await uuids.claim(
      fresh.map(({ position, event: { projectId, uuid } }) => ({ projectId, uuid, position })),
    );
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

    events: (query) => withConnection((connection) => findEvents(connection, query)),

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
  appender.appendVarchar(JSON.stringify(properties));
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

/** Reads matching events page by page, until enough of them have the right properties. */
async function findEvents(
  connection: DuckDBConnection,
  query: EventQuery,
): Promise<readonly StoredEvent[]> {
  const { properties, limit, offset } = query;
  if (!properties) return (await readPage(connection, query, { limit, offset })).map(toStoredEvent);
  const found: StoredEvent[] = [];
  let toSkip = offset;
  let cursor: Cursor | undefined;
  for (;;) {
    const page = await readPage(connection, query, { limit: SCAN_PAGE, offset: 0, cursor });
    for (const row of page) {
      const event = toStoredEvent(row);
      if (!properties.matches(event.properties)) continue;
      if (toSkip > 0) toSkip--;
      else if (found.push(event) === limit) return found;
    }
    const last = page.at(-1);
    if (!last || page.length < SCAN_PAGE) return found;
    cursor = { timestampMicros: last.timestampMicros, position: last.position };
  }
}

interface Cursor {
  readonly timestampMicros: bigint;
  readonly position: bigint;
}

interface Row extends Cursor {
  readonly uuid: string;
  readonly event: string;
  readonly distinctId: string;
  readonly personId: string;
  readonly properties: string;
  readonly receivedMicros: bigint;
}

async function readPage(
  connection: DuckDBConnection,
  query: EventQuery,
  page: { limit: number; offset: number; cursor?: Cursor | undefined },
): Promise<readonly Row[]> {
  const values: DuckDBValue[] = [];
  const bind = (value: DuckDBValue) => `$${values.push(value)}`;
  const conditions = [`e.project_id = ${bind(query.projectId)}`];
  const isNewestFirst = query.order === "newest-first";
  if (query.event !== undefined) conditions.push(`e.event = ${bind(query.event)}`);
  if (query.distinctId !== undefined) conditions.push(`e.distinct_id = ${bind(query.distinctId)}`);
  if (query.uuid !== undefined) conditions.push(`e.uuid = ${bind(query.uuid)}::uuid`);
  if (query.personId !== undefined) {
    const person = `${bind(query.personId)}::uuid`;
    conditions.push(`coalesce(m.into_id, e.person_id) = ${person}`);
  }
  if (query.after) conditions.push(`e.timestamp > ${bind(timestampOf(query.after))}`);
  if (query.before) conditions.push(`e.timestamp < ${bind(timestampOf(query.before))}`);
  for (const name of query.properties?.requiredNames ?? []) {
    // Stored texts are written by JSON.stringify, so a name occurs in exactly this spelling.
    conditions.push(`contains(e.properties, ${bind(`${JSON.stringify(name)}:`)})`);
  }
  if (page.cursor) {
    const time = bind(new DuckDBTimestampValue(page.cursor.timestampMicros));
    const position = bind(page.cursor.position);
    const beyond = isNewestFirst ? "<" : ">";
    conditions.push(`(e.timestamp, e.position) ${beyond} (${time}, ${position})`);
  }
  const direction = isNewestFirst ? "desc" : "asc";
  const result = await connection.runAndReadAll(
    `select e.uuid::varchar, e.event, e.distinct_id, coalesce(m.into_id, e.person_id)::varchar,
        e.properties, epoch_us(e.timestamp), epoch_us(e.received_at), e.position
      from events e
      left join person_merges m on m.project_id = e.project_id and m.from_id = e.person_id
      where ${conditions.join(" and ")}
      order by e.timestamp ${direction}, e.position ${direction}
      limit ${bind(page.limit)} offset ${bind(page.offset)}`,
    values,
  );
  return result.getRows().map(
    ([uuid, event, distinctId, personId, properties, timestampMicros, receivedMicros, position]) =>
      ({
        uuid,
        event,
        distinctId,
        personId,
        properties,
        timestampMicros,
        receivedMicros,
        position,
      }) as Row,
  );
}

function toStoredEvent(row: Row): StoredEvent {
  return {
    uuid: row.uuid,
    event: row.event,
    distinctId: row.distinctId,
    personId: row.personId,
    properties: JSON.parse(row.properties) as JsonObject,
    timestamp: new Date(Number(row.timestampMicros / 1000n)),
    receivedAt: new Date(Number(row.receivedMicros / 1000n)),
  };
}

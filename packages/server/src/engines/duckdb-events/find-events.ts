import { type DuckDBConnection, DuckDBTimestampValue, type DuckDBValue } from "@duckdb/node-api";
import { parseExactJson } from "@hedgerow/core/exact-json";
import type { JsonObject } from "@hedgerow/core/json";
import type { EventPage, EventQuery, PlacedEvent, StoredEvent } from "../../events/event-store.ts";
import { createSlices } from "../../platform/slices.ts";
import { timestampOf } from "./duckdb-values.ts";
import { readLongTexts } from "./long-texts.ts";
import { MERGES, PERSON } from "./person-merges.ts";

/** Keys read by the first query of a search by properties; each further one reads more. */
const FIRST_KEYS = 1000;
const KEYS_GROWTH = 8;
const MOST_KEYS = 64_000;
/** Where fewer of the first events have the required properties, all texts are searched for them. */
const RARE_SHARE = 0.05;
/** Events read as a whole at a time. */
const RUN_EVENTS = 5000;
const RUN_CHARS = 4 * 1024 * 1024;
/** A page holds no more than this, or one event. */
const PAGE_CHARS = 16 * 1024 * 1024;

/** A query; a uuid was looked up and is a position now. */
export type Search = Omit<EventQuery, "uuid"> & { readonly position?: number };

/** What decides whether an event matches, short of its properties and the page. */
export type Filter = Pick<
  Search,
  "projectId" | "position" | "event" | "distinctId" | "personId" | "after" | "before"
>;

/** Where an event stands in the order of a query, and how much text it holds. */
interface Key {
  readonly position: number;
  readonly timestampMs: number;
  readonly length: number;
}

/**
 * Reads the few narrow columns that decide which events come, and in which order, first; then the
 * events themselves in short runs. Sorting whole events would need memory for all of their texts.
 * @param timeUp throws when reading has taken too long
 */
export async function findEvents(
  connection: DuckDBConnection,
  search: Search,
  timeUp: () => void,
): Promise<EventPage> {
  const { properties, limit } = search;
  const found: StoredEvent[] = [];
  let chars = 0;
  let toSkip = properties ? search.offset : 0;
  const slices = createSlices();
  const runs = properties ? searchedRuns(connection, search) : pageOfRuns(connection, search);
  for await (const { row, length } of runs) {
    if (slices.isOver()) {
      await slices.next();
      timeUp();
    }
    const event = toStoredEvent(row);
    if (properties && !properties.matches(event.properties)) continue;
    if (toSkip > 0) {
      toSkip--;
      continue;
    }
    const isFull = found.length > 0 && chars + length > PAGE_CHARS;
    if (found.length === limit || isFull) return { events: found, hasMore: true };
    found.push(event);
    chars += length;
  }
  return { events: found, hasMore: false };
}

/** The events of one page, and the one after it, in order. */
async function* pageOfRuns(connection: DuckDBConnection, search: Search) {
  const { limit, offset } = search;
  const keys = await readKeys(connection, search, { count: limit + 1, offset });
  for (const run of split(keys)) yield* await readRun(connection, search, run);
}

/**
 * Events in order that have the required properties. The newest of many usually hold enough that
 * match; where properties are rare, a search through all texts at once finds the events that have
 * them sooner than reading the events one after another.
 */
async function* searchedRuns(connection: DuckDBConnection, search: Search) {
  let after: Key | undefined;
  let requiresNames = false;
  for (let count = FIRST_KEYS; ; count = Math.min(KEYS_GROWTH * count, MOST_KEYS)) {
    const keys: readonly Key[] = await readKeys(connection, search, {
      count,
      offset: 0,
      after,
      requiresNames,
    });
    let having = 0;
    for (const run of split(keys)) {
      const events = await readRun(connection, search, run);
      having += events.length;
      yield* events;
    }
    if (keys.length < count) return;
    requiresNames ||= having < RARE_SHARE * keys.length;
    after = keys.at(-1);
  }
}

function* split(keys: readonly Key[]) {
  let run: Key[] = [];
  let chars = 0;
  for (const key of keys) {
    if (run.length > 0 && (run.length === RUN_EVENTS || chars + key.length > RUN_CHARS)) {
      yield run;
      run = [];
      chars = 0;
    }
    run.push(key);
    chars += key.length;
  }
  if (run.length > 0) yield run;
}

async function readKeys(
  connection: DuckDBConnection,
  search: Search,
  page: {
    readonly count: number;
    readonly offset: number;
    readonly after?: Key | undefined;
    readonly requiresNames?: boolean;
  },
): Promise<readonly Key[]> {
  const values: DuckDBValue[] = [];
  const bind = (value: DuckDBValue) => `$${values.push(value)}`;
  const conditions = conditionsOf(search, bind);
  const isNewestFirst = search.order === "newest-first";
  if (page.requiresNames) conditions.push(...haveNames(search, bind));
  if (page.after) {
    const { timestampMs, position } = page.after;
    const time = bind(new DuckDBTimestampValue(BigInt(timestampMs) * 1000n));
    const beyond = isNewestFirst ? "<" : ">";
    conditions.push(`e.timestamp ${beyond}= ${time}`);
    conditions.push(`(e.timestamp ${beyond} ${time} or e.position ${beyond} ${position})`);
  }
  const direction = isNewestFirst ? "desc" : "asc";
  const result = await connection.runAndReadAll(
    `select e.position::double, epoch_ms(e.timestamp)::double, e.properties_length
      from ${tableOf(search)}
      where ${conditions.join(" and ")}
      order by e.timestamp ${direction}, e.position ${direction}
      limit ${bind(page.count)} offset ${bind(page.offset)}`,
    values,
  );
  return result
    .getRows()
    .map(([position, timestampMs, length]) => ({ position, timestampMs, length }) as Key);
}

/** How many events match a filter. */
export async function countEvents(connection: DuckDBConnection, filter: Filter): Promise<number> {
  const values: DuckDBValue[] = [];
  const conditions = conditionsOf(filter, (value) => `$${values.push(value)}`);
  const result = await connection.runAndReadAll(
    `select count(*)::double from ${tableOf(filter)} where ${conditions.join(" and ")}`,
    values,
  );
  return Number(result.getRows()[0]?.[0] ?? 0);
}

/**
 * Where events stand that have one of the next positions, in order. Positions are dense, and bounds
 * let the blocks of the table beyond them be skipped.
 */
async function readLengths(
  connection: DuckDBConnection,
  position: number,
  count: number,
): Promise<readonly Key[]> {
  const lengths = await connection.runAndReadAll(
    `select position::double, properties_length from events
      where position > $1::bigint and position <= $1::bigint + $2 order by position`,
    [String(position), count],
  );
  return (lengths.getRows() as [number, number][]).map(([at, length]) => {
    return { position: at, timestampMs: 0, length };
  });
}

/** Events of all projects above a position, in order; a run of large ones ends early. */
export async function readEventsAfter(
  connection: DuckDBConnection,
  position: number,
  limit: number,
): Promise<readonly PlacedEvent[]> {
  let keys = await readLengths(connection, position, limit);
  if (keys.length === 0) {
    const next = await connection.runAndReadAll(
      "select min(position)::double from events where position > $1::bigint",
      [String(position)],
    );
    const first = next.getRows()[0]?.[0];
    if (typeof first !== "number") return [];
    keys = await readLengths(connection, first - 1, limit);
  }
  const [run] = split(keys);
  const [first, last] = [run?.[0], run?.at(-1)];
  if (!first || !last) return [];
  const rows = await connection.runAndReadAll(
    `select position::double, project_id, event, properties, epoch_ms(received_at)::double
      from events where position between $1::bigint and $2::bigint order by position`,
    [String(first.position), String(last.position)],
  );
  const found = rows.getRows() as [number, number, string, string | null, number][];
  const long = await readLongTexts(
    connection,
    "event_texts",
    found.flatMap(([at, , , text]) => (text === null ? [at] : [])),
  );
  return found.map(([at, projectId, event, text, receivedMs]) => {
    const properties = parseExactJson(text ?? long.get(at) ?? "{}") as JsonObject;
    return {
      position: at,
      event: { projectId, event, properties, receivedAt: new Date(receivedMs) },
    };
  });
}

/** Which of some projects have any event. */
export async function projectsWithEvents(
  connection: DuckDBConnection,
  projectIds: readonly number[],
): Promise<ReadonlySet<number>> {
  const result = await connection.runAndReadAll(
    "select distinct project_id from events where list_contains($1::integer[], project_id)",
    [JSON.stringify(projectIds)],
  );
  return new Set((result.getRows() as [number][]).map(([id]) => id));
}

function conditionsOf(filter: Filter, bind: (value: DuckDBValue) => string): string[] {
  const conditions = [`e.project_id = ${bind(filter.projectId)}`];
  if (filter.position !== undefined) conditions.push(`e.position = ${filter.position}`);
  if (filter.event !== undefined) conditions.push(`e.event = ${bind(filter.event)}`);
  if (filter.distinctId !== undefined) {
    conditions.push(`e.distinct_id = ${bind(filter.distinctId)}`);
  }
  if (filter.personId !== undefined) {
    const person = `${bind(filter.personId)}::uuid`;
    conditions.push(`${PERSON} = ${person}`);
  }
  if (filter.after) conditions.push(`e.timestamp > ${bind(timestampOf(filter.after))}`);
  if (filter.before) conditions.push(`e.timestamp < ${bind(timestampOf(filter.before))}`);
  return conditions;
}

function tableOf({ personId }: Filter): string {
  return personId === undefined ? "events e" : `events e ${MERGES}`;
}

interface Row {
  readonly uuid: string;
  readonly event: string;
  readonly distinctId: string;
  readonly personId: string;
  readonly properties: string;
  readonly timestampMs: number;
  readonly receivedMs: number;
}

/** The events of a run, in its order, but for those that lack a required property. */
async function readRun(
  connection: DuckDBConnection,
  search: Search,
  run: readonly Key[],
): Promise<readonly { readonly row: Row; readonly length: number }[]> {
  const positions = run.map(({ position }) => position);
  const values: DuckDBValue[] = [];
  const conditions = [
    // The bounds let whole blocks of the table be skipped; so does reading the rest by row.
    `e.rowid in (
      select rowid from events
        where position between ${Math.min(...positions)} and ${Math.max(...positions)}
          and position in (${positions.join()}))`,
    ...haveNames(search, (value) => `$${values.push(value)}`),
  ];
  const result = await connection.runAndReadAll(
    `select e.position::double, e.uuid::varchar, e.event, e.distinct_id,
        ${PERSON}::varchar, e.properties,
        epoch_ms(e.timestamp)::double, epoch_ms(e.received_at)::double
      from events e ${MERGES}
      where ${conditions.join(" and ")}`,
    values,
  );
  const stored = result.getRows() as [number, ...unknown[]][];
  const long = await readLongTexts(
    connection,
    "event_texts",
    stored.flatMap(([position, ...fields]) => (fields[4] === null ? [position] : [])),
  );
  const rows = new Map<number, Row>();
  for (const [position, ...fields] of stored) {
    const [uuid, event, distinctId, personId, short, timestampMs, receivedMs] = fields;
    const properties = short ?? long.get(position);
    const row = { uuid, event, distinctId, personId, properties, timestampMs, receivedMs } as Row;
    rows.set(position, row);
  }
  return run.flatMap(({ position, length }) => {
    const row = rows.get(position);
    return row ? [{ row, length }] : [];
  });
}

/** Conditions that drop most events without the required properties, and no other. */
function haveNames({ properties }: Search, bind: (value: DuckDBValue) => string): string[] {
  // Stored texts are written by JSON.stringify, so a name occurs in exactly this spelling. Long
  // texts are kept elsewhere, and looked at one by one.
  return (properties?.requiredNames ?? []).map(
    (name) =>
      `(e.properties is null or contains(e.properties, ${bind(`${JSON.stringify(name)}:`)}))`,
  );
}

function toStoredEvent(row: Row): StoredEvent {
  return {
    uuid: row.uuid,
    event: row.event,
    distinctId: row.distinctId,
    personId: row.personId,
    properties: parseExactJson(row.properties) as JsonObject,
    timestamp: new Date(row.timestampMs),
    receivedAt: new Date(row.receivedMs),
  };
}

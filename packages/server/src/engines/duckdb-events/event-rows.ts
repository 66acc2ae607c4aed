import { setImmediate as nextTurn } from "node:timers/promises";
import type { DuckDBConnection } from "@duckdb/node-api";
import { encodeJson } from "@hedgerow/core/exact-json";
import { type Json, type JsonObject, ownValue } from "@hedgerow/core/json";
import type { EventRow } from "../../events/event-store.ts";
import { appendLongTexts, CHARS_PER_FLUSH, isLongText } from "./long-texts.ts";
import { createRowChunk, type RowChunk } from "./row-chunk.ts";

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
  // Absent for long texts, which are kept in pieces.
  "properties varchar",
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
/** Columns that came later; they follow the others in this order. */
const LATER_COLUMNS = [
  // What a client gave as `$insert_id`.
  "insert_id varchar",
  // A JSON list of names; absent where no transformation changed the event.
  "changed_by varchar",
  "stored_at timestamp",
];
const GROUP_COLUMNS = 5;

/** Rows appended without letting other work run in between: a few milliseconds. */
const ROWS_PER_TURN = 500;
/** Longer values name no flag, variant, session or group; they are in the properties all the same. */
const MAX_COLUMN_CHARS = 1000;

/** The table of events, where it is missing. */
export async function createEventTable(connection: DuckDBConnection): Promise<void> {
  await connection.run(`create table if not exists events (${COLUMNS.join(", ")})`);
  for (const column of LATER_COLUMNS) {
    await connection.run(`alter table events add column if not exists ${column}`);
  }
}

/** A row with its properties as the text that is stored. */
export interface TextRow extends EventRow {
  readonly text: string;
}

/** Appends rows to the table within the transaction under way. */
export async function appendRows(
  connection: DuckDBConnection,
  rows: readonly TextRow[],
  storedAt: Date,
): Promise<void> {
  if (rows.length === 0) return;
  const appender = await connection.createAppender("events");
  try {
    for (const run of turnsOf(rows)) {
      writeRows(createRowChunk(appender, run.length), run, storedAt);
      await nextTurn();
    }
  } finally {
    appender.closeSync();
  }
  await appendLongTexts(
    connection,
    "event_texts",
    rows.filter(({ text }) => isLongText(text)),
  );
}

/** Rows in runs that take a few milliseconds each. */
function* turnsOf(rows: readonly TextRow[]) {
  let run: TextRow[] = [];
  let chars = 0;
  for (const row of rows) {
    run.push(row);
    chars += row.text.length;
    if (run.length < ROWS_PER_TURN && chars < CHARS_PER_FLUSH) continue;
    yield run;
    run = [];
    chars = 0;
  }
  if (run.length > 0) yield run;
}

/** Writes all columns, in the order of the table. */
function writeRows(chunk: RowChunk, rows: readonly TextRow[], storedAt: Date): void {
  const row = (index: number) => rows[index] as TextRow;
  const event = (index: number) => row(index).event;
  const property = (name: string) => (index: number) =>
    columnText(ownValue(event(index).properties, name));
  let column = 0;
  chunk.integers(column++, (index) => event(index).projectId);
  chunk.bigints(column++, (index) => row(index).position);
  chunk.uuids(column++, (index) => event(index).uuid);
  chunk.texts(column++, (index) => event(index).event);
  chunk.texts(column++, (index) => event(index).distinctId);
  chunk.uuids(column++, (index) => row(index).personId);
  chunk.timestamps(column++, (index) => event(index).timestamp);
  chunk.timestamps(column++, (index) => event(index).clientTimestamp);
  chunk.timestamps(column++, (index) => event(index).receivedAt);
  chunk.texts(column++, (index) => (isLongText(row(index).text) ? null : row(index).text));
  chunk.integers(column++, (index) => row(index).text.length);
  chunk.texts(column++, property("$feature_flag"));
  chunk.texts(column++, property("$feature_flag_response"));
  chunk.texts(column++, property("$session_id"));
  for (let group = 0; group < GROUP_COLUMNS; group++) {
    chunk.texts(column++, (index) => columnText(row(index).groupKeys[group]));
  }
  chunk.texts(column++, (index) => insertIdOf(event(index).properties));
  chunk.texts(column++, (index) => {
    const { changedBy } = row(index);
    return changedBy.length === 0 ? null : JSON.stringify(changedBy);
  });
  chunk.timestamps(column++, () => storedAt);
  chunk.append();
}

/** Longer ids identify nothing. */
const MAX_INSERT_ID_CHARS = 200;

/** An event's `$insert_id`, which two sendings of one event have in common. */
export function insertIdOf(properties: JsonObject): string | null {
  const id = ownValue(properties, "$insert_id");
  if (typeof id === "number" || typeof id === "bigint") return String(id);
  if (typeof id !== "string" || id === "" || id.length > MAX_INSERT_ID_CHARS) return null;
  return id;
}

/** Text as it is, everything else as JSON (a flag's answer may be `true`). */
function columnText(value: Json | undefined): string | null {
  if (value === undefined || value === null) return null;
  const text = typeof value === "string" ? value : encodeJson(value);
  return text.length > MAX_COLUMN_CHARS ? null : text;
}

import { setImmediate as nextTurn } from "node:timers/promises";
import type { DuckDBAppender, DuckDBConnection } from "@duckdb/node-api";
import { encodeJson } from "@hedgerow/core/exact-json";
import { type Json, type JsonObject, ownValue } from "@hedgerow/core/json";
import type { EventRow } from "../../events/event-store.ts";
import { timestampOf, uuidValueOf } from "./duckdb-values.ts";
import { appendLongTexts, CHARS_PER_FLUSH, isLongText } from "./long-texts.ts";

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
const ROWS_PER_TURN = 250;
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
  let chars = 0;
  try {
    for (const [index, row] of rows.entries()) {
      if (index > 0 && index % ROWS_PER_TURN === 0) await nextTurn();
      appendRow(appender, row, storedAt);
      chars += row.text.length;
      if (chars < CHARS_PER_FLUSH) continue;
      appender.flushSync();
      chars = 0;
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

function appendRow(appender: DuckDBAppender, row: TextRow, storedAt: Date): void {
  const { position, event, personId, groupKeys, text } = row;
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
  appendText(appender, isLongText(text) ? null : text);
  appender.appendInteger(text.length);
  appendText(appender, columnText(ownValue(properties, "$feature_flag")));
  appendText(appender, columnText(ownValue(properties, "$feature_flag_response")));
  appendText(appender, columnText(ownValue(properties, "$session_id")));
  for (let group = 0; group < GROUP_COLUMNS; group++) {
    appendText(appender, columnText(groupKeys[group]));
  }
  appendText(appender, insertIdOf(properties));
  appendText(appender, row.changedBy.length === 0 ? null : JSON.stringify(row.changedBy));
  appender.appendTimestamp(timestampOf(storedAt));
  appender.endRow();
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

function appendText(appender: DuckDBAppender, text: string | null): void {
  if (text === null) appender.appendNull();
  else appender.appendVarchar(text);
}

/** Text as it is, everything else as JSON (a flag's answer may be `true`). */
function columnText(value: Json | undefined): string | null {
  if (value === undefined || value === null) return null;
  const text = typeof value === "string" ? value : encodeJson(value);
  return text.length > MAX_COLUMN_CHARS ? null : text;
}

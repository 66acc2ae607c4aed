import { setImmediate as nextTurn } from "node:timers/promises";
import type { DuckDBConnection } from "@duckdb/node-api";
import { encodeJson } from "@hedgerow/core/exact-json";
import { type Json, type JsonObject, ownValue } from "@hedgerow/core/json";
import type { EventRow } from "../../events/event-store.ts";
import { timestampOf } from "./duckdb-values.ts";
import { appendLongTexts, isLongText, TEXT_COMPRESSION } from "./long-texts.ts";
import { createPackedRows, FIELD_END, HEX_MARK, type PackedRows, ROW_END } from "./packed-rows.ts";
import type { Statements } from "./statements.ts";

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
  `properties varchar ${TEXT_COMPRESSION}`,
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

/** Rows packed without letting other work run in between: a few milliseconds. */
const ROWS_PER_TURN = 500;
/** DuckDB works on so many rows at a time. */
const ROWS_PER_STATEMENT = 2048;
/** Texts of one statement are in memory several times, beyond what DuckDB's limit counts. */
const BYTES_PER_STATEMENT = 2 * 1024 * 1024;
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

/** How a value of a row comes into a column. */
type Field = { readonly column: string } & (
  | { readonly type: "integer" | "bigint"; readonly of: (row: TextRow) => number }
  | { readonly type: "uuid"; readonly of: (row: TextRow) => string }
  | { readonly type: "timestamp"; readonly of: (row: TextRow) => Date | null }
  | { readonly type: "varchar"; readonly of: (row: TextRow) => string | null }
  | { readonly type: "json"; readonly of: (row: TextRow) => string | null }
);

const property = (column: string, name: string): Field => ({
  column,
  type: "varchar",
  of: ({ event }) => columnText(ownValue(event.properties, name)),
});

const FIELDS: readonly Field[] = [
  { column: "project_id", type: "integer", of: ({ event }) => event.projectId },
  { column: "position", type: "bigint", of: ({ position }) => position },
  { column: "uuid", type: "uuid", of: ({ event }) => event.uuid },
  { column: "event", type: "varchar", of: ({ event }) => event.event },
  { column: "distinct_id", type: "varchar", of: ({ event }) => event.distinctId },
  { column: "person_id", type: "uuid", of: ({ personId }) => personId },
  { column: "timestamp", type: "timestamp", of: ({ event }) => event.timestamp },
  { column: "client_timestamp", type: "timestamp", of: ({ event }) => event.clientTimestamp },
  { column: "received_at", type: "timestamp", of: ({ event }) => event.receivedAt },
  { column: "properties", type: "json", of: ({ text }) => (isLongText(text) ? null : text) },
  { column: "properties_length", type: "integer", of: ({ text }) => text.length },
  property("feature_flag", "$feature_flag"),
  property("feature_flag_response", "$feature_flag_response"),
  property("session_id", "$session_id"),
  ...Array.from(
    { length: GROUP_COLUMNS },
    (_, group): Field => ({
      column: `group_${group}`,
      type: "varchar",
      of: ({ groupKeys }) => columnText(groupKeys[group]),
    }),
  ),
  { column: "insert_id", type: "varchar", of: ({ event }) => insertIdOf(event.properties) },
  {
    column: "changed_by",
    type: "varchar",
    of: ({ changedBy }) => (changedBy.length === 0 ? null : JSON.stringify(changedBy)),
  },
];

function packRow(packed: PackedRows, row: TextRow): void {
  for (const field of FIELDS) packField(packed, field, row);
  packed.endRow();
}

function packField(packed: PackedRows, field: Field, row: TextRow): void {
  switch (field.type) {
    case "integer":
    case "bigint":
      packed.whole(field.of(row));
      return;
    case "uuid":
      packed.text(readUuid(field.of(row)));
      return;
    case "timestamp": {
      const time = field.of(row);
      if (time === null) packed.absent();
      else packed.whole(time.getTime());
      return;
    }
    default: {
      const text = field.of(row);
      if (text === null) packed.absent();
      else if (field.type === "json") packed.json(text);
      else packed.text(text);
    }
  }
}

const UUID_CHARS = 36;

/** DuckDB reads other forms as well, and says itself where it cannot read one. */
function readUuid(uuid: string): string {
  if (uuid.length !== UUID_CHARS) throw new Error(`not a UUID: ${uuid}`);
  return uuid;
}

/** The statement that takes packed rows (its first parameter) apart and inserts them. */
function insertionOf(hasHex: boolean): string {
  const values = FIELDS.map(({ column, type }, index) => {
    const field = `fields[${index + 1}]`;
    const text = `nullif(${field}, '')`;
    switch (type) {
      case "timestamp":
        return `make_timestamp(1000 * ${text}::bigint) as ${column}`;
      case "varchar":
        return hasHex
          ? `case when starts_with(${field}, chr(${HEX_MARK})) then decode(unhex(substr(${field}, 2)))
              else ${text} end as ${column}`
          : `${text} as ${column}`;
      case "json":
        return `${text} as ${column}`;
      default:
        return `${field}::${type} as ${column}`;
    }
  });
  return `insert into events by name select ${values.join(", ")}, $2::timestamp as stored_at
    from (select string_split(packed_row, chr(${FIELD_END})) as fields
      from (select unnest(string_split(decode($1::blob), chr(${ROW_END}))) as packed_row))`;
}

const INSERT = insertionOf(false);
const INSERT_WITH_HEX = insertionOf(true);

/** Appends rows to the table of events within the transaction under way. */
export type AppendRows = (
  connection: DuckDBConnection,
  rows: readonly TextRow[],
  storedAt: Date,
) => Promise<void>;

/**
 * Rows are packed into memory that is used again and again, and taken apart, converted and appended by
 * DuckDB beside this thread. One call at a time.
 */
export function createRowAppending(statements: Statements): AppendRows {
  const packed = createPackedRows();

  async function insertPacked(connection: DuckDBConnection, storedAt: Date): Promise<void> {
    const statement = await statements(connection, packed.hasHex ? INSERT_WITH_HEX : INSERT);
    statement.bindBlob(1, packed.bytes());
    statement.bindTimestamp(2, timestampOf(storedAt));
    const { rowsChanged } = await statement.run();
    statement.clearBindings();
    if (rowsChanged !== packed.rowCount) {
      throw new Error(`${rowsChanged} rows were made of ${packed.rowCount}`);
    }
  }

  return async (connection, rows, storedAt) => {
    packed.clear();
    for (const [index, row] of rows.entries()) {
      packRow(packed, row);
      if (packed.rowCount === ROWS_PER_STATEMENT || packed.byteCount >= BYTES_PER_STATEMENT) {
        await insertPacked(connection, storedAt);
        packed.clear();
      } else if ((index + 1) % ROWS_PER_TURN === 0) await nextTurn();
    }
    if (packed.rowCount > 0) await insertPacked(connection, storedAt);
    await appendLongTexts(
      connection,
      "event_texts",
      rows.filter(({ text }) => isLongText(text)),
    );
  };
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

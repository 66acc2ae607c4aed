import type { DuckDBConnection } from "@duckdb/node-api";
import { timestampOf } from "./duckdb-values.ts";
import { FIELDS } from "./event-fields.ts";
import { appendLongTexts, TEXT_COMPRESSION } from "./long-texts.ts";
import type { PackedEvents } from "./packed-events.ts";
import { createPackedRows, FIELD_END, HEX_MARK, ROW_END } from "./packed-rows.ts";
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

/** DuckDB works on so many rows at a time. */
const ROWS_PER_STATEMENT = 2048;
/** Texts of one statement are in memory several times, beyond what DuckDB's limit counts. */
const BYTES_PER_STATEMENT = 2 * 1024 * 1024;

/** The table of events, where it is missing. */
export async function createEventTable(connection: DuckDBConnection): Promise<void> {
  await connection.run(`create table if not exists events (${COLUMNS.join(", ")})`);
  for (const column of LATER_COLUMNS) {
    await connection.run(`alter table events add column if not exists ${column}`);
  }
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
      case "properties":
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

/** Rows that are to be appended: some of those that were packed together. */
export interface KeptRows {
  readonly events: PackedEvents;
  /** Of the rows, in order. */
  readonly indexes: readonly number[];
}

/** Appends rows to the table of events within the transaction under way. */
export type AppendRows = (
  connection: DuckDBConnection,
  kept: readonly KeptRows[],
  storedAt: Date,
) => Promise<void>;

/**
 * Packed rows are gathered in memory that is used again and again, and taken apart, converted and
 * appended by DuckDB beside this thread. One call at a time.
 */
export function createRowAppending(statements: Statements): AppendRows {
  const gathered = createPackedRows();

  async function insertGathered(connection: DuckDBConnection, storedAt: Date): Promise<void> {
    const statement = await statements(connection, gathered.hasHex ? INSERT_WITH_HEX : INSERT);
    // Between rows, not behind the last.
    statement.bindBlob(1, gathered.bytes().subarray(0, -1));
    statement.bindTimestamp(2, timestampOf(storedAt));
    const { rowsChanged } = await statement.run();
    statement.clearBindings();
    if (rowsChanged !== gathered.rowCount) {
      throw new Error(`${rowsChanged} rows were made of ${gathered.rowCount}`);
    }
    gathered.clear();
  }

  return async (connection, kept, storedAt) => {
    gathered.clear();
    const longTexts: { position: number; text: string }[] = [];
    for (const { events, indexes } of kept) {
      for (const index of indexes) {
        events.copyRow(index, gathered);
        const text = events.longTextAt(index);
        if (text !== undefined) longTexts.push({ position: events.positionAt(index), text });
        const isFull =
          gathered.rowCount === ROWS_PER_STATEMENT || gathered.byteCount >= BYTES_PER_STATEMENT;
        if (isFull) await insertGathered(connection, storedAt);
      }
    }
    if (gathered.rowCount > 0) await insertGathered(connection, storedAt);
    await appendLongTexts(connection, "event_texts", longTexts);
  };
}

import { type DuckDBAppender, DuckDBDataChunk } from "@duckdb/node-api";
import duckdb from "@duckdb/node-bindings";

const MAX_VALUE_BYTES = 16;

/**
 * Rows on their way into a table, a column at a time: DuckDB takes each column of numbers in one
 * call, where an appender takes every value in one (19 calls a row made half of what storing cost).
 * Every column has to be written.
 */
export interface RowChunk {
  integers(column: number, valueAt: (row: number) => number): void;
  /** Whole numbers up to 2^53. */
  bigints(column: number, valueAt: (row: number) => number): void;
  uuids(column: number, valueAt: (row: number) => string): void;
  timestamps(column: number, valueAt: (row: number) => Date | null): void;
  texts(column: number, valueAt: (row: number) => string | null): void;
  append(): void;
}

/** An empty chunk for the table of an appender. */
export function createRowChunk(appender: DuckDBAppender, rowCount: number): RowChunk {
  const types = Array.from({ length: appender.columnCount }, (_, column) =>
    appender.columnType(column),
  );
  const filling = DuckDBDataChunk.create(types, rowCount);
  const { chunk } = filling;
  const values = new ArrayBuffer(MAX_VALUE_BYTES * rowCount);
  const words = new Uint32Array(values);
  const integers = new Int32Array(values);
  const vectorOf = (column: number) => duckdb.data_chunk_get_vector(chunk, column);

  function write(column: number, bytesPerValue: number): void {
    duckdb.copy_data_to_vector(vectorOf(column), 0, values, 0, bytesPerValue * rowCount);
  }

  /** Marks absent values; where none is absent, DuckDB needs not be told. */
  function writeAbsence(column: number, isAbsent: (row: number) => boolean): void {
    const validity = new Uint8Array(8 * Math.ceil(rowCount / 64)).fill(0xff);
    let some = false;
    for (let row = 0; row < rowCount; row++) {
      if (!isAbsent(row)) continue;
      some = true;
      const byte = row >> 3;
      validity[byte] = (validity[byte] ?? 0) & ~(1 << (row & 7));
    }
    if (!some) return;
    const vector = vectorOf(column);
    duckdb.vector_ensure_validity_writable(vector);
    duckdb.copy_data_to_vector_validity(vector, 0, validity.buffer, 0, validity.length);
  }

  /** A 64-bit integer as two halves, the lower first: much cheaper than a `bigint`. */
  function setLong(row: number, value: number): void {
    const high = Math.floor(value / 2 ** 32);
    words[2 * row] = value - high * 2 ** 32;
    words[2 * row + 1] = high;
  }

  return {
    integers(column, valueAt) {
      for (let row = 0; row < rowCount; row++) integers[row] = valueAt(row);
      write(column, 4);
    },
    bigints(column, valueAt) {
      for (let row = 0; row < rowCount; row++) setLong(row, valueAt(row));
      write(column, 8);
    },
    uuids(column, valueAt) {
      for (let row = 0; row < rowCount; row++) setUuid(words, 4 * row, valueAt(row));
      write(column, 16);
    },
    timestamps(column, valueAt) {
      const times = Array.from({ length: rowCount }, (_, row) => valueAt(row));
      for (const [row, time] of times.entries()) setLong(row, (time?.getTime() ?? 0) * 1000);
      write(column, 8);
      writeAbsence(column, (row) => times[row] === null);
    },
    texts(column, valueAt) {
      const vector = vectorOf(column);
      const absent = new Uint8Array(rowCount);
      for (let row = 0; row < rowCount; row++) {
        const text = valueAt(row);
        if (text === null) absent[row] = 1;
        else duckdb.vector_assign_string_element(vector, row, text);
      }
      writeAbsence(column, (row) => absent[row] === 1);
    },
    append: () => appender.appendDataChunk(filling),
  };
}

const UUID = /^[\da-f]{8}-[\da-f]{4}-[\da-f]{4}-[\da-f]{4}-[\da-f]{12}$/i;

/** Writes a UUID as DuckDB holds it: lower half first, its highest bit turned, for the order. */
function setUuid(words: Uint32Array, at: number, uuid: string): void {
  if (!UUID.test(uuid)) throw new Error(`not a UUID: ${uuid}`);
  words[at] = Number.parseInt(uuid.slice(28), 16);
  words[at + 1] = Number.parseInt(uuid.slice(19, 23) + uuid.slice(24, 28), 16);
  words[at + 2] = Number.parseInt(uuid.slice(9, 13) + uuid.slice(14, 18), 16);
  words[at + 3] = Number.parseInt(uuid.slice(0, 8), 16) ^ 0x80000000;
}

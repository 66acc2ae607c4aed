import { setImmediate as nextTurn } from "node:timers/promises";
import type { DuckDBConnection } from "@duckdb/node-api";

/**
 * Longer texts are kept in pieces. DuckDB reads and writes 2,048 values of a column at a time and
 * holds all of them in memory: without a bound, a run of large events is more than it may use, and
 * a checkpoint fails.
 */
const MAX_TEXT_BYTES = 12 * 1024;
const MAX_PIECE_BYTES = 3 * 1024;
/** Texts of events resemble each other. Tables that are older keep the compression they have. */
export const TEXT_COMPRESSION = "using compression zstd";
/** A UTF-16 unit takes at most this many bytes of UTF-8. */
const MAX_UNIT_BYTES = 3;
/** What is appended is handed over at this size: until then it cannot leave memory. */
const CHARS_PER_FLUSH = 4 * 1024 * 1024;

/** Two tables: an event may be stored and be a dead letter as well, at one position. */
const TABLES = ["event_texts", "letter_texts"] as const;

export type TextTable = (typeof TABLES)[number];

/** The tables of long texts, where they are missing. */
export async function createTextTables(connection: DuckDBConnection): Promise<void> {
  for (const table of TABLES) {
    await connection.run(
      `create table if not exists ${table}
        (position bigint not null, piece integer not null, text varchar not null ${TEXT_COMPRESSION})`,
    );
  }
}

/** Whether a text has to be kept in pieces. */
export function isLongText(text: string): boolean {
  if (!mayBeLong(text.length)) return false;
  return text.length > MAX_TEXT_BYTES || Buffer.byteLength(text) > MAX_TEXT_BYTES;
}

/** False for texts that are not long whatever characters they are of. */
export function mayBeLong(chars: number): boolean {
  return chars * MAX_UNIT_BYTES > MAX_TEXT_BYTES;
}

/** Cuts a text into pieces of a bounded size, never through a character. */
export function piecesOf(text: string): readonly string[] {
  const pieces: string[] = [];
  const isAscii = Buffer.byteLength(text) === text.length;
  const units = isAscii ? MAX_PIECE_BYTES : MAX_PIECE_BYTES / MAX_UNIT_BYTES;
  for (let start = 0; start < text.length; ) {
    let end = Math.min(start + units, text.length);
    if (end < text.length && isHighSurrogate(text.charCodeAt(end - 1))) end--;
    pieces.push(text.slice(start, end));
    start = end;
  }
  return pieces;
}

function isHighSurrogate(unit: number): boolean {
  return unit >= 0xd800 && unit <= 0xdbff;
}

/** Appends texts by position, within the transaction under way. */
export async function appendLongTexts(
  connection: DuckDBConnection,
  table: TextTable,
  texts: readonly { readonly position: number; readonly text: string }[],
): Promise<void> {
  if (texts.length === 0) return;
  const appender = await connection.createAppender(table);
  let chars = 0;
  try {
    for (const { position, text } of texts) {
      for (const [index, piece] of piecesOf(text).entries()) {
        appender.appendBigInt(BigInt(position));
        appender.appendInteger(index);
        appender.appendVarchar(piece);
        appender.endRow();
      }
      chars += text.length;
      if (chars < CHARS_PER_FLUSH) continue;
      appender.flushSync();
      chars = 0;
      await nextTurn();
    }
  } finally {
    appender.closeSync();
  }
}

/** The long texts at some positions. */
export async function readLongTexts(
  connection: DuckDBConnection,
  table: TextTable,
  positions: readonly number[],
): Promise<ReadonlyMap<number, string>> {
  if (positions.length === 0) return new Map();
  // Sorted here: DuckDB would need several times the memory.
  const result = await connection.runAndReadAll(
    `select position::double, piece, text from ${table}
      where position between ${Math.min(...positions)} and ${Math.max(...positions)}
        and position in (${positions.join()})`,
  );
  const pieces = new Map<number, string[]>();
  for (const [position, piece, text] of result.getRows() as [number, number, string][]) {
    const list = pieces.get(position) ?? [];
    list[piece] = text;
    pieces.set(position, list);
  }
  return new Map([...pieces].map(([position, list]) => [position, list.join("")]));
}

import { Refusal } from "../http/errors.ts";
import { createSlices, type Slices } from "../platform/slices.ts";

/** Fields of one row. */
const MAX_COLUMNS = 100;
/** UTF-16 units of one field. */
const MAX_FIELD_LENGTH = 1_000;
/** UTF-16 units read together: what is held of a row before is read again with them. */
const PART_LENGTH = 64 * 1024;
/** Fields read between two looks at the clock: less than a millisecond of work. */
const FIELDS_PER_LOOK = 64;

const QUOTE = 0x22;
const COMMA = 0x2c;
const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;

/** Reads a CSV text as it comes. */
export interface CsvReader {
  /** Takes the next part of the text, in slices, and hands out the rows that are whole by then. */
  push(text: string): Promise<void>;
  /** Hands out the last row. */
  end(): Promise<void>;
}

/**
 * Hands out the rows of a CSV text (RFC 4180): fields in quotes may hold commas, line ends and
 * doubled quotes. Empty lines are left out; a byte order mark is ignored.
 *
 * Throws a {@link Refusal} for a row of too many columns, a field that is too long, a quote that is
 * never closed, and NUL characters, which text in UTF-16 is full of. What `takeRow` throws ends the
 * reading.
 */
export function createCsvReader(
  takeRow: (row: readonly string[]) => void,
  slices: Slices = createSlices(),
): CsvReader {
  let rowNumber = 1;
  let fieldsRead = 0;
  let isAtStart = true;
  /** The row that was not whole yet: never longer than a row may be. */
  let held = "";

  async function read(text: string, isLast: boolean): Promise<void> {
    let row: string[] = [];
    let at = isAtStart && text.startsWith("\uFEFF") ? 1 : 0;
    if (text !== "") isAtStart = false;
    let rowAt = at;
    const end = text.length;
    while (at < end) {
      fieldsRead += 1;
      if (fieldsRead % FIELDS_PER_LOOK === 0 && slices.isOver()) await slices.next();
      let field = "";
      if (text.charCodeAt(at) === QUOTE) {
        const quoted = readQuoted(text, at + 1, rowNumber);
        if (quoted === undefined && !isLast) break;
        if (quoted === undefined) {
          throw refusal(`A quote in row ${rowNumber} of the file is never closed.`);
        }
        [field, at] = quoted;
      }
      // What follows a closing quote up to the next separator belongs to the field.
      const next = fieldEnd(text, at);
      field += text.slice(at, next);
      at = next;
      if (field.length > MAX_FIELD_LENGTH) throw tooLong(rowNumber);
      row.push(field);
      const isLastOfRow = at === end || text.charCodeAt(at) !== COMMA;
      if (!isLastOfRow) {
        at += 1;
        // A comma at the very end is followed by an empty field.
        if (at === end && isLast) row.push("");
      }
      if (row.length > MAX_COLUMNS) {
        throw refusal(`Row ${rowNumber} of the file has more than ${MAX_COLUMNS} columns.`);
      }
      if (!isLastOfRow && at < end) continue;
      // More of the row, or the second half of its line end, may be to come.
      if (!isLast && (at === end || (at + 1 === end && text[at] === "\r"))) break;
      if (row.length > 1 || row[0] !== "") takeRow(row);
      row = [];
      rowNumber += 1;
      at += text.startsWith("\r\n", at) ? 2 : 1;
      rowAt = at;
    }
    held = isLast ? "" : text.slice(rowAt);
  }

  return {
    async push(text) {
      if (text.includes("\0")) {
        throw refusal("The file holds NUL characters. Save it as UTF-8 text.");
      }
      for (let from = 0; from < text.length; from += PART_LENGTH) {
        await read(held + text.slice(from, from + PART_LENGTH), false);
      }
    },
    end: () => read(held, true),
  };
}

/** Where a field ends; no further than what is too long for one. */
function fieldEnd(text: string, from: number): number {
  const last = Math.min(text.length, from + MAX_FIELD_LENGTH + 1);
  let at = from;
  while (at < last) {
    const unit = text.charCodeAt(at);
    if (unit === COMMA || unit === LINE_FEED || unit === CARRIAGE_RETURN) break;
    at += 1;
  }
  return at;
}

/**
 * A quoted field from after its first quote on, and where it ends, after the last one; `undefined`
 * where the text ends first. A quote at its very end may be the first of two.
 */
function readQuoted(
  text: string,
  from: number,
  rowNumber: number,
): [field: string, end: number] | undefined {
  let field = "";
  let start = from;
  for (let at = from; at < text.length; at += 1) {
    if (field.length + at - start > MAX_FIELD_LENGTH) throw tooLong(rowNumber);
    if (text.charCodeAt(at) !== QUOTE) continue;
    field += text.slice(start, at);
    if (text.charCodeAt(at + 1) !== QUOTE) return [field, at + 1];
    // The second quote of two stands for one, and begins the next stretch.
    at += 1;
    start = at;
  }
  return undefined;
}

function tooLong(rowNumber: number): Refusal {
  return refusal(
    `Row ${rowNumber} of the file has a field of more than ${MAX_FIELD_LENGTH} characters, or a quote that is never closed.`,
  );
}

function refusal(detail: string): Refusal {
  return new Refusal("invalid_input", detail, { attr: "csv" });
}

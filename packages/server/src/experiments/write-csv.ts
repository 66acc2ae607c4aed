/** A cell: nothing, a number, or a text. */
export type CsvCell = string | number | boolean | null;

/** What a spreadsheet takes for the beginning of a formula, after whatever it skips. */
const FORMULA = /^\s*[=+\-@\uff1d\uff0b\uff0d\uff20|%]|^[\t\r\n]/;

/**
 * Rows as RFC 4180 has them, in UTF-8 with lines that end in CRLF. A text that a spreadsheet would run
 * as a formula begins with an apostrophe; numbers stand as they are, with all their digits.
 */
export function writeCsv(header: readonly string[], rows: readonly (readonly CsvCell[])[]): string {
  return [header, ...rows].map((row) => `${row.map(writeCell).join(",")}\r\n`).join("");
}

function writeCell(cell: CsvCell): string {
  if (cell === null) return "";
  if (typeof cell === "number") return Number.isFinite(cell) ? String(cell) : "";
  if (typeof cell === "boolean") return cell ? "true" : "false";
  const safe = FORMULA.test(cell) ? `'${cell}` : cell;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

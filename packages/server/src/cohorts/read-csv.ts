/**
 * Rows of a CSV text (RFC 4180): fields in quotes may hold commas, line ends and doubled quotes.
 * Empty lines are left out; a byte order mark is ignored.
 */
export function* readCsv(text: string): Generator<readonly string[]> {
  let row: string[] = [];
  let at = text.startsWith("\uFEFF") ? 1 : 0;
  const end = text.length;
  while (at < end) {
    let field: string;
    if (text[at] === '"') {
      [field, at] = readQuoted(text, at + 1);
      // What follows a closing quote up to the next separator belongs to the field.
      const next = fieldEnd(text, at);
      field += text.slice(at, next);
      at = next;
    } else {
      const next = fieldEnd(text, at);
      field = text.slice(at, next);
      at = next;
    }
    row.push(field);
    if (at < end && text[at] === ",") {
      at++;
      // A comma at the very end is followed by an empty field.
      if (at < end) continue;
      row.push("");
    }
    if (row.length > 1 || row[0] !== "") yield row;
    row = [];
    at += text.startsWith("\r\n", at) ? 2 : 1;
  }
}

function fieldEnd(text: string, from: number): number {
  let at = from;
  while (at < text.length) {
    const unit = text.charCodeAt(at);
    if (unit === COMMA || unit === LINE_FEED || unit === CARRIAGE_RETURN) break;
    at++;
  }
  return at;
}

const COMMA = 0x2c;
const LINE_FEED = 0x0a;
const CARRIAGE_RETURN = 0x0d;

/** A quoted field from after its first quote on, and where it ends, after the last one. */
function readQuoted(text: string, from: number): [field: string, end: number] {
  const parts: string[] = [];
  let start = from;
  for (;;) {
    const quote = text.indexOf('"', start);
    if (quote === -1) return [[...parts, text.slice(start)].join(""), text.length];
    parts.push(text.slice(start, quote));
    if (text[quote + 1] !== '"') return [parts.join(""), quote + 1];
    parts.push('"');
    start = quote + 2;
  }
}

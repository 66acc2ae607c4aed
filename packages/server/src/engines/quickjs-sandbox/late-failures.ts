import type { Message } from "esbuild";
import type { SourceFiles } from "../../transformations/sandbox.ts";

/** Where in the given files a message of the bundler stands: its line from 1. */
export type Place = (
  message: Message,
) => { readonly file: string; readonly line: number } | undefined;

/** What the bundler refuses that engines only find out when it happens: assignments to constants, */
const ASSIGNMENT =
  /^Cannot assign to "(.+)" because it is a constant$|^Cannot assign to import "(.+)"$/;
/** and imports of a path that is put together, which the bundler would look for on the disk. */
const COMPUTED_PATH = /^Could not resolve (?:require|import)\("/;
/** What is put before such a path: a text of which the bundler does not see that it is empty. */
const UNSEEN = '"".concat()+';

/** What a source is given to hold constants, by the name that is put into it. */
export const CONSTANT_HOLDER = "__sandbox_constant";

/** Whether a message tells of what fails only when it happens. */
export function isLateFailure({ text }: Message): boolean {
  return ASSIGNMENT.test(text) || COMPUTED_PATH.test(text);
}

/** A constant that is assigned to, or a path that is put together: where it stands in its file, in bytes. */
interface Deferred {
  readonly line: number;
  readonly column: number;
  readonly length: number;
  readonly text: string;
}

/** So far a name's bracket is looked for. */
const MAX_LOOK = 10_000;
const NEWLINE = 0x0a;

/**
 * The files with what fails late written so that it fails when it is done, as it does in Node.js: a
 * constant that is assigned to (`x = 1`) as `holder(x).value = 1`, and a path that is put together
 * so that the bundler leaves it alone. Nothing moves to another line.
 * @param isShorthand how those in braces are written that may stand in a pattern, `({ x } = y)`
 * @returns `null` where none of the messages can be dealt with
 */
export function deferFailures(
  files: SourceFiles,
  messages: readonly Message[],
  placeOf: Place,
  isShorthand: boolean,
): SourceFiles | null {
  const byFile = new Map<string, Deferred[]>();
  for (const message of messages) {
    const { location, text } = message;
    const place = isLateFailure(message) ? placeOf(message) : undefined;
    if (location === null || place === undefined || !Object.hasOwn(files, place.file)) continue;
    const of = byFile.get(place.file) ?? [];
    byFile.set(place.file, of);
    of.push({ line: place.line, column: location.column, length: location.length, text });
  }
  const deferred: Record<string, string> = {};
  for (const [file, of] of byFile) {
    const text = deferIn(files[file] ?? "", of, isShorthand);
    if (text !== null) deferred[file] = text;
  }
  return Object.keys(deferred).length === 0 ? null : { ...files, ...deferred };
}

/** One file's text with its failures deferred; `null` where it has none. */
function deferIn(text: string, of: readonly Deferred[], isShorthand: boolean): string | null {
  // Columns are counted in bytes.
  const bytes = Buffer.from(text);
  const inOrder = [...of].sort((a, b) => a.line - b.line || a.column - b.column);
  const parts: string[] = [];
  let line = 1;
  let lineStart = 0;
  let done = 0;
  for (const place of inOrder) {
    while (line < place.line) {
      const end = bytes.indexOf(NEWLINE, lineStart);
      if (end < 0) break;
      lineStart = end + 1;
      line += 1;
    }
    const start = lineStart + place.column;
    if (line !== place.line || start < done) continue;
    if (COMPUTED_PATH.test(place.text)) {
      parts.push(bytes.toString("utf8", done, start), UNSEEN);
      done = start;
      continue;
    }
    const end = start + place.length;
    const name = bytes.toString("utf8", start, end);
    if (!place.text.includes(`"${name}"`) || bytes[start - 1] === DOT) continue;
    const key = isShorthand && isInBraces(bytes, start) ? `${name}: ` : "";
    parts.push(bytes.toString("utf8", done, start), `${key}${CONSTANT_HOLDER}(${name}).value`);
    done = end;
  }
  return done === 0 ? null : parts.join("") + bytes.toString("utf8", done);
}

const [DOT, COMMA, SPACE, TAB] = [0x2e, 0x2c, 0x20, 0x09];
const OPENING = [0x28, 0x5b, 0x7b];
const CLOSING = [0x29, 0x5d, 0x7d];
const BRACE = 0x7b;

/** Whether a name comes first in braces, or in braces behind a comma on its line. */
function isInBraces(bytes: Buffer, start: number): boolean {
  let at = start - 1;
  while (bytes[at] === SPACE || bytes[at] === TAB) at -= 1;
  if (bytes[at] !== COMMA) return bytes[at] === BRACE;
  let depth = 0;
  for (const last = Math.max(0, at - MAX_LOOK); at >= last; at -= 1) {
    const sign = bytes[at] as number;
    if (CLOSING.includes(sign)) depth += 1;
    else if (OPENING.includes(sign)) {
      if (depth === 0) return sign === BRACE;
      depth -= 1;
    }
  }
  return false;
}

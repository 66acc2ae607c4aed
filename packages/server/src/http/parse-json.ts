import { cleanJson, mayNeedCleaning } from "@hedgerow/core/events/clean-json";
import { parseExactJson } from "@hedgerow/core/exact-json";
import type { Json } from "@hedgerow/core/json";
import JSON5 from "json5";

/** Deepest nesting of objects and arrays that is read; everything after may then recurse freely. */
const MAX_JSON_DEPTH = 200;
/** Most objects and arrays in one text: each costs memory far beyond its two characters. */
const MAX_JSON_CONTAINERS = 2_000_000;
/**
 * The lenient parser is slow, over a microsecond per character, and open to whoever can reach the
 * server: longer texts must be proper JSON.
 */
const MAX_LENIENT_CHARS = 100_000;

const DOUBLE_QUOTE = 0x22;
const BACKSLASH = 0x5c;

/**
 * Parses JSON as SDKs send it: proper JSON at the speed of `JSON.parse`; NaN and infinities become
 * `null`; what is still not JSON is tried as JSON5 (single quotes, bare keys, trailing commas).
 * NUL characters and lone surrogates are replaced. Throws a `SyntaxError` that says what is wrong;
 * nesting beyond {@link MAX_JSON_DEPTH} is refused before anything is built.
 */
export function parseJson(text: string): Json {
  checkShape(text);
  try {
    return parseShaped(text);
  } catch (strictError) {
    return parseLenient(text, strictError);
  }
}

/** {@link parseJson} for a long text, or a part of it, whose bounds were looked at before. */
export function parseShaped(text: string): Json {
  try {
    return parseClean(text);
  } catch (strictError) {
    const repaired = withoutBareNumbers(text);
    if (repaired === text) throw strictError;
    try {
      return cleanJson(parseExactJson(repaired));
    } catch {
      // The text as it came tells where it is wrong.
      throw strictError;
    }
  }
}

/** Proper JSON only, under the same bounds and with the same replacements as {@link parseJson}. */
export function parseStrictJson(text: string): Json {
  checkShape(text);
  return parseClean(text);
}

function parseClean(text: string): Json {
  const value = parseExactJson(text);
  return mayNeedCleaning(text) ? cleanJson(value) : value;
}

function parseLenient(text: string, strictError: unknown): Json {
  if (text.length > MAX_LENIENT_CHARS || text.trim() === "") throw strictError;
  let value: unknown;
  try {
    value = JSON5.parse(text);
  } catch {
    throw strictError;
  }
  checkDepth(value);
  return cleanJson(value);
}

/** Shorter texts hold no JSON that is nested too deep: every level takes two characters. */
const MAX_SHALLOW_CHARS = 2 * MAX_JSON_DEPTH;

/** Bounds nesting and the number of containers; exact for proper JSON. */
function checkShape(text: string): void {
  if (text.length <= MAX_SHALLOW_CHARS) return;
  let depth = 0;
  let containers = 0;
  for (let at = 0; at < text.length; at++) {
    switch (text.charCodeAt(at)) {
      case DOUBLE_QUOTE:
        at = endOfString(text, at);
        break;
      case 0x7b: // {
      case 0x5b: // [
        checkBounds(++depth, ++containers);
        break;
      case 0x7d: // }
      case 0x5d: // ]
        depth--;
        break;
    }
  }
}

/** Throws where an object or array is one too many, at its depth or in all. */
export function checkBounds(depth: number, containers: number): void {
  if (depth > MAX_JSON_DEPTH) throw tooDeep();
  if (containers > MAX_JSON_CONTAINERS) {
    throw new SyntaxError(`more than ${MAX_JSON_CONTAINERS} objects and arrays`);
  }
}

/** The same bound on a value: the lenient parser knows strings that {@link checkShape} does not. */
function checkDepth(root: unknown): void {
  let level = [root];
  for (let depth = 0; level.length > 0; depth++) {
    if (depth > MAX_JSON_DEPTH) throw tooDeep();
    level = level.flatMap((value) =>
      typeof value === "object" && value !== null
        ? Object.values(value).filter((member) => typeof member === "object")
        : [],
    );
  }
}

function tooDeep(): SyntaxError {
  return new SyntaxError(`nested deeper than ${MAX_JSON_DEPTH} levels`);
}

/** Index of the quote that ends the string opened at `start`, or the text's length. */
export function endOfString(text: string, start: number): number {
  let end = text.indexOf('"', start + 1);
  while (end !== -1 && isEscaped(text, end)) end = text.indexOf('"', end + 1);
  return end === -1 ? text.length : end;
}

function isEscaped(text: string, at: number): boolean {
  let before = at - 1;
  while (text.charCodeAt(before) === BACKSLASH) before--;
  return (at - 1 - before) % 2 === 1;
}

/** The text with NaN and infinities outside of strings, as Python writes them, turned into `null`. */
function withoutBareNumbers(text: string): string {
  if (!/NaN|Infinity/.test(text)) return text;
  const word = /"|[-+]?(?:NaN|Infinity)\b/g;
  let repaired = "";
  let copied = 0;
  for (let match = word.exec(text); match; match = word.exec(text)) {
    if (match[0] === '"') {
      word.lastIndex = endOfString(text, match.index) + 1;
      continue;
    }
    repaired += `${text.slice(copied, match.index)}null`;
    copied = word.lastIndex;
  }
  return repaired + text.slice(copied);
}

import type { Json } from "./json.ts";

/** Integers of fewer digits are exact as a `number`. */
const SUSPECT_DIGITS = 16;
/** Longer integers are read as `JSON.parse` reads them: reading them exactly takes time that grows with their square. */
const MAX_DIGITS = 1000;
/** Most integers in one text that no `number` holds: each costs as much as a hundred characters. */
const MAX_LARGE_INTEGERS = 200_000;

const NUL_ESCAPE = "\\u0000";

/**
 * Parses JSON without losing integers: one that a `number` would not write back in the same digits
 * is a `bigint`; everything else is as `JSON.parse` has it. Text without long runs of digits costs
 * next to nothing more than `JSON.parse`. Throws its `SyntaxError`, and one of its own for more than
 * {@link MAX_LARGE_INTEGERS} such integers. Nesting must be bounded.
 */
export function parseExactJson(text: string): Json {
  if (!mayHoldLargeIntegers(text)) return JSON.parse(text) as Json;
  const marked = markLargeIntegers(text);
  if (marked === text) return JSON.parse(text) as Json;
  let value: Json;
  try {
    value = JSON.parse(marked) as Json;
  } catch {
    // The text as it came tells where it is wrong.
    return JSON.parse(text) as Json;
  }
  return restore(value);
}

/**
 * JSON text of a value that may hold `bigint`s, which become plain digits; what it reads back as
 * with {@link parseExactJson} is the same value. Without `bigint`s: `JSON.stringify`.
 */
export function encodeJson(value: unknown): string {
  try {
    return JSON.stringify(value);
  } catch (error) {
    if (!(error instanceof TypeError) || !holdsBigInt(value)) throw error;
    return encodeExactly(value) ?? "null";
  }
}

/**
 * Members of the objects and lists in a JSON text, told without reading it: an object or list without
 * any counts as one. Of a text that is no JSON the number says nothing.
 */
export function countMembers(text: string): number {
  let members = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === 0x22) at = endOfString(text, at);
    else if (code === 0x2c || code === 0x5b || code === 0x7b) members++;
  }
  return members;
}

/** True when a value has a `bigint` anywhere in it. */
export function holdsBigInt(value: unknown): boolean {
  if (typeof value === "bigint") return true;
  if (typeof value !== "object" || value === null) return false;
  if (Array.isArray(value)) return value.some(holdsBigInt);
  for (const key in value) {
    if (Object.hasOwn(value, key) && holdsBigInt((value as Record<string, unknown>)[key])) {
      return true;
    }
  }
  return false;
}

function encodeExactly(value: unknown): string | undefined {
  if (typeof value === "bigint") return value.toString();
  if (typeof value !== "object" || value === null) return JSON.stringify(value);
  // In what came from outside it may be a key as any other.
  if ("toJSON" in value && typeof value.toJSON === "function") return JSON.stringify(value);
  if (Array.isArray(value)) {
    return `[${value.map((member) => encodeExactly(member) ?? "null").join(",")}]`;
  }
  const members: string[] = [];
  for (const [key, member] of Object.entries(value)) {
    const text = encodeExactly(member);
    if (text !== undefined) members.push(`${JSON.stringify(key)}:${text}`);
  }
  return `{${members.join(",")}}`;
}

/** Looks at every sixteenth character only: a run of that many digits cannot hide between two. */
function mayHoldLargeIntegers(text: string): boolean {
  for (let at = SUSPECT_DIGITS - 1; at < text.length; at += SUSPECT_DIGITS) {
    if (!isDigit(text.charCodeAt(at))) continue;
    let start = at;
    while (start > 0 && isDigit(text.charCodeAt(start - 1))) start--;
    let end = at + 1;
    while (end < text.length && isDigit(text.charCodeAt(end))) end++;
    if (end - start >= SUSPECT_DIGITS && mayPrecedeNumber(text.charCodeAt(start - 1))) return true;
    at = end - 1;
  }
  return false;
}

function isDigit(code: number): boolean {
  return code >= 0x30 && code <= 0x39;
}

/** True for what stands before the digits of an integer, `NaN` (no character) included. */
function mayPrecedeNumber(code: number): boolean {
  return code === 0x2d || maySurroundValue(code);
}

function maySurroundValue(code: number): boolean {
  switch (code) {
    case 0x2c: // ,
    case 0x3a: // :
    case 0x5b: // [
    case 0x5d: // ]
    case 0x7d: // }
      return true;
    default:
      return Number.isNaN(code) || isSpace(code);
  }
}

function isSpace(code: number): boolean {
  return code === 0x20 || code === 0x0a || code === 0x0d || code === 0x09;
}

/**
 * The text with integers that a `number` would change turned into strings of NUL and the digits, and
 * strings that begin with NUL given another one, so that the two cannot be taken for each other.
 */
function markLargeIntegers(text: string): string {
  let marked = "";
  let copied = 0;
  let found = 0;
  let at = 0;
  while (at < text.length) {
    const code = text.charCodeAt(at);
    if (code === 0x22) {
      const end = endOfString(text, at);
      if (text.startsWith(NUL_ESCAPE, at + 1) && !isKey(text, end)) {
        marked += `${text.slice(copied, at + 1)}${NUL_ESCAPE}`;
        copied = at + 1;
      }
      at = end + 1;
      continue;
    }
    if (code !== 0x2d && !isDigit(code)) {
      at++;
      continue;
    }
    let end = at + 1;
    while (isDigit(text.charCodeAt(end))) end++;
    if (isLargeInteger(text, at, end)) {
      if (++found > MAX_LARGE_INTEGERS) {
        throw new SyntaxError(`more than ${MAX_LARGE_INTEGERS} integers beyond 2^53`);
      }
      marked += `${text.slice(copied, at)}"${NUL_ESCAPE}${text.slice(at, end)}"`;
      copied = end;
    }
    at = end;
  }
  return copied === 0 ? text : marked + text.slice(copied);
}

function isLargeInteger(text: string, start: number, end: number): boolean {
  const digits = text.slice(start, end);
  if (digits.length < SUSPECT_DIGITS || digits.length > MAX_DIGITS) return false;
  if (!maySurroundValue(text.charCodeAt(start - 1)) || !maySurroundValue(text.charCodeAt(end))) {
    return false;
  }
  // What is no JSON must not become JSON: neither 007 nor a number as a key.
  if (!/^-?[1-9]/.test(digits) || isKey(text, end - 1)) return false;
  return String(Number(digits)) !== digits;
}

/** Index of the quote that ends the string opened at `start`, or the text's length. */
function endOfString(text: string, start: number): number {
  let end = text.indexOf('"', start + 1);
  while (end !== -1 && isEscaped(text, end)) end = text.indexOf('"', end + 1);
  return end === -1 ? text.length : end;
}

function isEscaped(text: string, at: number): boolean {
  let before = at - 1;
  while (text.charCodeAt(before) === 0x5c) before--;
  return (at - 1 - before) % 2 === 1;
}

/** True when a colon follows what ends at `end`. */
function isKey(text: string, end: number): boolean {
  let next = end + 1;
  while (isSpace(text.charCodeAt(next))) next++;
  return text.charCodeAt(next) === 0x3a;
}

/** Turns marks into `bigint`s, in place: the value was made for it. */
function restore(value: Json): Json {
  if (typeof value === "string") {
    if (value.charCodeAt(0) !== 0) return value;
    const rest = value.slice(1);
    return rest.charCodeAt(0) === 0 ? rest : BigInt(rest);
  }
  if (typeof value !== "object" || value === null) return value;
  // Assigning changes an own key whatever its name, `__proto__` included.
  const members = value as Record<string, Json>;
  for (const key of Object.keys(members)) {
    const member = members[key] as Json;
    if (typeof member === "string" ? member.charCodeAt(0) === 0 : typeof member === "object") {
      members[key] = restore(member);
    }
  }
  return value;
}

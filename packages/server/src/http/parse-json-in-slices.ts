import type { Json } from "@hedgerow/core/json";
import type { Slices } from "../platform/slices.ts";
import { checkBounds, endOfString, parseShaped, parseStrictJson } from "./parse-json.ts";

/** A fraction of a millisecond. */
const PIECE_CHARS = 64 * 1024;
/** Steps, of a character or over a string, between two looks at the clock. */
const STEPS_PER_LOOK = 2000;

/** From the first character to the one behind the last. */
export interface Stretch {
  readonly start: number;
  readonly end: number;
}

/** How a long text is parsed. */
export interface LongTextOptions {
  /** Characters parsed at a time, unless a single text or number is longer; 64 Ki unless given. */
  readonly pieceChars?: number;
  /** Parses one of the pieces; {@link parseShaped} unless given. */
  readonly parsePiece?: (text: string) => Json;
  /** Beyond which the text is refused by {@link TooManyMembers}; none unless given. */
  readonly bounds?: MemberBounds;
}

/** Most members of objects and lists. */
export interface MemberBounds {
  /** In all; an object or list without any counts as one. */
  readonly inAll: number;
  readonly ofObject: number;
}

/** A text with more members than are read. */
export class TooManyMembers extends SyntaxError {
  /** The field of the outermost object in which there is one too many; `null` where it has no fields. */
  readonly field: string | null;

  constructor(detail: string, field: string | null) {
    super(detail);
    this.field = field;
  }
}

export interface ParsedInSlices {
  readonly value: Json;
  /** Where in the text the objects and lists stand that are longer than a piece, and what they are in. */
  readonly stretches: ReadonlyMap<Json, Stretch>;
}

/**
 * The value that `parseJson` reads from a text that is too long to be read leniently. Its long objects and
 * lists are put together of pieces, each parsed by the same exact parser, and others get their turn in
 * between. Throws like `parseJson`; a `SyntaxError` may tell of the part in which it was found.
 */
export async function parseJsonInSlices(
  text: string,
  slices: Slices,
  { pieceChars = PIECE_CHARS, parsePiece = parseShaped, bounds = UNBOUNDED }: LongTextOptions = {},
): Promise<ParsedInSlices> {
  const source: Source = { text, parsePiece };
  const stretches = new Map<Json, Stretch>();
  /** One for each level; those beyond the depth are kept for what comes. */
  const levels: Level[] = [];
  let depth = 0;
  let containers = 0;
  let members = 0;
  const countMember = () => {
    if (++members > bounds.inAll) throw tooMany("values", bounds.inAll, source, levels[0]);
  };
  let steps = 0;
  for (let at = 0; at < text.length; at++) {
    if (++steps % STEPS_PER_LOOK === 0 && slices.isOver()) await slices.next();
    switch (text.charCodeAt(at)) {
      case 0x22: // "
        at = endOfString(text, at);
        break;
      case 0x5b: // [
      case 0x7b: // {
        checkBounds(++depth, ++containers);
        levels[depth - 1] = begin(levels[depth - 1] ?? newLevel(), at);
        countMember();
        break;
      case 0x2c: {
        // ,
        const level = levels[depth - 1];
        if (depth === 0 || !level) break;
        countMember();
        if (++level.commas >= bounds.ofObject && !isList(level, text)) {
          const within = depth === 1 ? undefined : levels[0];
          throw tooMany("fields of one object", bounds.ofObject, source, within);
        }
        if (level.isBehindLong || at - level.restStart >= pieceChars) {
          if (slices.isOver()) await slices.next();
          takeRest(level, source, at);
          level.restStart = at + 1;
        }
        level.memberStart = at + 1;
        break;
      }
      case 0x5d: // ]
      case 0x7d: {
        // }
        const level = levels[depth - 1];
        if (depth === 0 || !level) break;
        depth--;
        const end = at + 1;
        // What is short is parsed with what it is in.
        if (!level.value && end - level.start <= pieceChars) break;
        if (slices.isOver()) await slices.next();
        const value = complete(level, source, at);
        stretches.set(value, { start: level.start, end });
        const outer = levels[depth - 1];
        if (depth > 0 && outer) {
          putLong(outer, source, { value, start: level.start, end });
          break;
        }
        if (!isBlank(text, 0, level.start) || !isBlank(text, end, text.length)) {
          throw new SyntaxError("there is something beside the JSON");
        }
        return { value, stretches };
      }
    }
  }
  if (depth > 0) throw new SyntaxError("it ends within an object or a list");
  const only = withoutBlanks(text);
  // What is long then is one string, if it is JSON: there is nothing in it to be read leniently.
  return { value: only.length > pieceChars ? parseStrictJson(only) : parsePiece(only), stretches };
}

const UNBOUNDED: MemberBounds = {
  inAll: Number.POSITIVE_INFINITY,
  ofObject: Number.POSITIVE_INFINITY,
};

/** @param outermost the object or list that everything is in */
function tooMany(
  what: string,
  most: number,
  { text }: Source,
  outermost: Level | undefined,
): TooManyMembers {
  const start =
    outermost && !isList(outermost, text) ? text.indexOf('"', outermost.memberStart) : -1;
  const name = start < 0 ? null : text.slice(start, endOfString(text, start) + 1);
  return new TooManyMembers(`more than ${most} ${what}`, name === null ? null : readName(name));
}

function readName(text: string): string | null {
  try {
    return String(JSON.parse(text));
  } catch {
    return null;
  }
}

/** A text and what parses pieces of it. */
interface Source {
  readonly text: string;
  readonly parsePiece: (text: string) => Json;
}

function withoutBlanks(text: string): string {
  let start = 0;
  while (start < text.length && isBlank(text, start, start + 1)) start++;
  let end = text.length;
  while (end > start && isBlank(text, end - 1, end)) end--;
  return text.slice(start, end);
}

/** An object or list that is being read. */
interface Level {
  /** Where its bracket is. */
  start: number;
  /** Where the member begins that is being read. */
  memberStart: number;
  /** Where those begin that are not in the value yet. */
  restStart: number;
  /** How many of its own it has had so far. */
  commas: number;
  /** What it holds, once it is known to be long. */
  value: Json[] | { [name: string]: Json } | undefined;
  /** True after a member that was put in by itself: a comma or the end comes next. */
  isBehindLong: boolean;
}

function newLevel(): Level {
  return {
    start: 0,
    memberStart: 0,
    restStart: 0,
    commas: 0,
    value: undefined,
    isBehindLong: false,
  };
}

function begin(level: Level, at: number): Level {
  level.start = at;
  level.memberStart = at + 1;
  level.restStart = at + 1;
  level.commas = 0;
  level.value = undefined;
  level.isBehindLong = false;
  return level;
}

/** Puts the members that end before `end`, of which there is at least one, into the value. */
function takeRest(level: Level, source: Source, end: number): void {
  const { text } = source;
  if (level.isBehindLong) {
    level.isBehindLong = false;
    if (isBlank(text, level.restStart, end)) return;
    throw new SyntaxError("a comma is missing");
  }
  const piece = parseWithin(level, source, text.slice(level.restStart, end));
  const names = Array.isArray(piece) ? [] : Object.keys(piece);
  const values = Array.isArray(piece) ? piece : names.map((name) => piece[name] as Json);
  // `[1,]` and `[,1]` are no lists, though each of their pieces is one.
  if (values.length === 0) throw new SyntaxError("a value is missing beside a comma");
  for (let index = 0; index < values.length; index++) {
    add(level, values[index] as Json, names[index]);
  }
}

/** Puts a member in that was put together by itself. */
function putLong(
  level: Level,
  source: Source,
  { value, start, end }: Stretch & { readonly value: Json },
): void {
  const { text } = source;
  if (level.isBehindLong) throw new SyntaxError("a comma is missing");
  const { restStart, memberStart } = level;
  if (memberStart > restStart) takeRest(level, source, memberStart - 1);
  // Only a name, in an object, may stand between the comma and the bracket.
  const member = parseWithin(level, source, `${text.slice(memberStart, start)}[]`);
  if (Array.isArray(member)) add(level, value);
  else add(level, value, Object.keys(member)[0]);
  level.restStart = end;
  level.memberStart = end;
  level.isBehindLong = true;
}

/** The whole object or list that ends with the bracket at `at`. */
function complete(level: Level, source: Source, at: number): Json {
  const { text, parsePiece } = source;
  if ((text.charCodeAt(at) === 0x5d) !== isList(level, text)) {
    throw new SyntaxError("brackets do not match");
  }
  if (!level.value) return parsePiece(text.slice(level.start, at + 1));
  takeRest(level, source, at);
  return level.value;
}

function isList(level: Level, text: string): boolean {
  return text.charCodeAt(level.start) === 0x5b;
}

/** Some members of an object or list as one of their own. */
function parseWithin(
  level: Level,
  { text, parsePiece }: Source,
  members: string,
): Json[] | Record<string, Json> {
  const whole = isList(level, text) ? `[${members}]` : `{${members}}`;
  return parsePiece(whole) as Json[] | Record<string, Json>;
}

/** @param name of a member of an object */
function add(level: Level, value: Json, name?: string): void {
  if (name === undefined) {
    level.value ??= [];
    (level.value as Json[]).push(value);
    return;
  }
  level.value ??= {};
  // Names are data: this one, too, is as any other.
  if (name === "__proto__") {
    const data = { value, enumerable: true, configurable: true, writable: true };
    Object.defineProperty(level.value, name, data);
  } else (level.value as Record<string, Json>)[name] = value;
}

function isBlank(text: string, start: number, end: number): boolean {
  for (let at = start; at < end; at++) {
    const code = text.charCodeAt(at);
    if (code !== 0x20 && code !== 0x0a && code !== 0x0d && code !== 0x09) return false;
  }
  return true;
}

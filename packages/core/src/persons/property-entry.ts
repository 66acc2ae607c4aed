import { encodeJson } from "../exact-json.ts";
import type { Json } from "../json.ts";

/** A property, or what is remembered of one that was removed. */
export interface Entry {
  readonly name: string;
  /** Absent where it was removed. */
  value: Json | undefined;
  /** What gave it its value, or removed it (which counts as `set`); unknown where nothing was noted. */
  source: "set" | "setOnce" | "unknown";
  /** When, in milliseconds since the epoch. */
  atMs: number;
  /** Length of its member of the JSON text, name and value; -1 until that is asked for. */
  length: number;
  /** Length of what the written text has of it; 0 where it has nothing. */
  written: number;
  /** Its member of the JSON text, from when it is made until it is written. */
  member: string | undefined;
}

export function newEntry(
  name: string,
  { value, source, atMs }: Pick<Entry, "value" | "source" | "atMs">,
): Entry {
  return { name, value, source, atMs, length: -1, written: 0, member: undefined };
}

/** The member of the text that is made now, or was when the value changed: from now on it is written. */
export function takeMember(entry: Entry): string {
  const member = entry.member ?? nameText(entry.name) + valueText(entry.value as Json);
  entry.member = undefined;
  entry.length = member.length;
  entry.written = member.length;
  return member;
}

/** Gives a present property another value; answers by how much the JSON text grows. */
export function giveValue(entry: Entry, value: Json): number {
  const before = lengthIn(entry);
  entry.value = value;
  entry.member = nameText(entry.name) + valueText(value);
  entry.length = entry.member.length;
  return entry.length + 1 - before;
}

/** What a present property adds to the JSON text: its member and a comma. */
export function lengthIn(entry: Entry): number {
  if (entry.length < 0) entry.length = lengthOf(entry.name, entry.value as Json) - 1;
  return entry.length + 1;
}

export function date(entry: Entry, source: Entry["source"], atMs: number): void {
  entry.source = source;
  entry.atMs = atMs;
}

/** The entries that have a value. */
export function* present(entries: ReadonlyMap<string, Entry>) {
  for (const one of entries)
    if (one[1].value !== undefined) yield one as [string, Entry & { value: Json }];
}

/** Names that are their own JSON text: nearly all. */
const PLAIN_NAME = /^[ !#-[\]-~]*$/;

/** A name and the colon behind it as JSON text. */
export function nameText(name: string): string {
  return PLAIN_NAME.test(name) ? `"${name}":` : `${JSON.stringify(name)}:`;
}

function valueText(value: Json): string {
  return typeof value === "string" ? JSON.stringify(value) : encodeJson(value);
}

/** Scalars only: whether objects are the same does not pay to find out. */
export function isSame(a: Json | undefined, b: Json): boolean {
  return a === b && (b === null || typeof b !== "object");
}

/** What a property adds to the JSON text: name, colon, value and comma. */
export function lengthOf(name: string, value: Json): number {
  return JSON.stringify(name).length + encodeJson(value).length + 2;
}

/** At most this long as JSON; escapes make a character six long at worst. */
export function boundOf(value: Json): number {
  if (typeof value === "string") return value.length * 6 + 4;
  if (typeof value === "object" && value !== null) return encodeJson(value).length + 4;
  return typeof value === "bigint" ? value.toString().length + 1 : 30;
}

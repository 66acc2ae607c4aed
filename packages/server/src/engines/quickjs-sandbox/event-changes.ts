import type { Json, JsonObject } from "@hedgerow/core/json";
import {
  FAILED_PROPERTY,
  hasKeys,
  OWN_PROPERTIES,
  SUCCEEDED_PROPERTY,
} from "@hedgerow/core/transformations/plugin-event";
import { HEAD, type ScannedLines, type Shape } from "./event-shapes.ts";
import { ADDED, type TextChange } from "./sandbox-messages.ts";
import { SET, type SET_ALIKE } from "./told-sets.ts";
import { beginningOf } from "./value-places.ts";

/** What the service says itself of transformations: kept out of the text of what they answer. */
const SAID = [SUCCEEDED_PROPERTY, FAILED_PROPERTY];
/** What no transformation changes. */
const FIXED: readonly string[] = OWN_PROPERTIES;

/** How a change begins that says of properties first. */
const ONLY_PROPERTIES = '~{"p":{';

/** What the guest tells of a changed event; all fields (`h`) in the place of those that differ. */
type GuestChange = TextChange & { readonly h?: JsonObject };

/**
 * What the main thread is told of an event that the guest says it changed: only what differs indeed,
 * and the text of its properties after it, without what the service says of transformations, or
 * {@link ADDED}. Values that the guest wrote as another text for the same (digits that it cannot hold)
 * do not differ.
 */
export function tellChange(text: string, scanned: ScannedLines, index: number): string {
  const line = scanned.lines[index] ?? "";
  if (text.startsWith("+"))
    return text.length === line.length + 1 && text.endsWith(line) ? "=" : text;
  const event = new TextObject(line, scanned, index);
  const { h: head, ...change } = JSON.parse(text.slice(1)) as GuestChange;
  if (text.startsWith(ONLY_PROPERTIES) && change.q === undefined && change.w === undefined) {
    const members = text.slice(ONLY_PROPERTIES.length, -2);
    // Where it is written otherwise (a key twice), it is not taken as it is.
    const isPlain = JSON.stringify(change) === `{"p":{${members}}}`;
    if (isPlain && event.properties?.lacks(change.p ?? {})) return `${text}\n${ADDED}`;
  }
  const fields = head === undefined ? change : { ...change, ...headChange(line, head) };
  const { e, f, q, w, p } = fields;
  if (w !== undefined || (e !== undefined && Object.hasOwn(e, "properties"))) {
    const { properties: whole = w, ...rest } = e ?? {};
    const properties = event.properties;
    if (properties === null || whole === undefined)
      return tell({ e: rest, f, w: whole ?? null }, "");
    if (JSON.stringify(whole) !== canonical(properties.text))
      return tell({ e: rest, f, w: whole }, "");
    return tell({ e: rest, f }, "");
  }
  const { properties } = event;
  if (properties === null) return tell({ e, f, p, q }, "");
  const set = p === undefined ? undefined : properties.changed(p);
  const gone = q?.filter((key) => !FIXED.includes(key));
  const texts = Object.fromEntries(
    Object.entries(set ?? {}).map(([key, value]) => [key, JSON.stringify(value)]),
  );
  return tell({ e, f, p: set, q: gone }, properties.with(texts, gone ?? []));
}

/**
 * What the events of a run set of their properties, where texts, numbers and the like are all: a list
 * of how many keys, the keys and the values, `[]` for what was deleted; or of the values alone where
 * the keys are those of the event before. Taken for what anybody may have written.
 */
export class ToldSets {
  readonly #list: readonly Json[];
  #at = 0;
  #keys: readonly string[] = [];
  /** The last values as JSON, `""` for those that are gone; and whether none is. */
  readonly #texts: string[] = [];
  #isAllSet = false;
  /** The keys as JSON. */
  #literals: readonly string[] = [];
  /** Whether they may be told as they are: none comes twice or is put in order by its number. */
  #arePlain = false;
  /** The last shape that was asked for, and whether none of the keys is in it. */
  #shape: Shape | null = null;
  #isLacking = false;

  constructor(text: string) {
    let list: Json = null;
    try {
      list = JSON.parse(text) as Json;
    } catch {
      // What is told of it cannot be read then.
    }
    this.#list = Array.isArray(list) ? list : [];
  }

  /** The next change as `tellChange` reads it; throws where there is none. */
  next(kind: typeof SET | typeof SET_ALIKE): string {
    if (kind === SET) this.#takeKeys();
    const count = this.#keys.length;
    if (count === 0) throw new TypeError("no keys were told");
    let members = "";
    let gone = "";
    for (let index = 0; index < count; index += 1) {
      const text = textOf(this.#list[this.#at]);
      this.#at += 1;
      this.#texts[index] = text;
      const key = this.#literals[index] as string;
      if (text !== "") members += `${members === "" ? "" : ","}${key}:${text}`;
      else gone += `${gone === "" ? "" : ","}${key}`;
    }
    this.#isAllSet = gone === "";
    return changeOf(members, gone);
  }

  /** The last change as the main thread is told it. */
  tell(text: string, scanned: ScannedLines, index: number): string {
    if (this.#arePlain) {
      const { numbers, shapes } = scanned;
      const shape = shapes.shapeOf(numbers[(numbers[index] ?? 0) + HEAD.innerShape]);
      if (shape !== this.#shape) {
        this.#shape = shape;
        this.#isLacking = shape !== null && this.#keys.every((key) => !shape.slots.has(key));
      }
      if (this.#isLacking && this.#isAllSet) return `${text}\n${ADDED}`;
      const { properties } = new TextObject(scanned.lines[index] ?? "", scanned, index);
      if (properties !== null) return this.#tellChanged(properties);
    }
    return tellChange(text, scanned, index);
  }

  /** What `tellChange` tells, without reading the change and writing it again. */
  #tellChanged(properties: TextProperties): string {
    const texts: Record<string, string> = {};
    const goneKeys: string[] = [];
    let members = "";
    let gone = "";
    let isAdding = true;
    for (let index = 0; index < this.#keys.length; index += 1) {
      const key = this.#keys[index] as string;
      const text = this.#texts[index] as string;
      const literal = this.#literals[index] as string;
      if (text === "") {
        goneKeys.push(key);
        gone += `${gone === "" ? "" : ","}${literal}`;
      } else if (properties.differs(key, text)) {
        texts[key] = text;
        if (properties.has(key)) isAdding = false;
        members += `${members === "" ? "" : ","}${literal}:${text}`;
      }
    }
    if (members === "" && gone === "") return "=";
    if (isAdding && gone === "") return `${changeOf(members, gone)}\n${ADDED}`;
    return `${changeOf(members, gone)}\n${properties.with(texts, goneKeys)}`;
  }

  #takeKeys(): void {
    const count = Number(this.#list[this.#at]);
    const keys = this.#list.slice(this.#at + 1, this.#at + 1 + count);
    if (keys.length !== count || !keys.every((key) => typeof key === "string")) {
      throw new TypeError("no such keys were told");
    }
    this.#at += 1 + count;
    this.#keys = keys;
    this.#literals = keys.map((key) => JSON.stringify(key));
    this.#arePlain =
      new Set(keys).size === count &&
      keys.every((key) => !FIXED.includes(key) && !/^\d/.test(key) && key !== "__proto__");
    this.#shape = null;
    this.#isLacking = false;
  }
}

/** A value of the list as JSON, `""` where it stands for none; throws where it is no such value. */
function textOf(value: Json | undefined): string {
  if (typeof value === "string") return JSON.stringify(value);
  if (typeof value === "boolean" || value === null || Number.isFinite(value)) return String(value);
  if (Array.isArray(value) && value.length === 0) return "";
  throw new TypeError("no such value was told");
}

function changeOf(members: string, gone: string): string {
  if (gone === "") return `${ONLY_PROPERTIES}${members}}}`;
  return members === "" ? `~{"q":[${gone}]}` : `${ONLY_PROPERTIES}${members}},"q":[${gone}]}`;
}

function tell(
  { e, f, p, q, w }: { [Part in keyof TextChange]: TextChange[Part] | undefined },
  propertiesText: string,
): string {
  const change = {
    ...(hasKeys(e) && { e }),
    ...(f !== undefined && f.length > 0 && { f }),
    ...(hasKeys(p) && { p }),
    ...(q !== undefined && q.length > 0 && { q }),
    ...(w !== undefined && { w }),
  };
  return hasKeys(change) ? `~${JSON.stringify(change)}\n${propertiesText}` : "=";
}

/** How all fields of an event beside its properties differ from those in its line. */
function headChange(line: string, head: JsonObject): TextChange {
  const { properties: _, ...before } = JSON.parse(line) as JsonObject;
  const e = Object.fromEntries(
    Object.entries(head).filter(
      ([key, value]) =>
        !Object.hasOwn(before, key) || JSON.stringify(before[key]) !== JSON.stringify(value),
    ),
  );
  return { e, f: Object.keys(before).filter((key) => !Object.hasOwn(head, key)) };
}

/** The text that the same value has when it is written anew. */
function canonical(text: string): string {
  return JSON.stringify(JSON.parse(text) as Json);
}

/** An event whose shape is known, as its text. */
class TextObject {
  readonly #line: string;
  readonly #scanned: ScannedLines;
  readonly #place: number;

  constructor(line: string, scanned: ScannedLines, index: number) {
    this.#line = line;
    this.#scanned = scanned;
    this.#place = scanned.numbers[index] ?? 0;
  }

  /** Its properties, where their shape is known as well. */
  get properties(): TextProperties | null {
    const { numbers, shapes } = this.#scanned;
    const shape = shapes.shapeOf(numbers[this.#place + HEAD.shape]);
    const inner = shapes.shapeOf(numbers[this.#place + HEAD.innerShape]);
    const slot = shape?.slots.get("properties");
    if (shape === null || inner === null || slot === undefined) return null;
    const places = this.#place + HEAD.length;
    const start = beginningOf(numbers[places + 2 * slot] as number);
    return new TextProperties(this.#line, numbers, places + 2 * shape.keys.length, start, inner);
  }
}

class TextProperties {
  readonly #line: string;
  readonly #numbers: Uint32Array;
  readonly #places: number;
  readonly #start: number;
  readonly #shape: Shape;

  constructor(line: string, numbers: Uint32Array, places: number, start: number, shape: Shape) {
    this.#line = line;
    this.#numbers = numbers;
    this.#places = places;
    this.#start = start;
    this.#shape = shape;
  }

  get text(): string {
    const { keys } = this.#shape;
    const end = keys.length === 0 ? this.#start + 1 : this.#endOf(keys.length - 1);
    return this.#line.slice(this.#start, end + 1);
  }

  /** Whether some properties come behind its own: nearly always all that a transformation does. */
  lacks(set: JsonObject): boolean {
    const { slots } = this.#shape;
    for (const key in set) if (slots.has(key) || FIXED.includes(key)) return false;
    return true;
  }

  has(key: string): boolean {
    return this.#shape.slots.has(key);
  }

  #startOf(slot: number): number {
    return beginningOf(this.#numbers[this.#places + 2 * slot] as number);
  }

  #endOf(slot: number): number {
    return this.#numbers[this.#places + 2 * slot + 1] as number;
  }

  /** Where the key of a slot begins. */
  #beginOf(slot: number): number {
    return this.#startOf(slot) - (this.#shape.lengths[slot] as number);
  }

  /** Those of some values that differ from its own. */
  changed(set: JsonObject): JsonObject {
    return Object.fromEntries(
      Object.entries(set).filter(
        ([key, value]) => !FIXED.includes(key) && this.differs(key, JSON.stringify(value)),
      ),
    );
  }

  /** Whether a value, given as JSON, differs from its own. */
  differs(key: string, text: string): boolean {
    const slot = this.#shape.slots.get(key);
    if (slot === undefined) return true;
    const before = this.#line.slice(this.#startOf(slot), this.#endOf(slot));
    return text !== before && text !== canonical(before);
  }

  /** Its text with some values set, which are given as JSON, and some left out. */
  with(set: Readonly<Record<string, string>>, gone: readonly string[]): string {
    const { slots, keys, lengths } = this.#shape;
    const touched: number[] = [];
    const note = (key: string) => {
      const slot = slots.get(key);
      if (slot !== undefined) touched.push(slot);
    };
    for (const key in set) note(key);
    for (const key of gone) note(key);
    for (const key of SAID) note(key);
    touched.sort((one, other) => one - other);
    const pieces: string[] = [];
    /** The first slot that has not been taken. */
    let next = 0;
    const take = (slot: number) => {
      if (slot > next) pieces.push(this.#line.slice(this.#beginOf(next), this.#endOf(slot - 1)));
      next = slot + 1;
    };
    for (const slot of touched) {
      take(slot);
      const key = keys[slot] as string;
      if (!Object.hasOwn(set, key)) continue;
      const from = this.#beginOf(slot);
      const literal = this.#line.slice(from, from + (lengths[slot] as number));
      pieces.push(`${literal}${set[key]}`);
    }
    take(keys.length);
    for (const key in set) {
      if (!slots.has(key)) pieces.push(`${JSON.stringify(key)}:${set[key]}`);
    }
    return `{${pieces.join(",")}}`;
  }
}

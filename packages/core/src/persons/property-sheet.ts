import { encodeJson } from "../exact-json.ts";
import type { Json, JsonObject } from "../json.ts";
import {
  type AutomaticName,
  type AutomaticProperties,
  NOTHING_AUTOMATIC,
} from "./automatic-properties.ts";

/** What an event asks to be done with properties; applied in this order: once, set, unset. */
export interface PropertyChanges {
  /** Set before the others, under both of their names; what is asked for by name counts instead. */
  readonly automatic?: AutomaticProperties;
  readonly setOnce: ReadonlyMap<string, Json>;
  readonly set: ReadonlyMap<string, Json>;
  readonly unset: readonly string[];
}

/** When each property got its value, in milliseconds since the epoch; every name is in one of the two. */
export interface PropertyTimes {
  /** Names last set or removed; a name without a value was removed then. */
  readonly set: Readonly<Record<string, number>>;
  /** Names whose value comes from `$set_once`. */
  readonly setOnce: Readonly<Record<string, number>>;
}

/** False where applying changes makes no difference to anything. */
export function asksForAnything({ automatic, set, setOnce, unset }: PropertyChanges): boolean {
  return set.size > 0 || setOnce.size > 0 || unset.length > 0 || (automatic?.names.length ?? 0) > 0;
}

/** Properties as they are stored. */
export interface PropertyState {
  readonly properties: JsonObject;
  readonly times: PropertyTimes;
}

/** Longest JSON text of one person's or group's properties; what would make it longer is refused. */
export const MAX_PROPERTIES_LENGTH = 640 * 1024;
/** How many removed properties are remembered, so that older values arriving late stay out. */
export const MAX_REMEMBERED_REMOVALS = 1000;

/**
 * The properties of a person or group while events are applied. The order that counts is that of
 * the events' own times, whatever order they arrive in: a later `$set` or `$unset` beats an earlier
 * one, `$set` beats `$set_once`, the earliest `$set_once` beats later ones. Equal times fall back on
 * the order of application.
 */
export class PropertySheet {
  /**
   * Present properties in the order they came, and removed ones that are remembered. One entry for
   * each, changed in place: events change dozens, mostly their times alone.
   */
  #entries = new Map<string, Entry>();
  #removals = 0;
  /** Length of the JSON text of the values without its opening brace. */
  #length = 0;
  /** JSON text of the values, until one of them changes: events change mostly times. */
  #text: string | undefined;

  /** `textLength`, where known, is the length of the properties' JSON text; it saves counting. */
  constructor({ properties, times }: PropertyState = EMPTY, textLength?: number) {
    for (const [name, value] of Object.entries(properties)) {
      this.#entries.set(name, { value, source: "unknown", atMs: Number.MIN_SAFE_INTEGER });
    }
    if (textLength !== undefined && this.#entries.size > 0) this.#length = textLength - 1;
    else
      for (const [name, { value }] of present(this.#entries)) this.#length += lengthOf(name, value);
    for (const [name, atMs] of Object.entries(times.set)) {
      const entry = this.#entries.get(name);
      if (entry) date(entry, "set", atMs);
      else this.#rememberRemoval(name, atMs);
    }
    for (const [name, atMs] of Object.entries(times.setOnce)) {
      const entry = this.#entries.get(name);
      if (entry?.source === "unknown") date(entry, "setOnce", atMs);
    }
  }

  get state(): PropertyState {
    const properties: [string, Json][] = [];
    const set: [string, number][] = [];
    const setOnce: [string, number][] = [];
    const removed: [string, number][] = [];
    for (const [name, { value, source, atMs }] of this.#entries) {
      if (value === undefined) removed.push([name, atMs]);
      else {
        properties.push([name, value]);
        if (source === "set") set.push([name, atMs]);
        else if (source === "setOnce") setOnce.push([name, atMs]);
      }
    }
    return {
      properties: Object.fromEntries(properties),
      times: {
        set: Object.fromEntries([...set, ...removed]),
        setOnce: Object.fromEntries(setOnce),
      },
    };
  }

  /** Length of the properties' JSON text. */
  get textLength(): number {
    return this.#length + 1;
  }

  /** JSON text of the properties, as `state` has them. */
  get propertiesText(): string {
    this.#text ??= this.#writeText();
    return this.#text;
  }

  #writeText(): string {
    let text = "";
    for (const [name, { value }] of this.#entries) {
      if (value === undefined) continue;
      text += `${text === "" ? "{" : ","}${nameText(name)}${valueText(value)}`;
    }
    return text === "" ? "{}" : `${text}}`;
  }

  /** JSON text of the times, as `state` has them. */
  get timesText(): string {
    let set = "";
    let setOnce = "";
    let removed = "";
    // Neighbours mostly share their time: few numbers become text.
    let lastMs: number | undefined;
    let lastText = "";
    for (const [name, { value, source, atMs }] of this.#entries) {
      if (source === "unknown") continue;
      if (atMs !== lastMs) {
        lastMs = atMs;
        lastText = String(atMs);
      }
      const member = `,${nameText(name)}${lastText}`;
      if (value === undefined) removed += member;
      else if (source === "set") set += member;
      else setOnce += member;
    }
    return `{"set":{${(set + removed).slice(1)}},"setOnce":{${setOnce.slice(1)}}}`;
  }

  /**
   * Applies one event's changes. `"too-long"`: the properties would exceed
   * {@link MAX_PROPERTIES_LENGTH}; nothing of the event is applied then.
   */
  apply(changes: PropertyChanges, atMs: number): "changed" | "unchanged" | "too-long" {
    if (this.#length + growthOf(changes) >= MAX_PROPERTIES_LENGTH) {
      const trial = this.#copy();
      const outcome = trial.#applyAll(changes, atMs);
      if (trial.#length >= Math.max(MAX_PROPERTIES_LENGTH, this.#length + 1)) return "too-long";
      this.#entries = trial.#entries;
      this.#removals = trial.#removals;
      this.#length = trial.#length;
      this.#text = trial.#text;
      return outcome;
    }
    return this.#applyAll(changes, atMs);
  }

  /**
   * Takes over what `other` has and this one lacks: of two values this one's stays
   * (posthog-api 9.10). `"too-long"` when some of it had to be left behind.
   */
  absorb(other: PropertySheet): "changed" | "unchanged" | "too-long" {
    let changed = false;
    let leftBehind = false;
    for (const [name, { value, source, atMs }] of present(other.#entries)) {
      const own = this.#entries.get(name);
      if (own && (own.value !== undefined || atMs <= own.atMs)) continue;
      if (this.#length + lengthOf(name, value) >= MAX_PROPERTIES_LENGTH) {
        leftBehind = true;
        continue;
      }
      this.#add(name, { value, source: source === "set" ? "set" : "setOnce", atMs });
      changed = true;
    }
    for (const [name, { value, atMs }] of other.#entries) {
      if (value !== undefined) continue;
      const own = this.#entries.get(name);
      if (own && (own.value !== undefined || own.atMs >= atMs)) continue;
      this.#rememberRemoval(name, atMs);
      changed = true;
    }
    if (leftBehind) return "too-long";
    return changed ? "changed" : "unchanged";
  }

  #applyAll(changes: PropertyChanges, atMs: number): "changed" | "unchanged" {
    const { automatic = NOTHING_AUTOMATIC, set, setOnce, unset } = changes;
    const { names, values } = automatic;
    let changed = false;
    for (let at = 0; at < names.length; at++) {
      const { initial } = names[at] as AutomaticName;
      const named = setOnce.size > 0 ? setOnce.get(initial) : undefined;
      // `null` is asked for as well.
      const value = named === undefined ? (values[at] as Json) : named;
      if (this.#setOnce(initial, value, atMs)) changed = true;
    }
    if (setOnce.size > 0) {
      for (const [name, value] of setOnce) if (this.#setOnce(name, value, atMs)) changed = true;
    }
    for (let at = 0; at < names.length; at++) {
      const { name } = names[at] as AutomaticName;
      const named = set.size > 0 ? set.get(name) : undefined;
      const value = named === undefined ? (values[at] as Json) : named;
      if (this.#set(name, value, atMs)) changed = true;
    }
    if (set.size > 0) {
      for (const [name, value] of set) if (this.#set(name, value, atMs)) changed = true;
    }
    for (const name of unset) {
      if (this.#unset(name, atMs)) changed = true;
    }
    return changed ? "changed" : "unchanged";
  }

  #setOnce(name: string, value: Json, atMs: number): boolean {
    const entry = this.#entries.get(name);
    if (!entry) {
      this.#add(name, { value, source: "setOnce", atMs });
      return true;
    }
    if (entry.value === undefined) {
      if (atMs < entry.atMs) return false;
      this.#add(name, { value, source: "setOnce", atMs });
      return true;
    }
    if (entry.source !== "setOnce" || atMs >= entry.atMs) return false;
    this.#replace(name, entry, value);
    entry.atMs = atMs;
    return true;
  }

  #set(name: string, value: Json, atMs: number): boolean {
    const entry = this.#entries.get(name);
    if (!entry) {
      this.#add(name, { value, source: "set", atMs });
      return true;
    }
    if (entry.source === "set") {
      if (atMs < entry.atMs) return false;
      if (entry.value === undefined) {
        this.#add(name, { value, source: "set", atMs });
        return true;
      }
      if (atMs === entry.atMs && isSame(entry.value, value)) return false;
    }
    this.#replace(name, entry, value);
    date(entry, "set", atMs);
    return true;
  }

  #unset(name: string, atMs: number): boolean {
    const entry = this.#entries.get(name);
    if (entry) {
      if (atMs < entry.atMs) return false;
      if (entry.value === undefined && atMs === entry.atMs) return false;
      if (entry.value !== undefined) {
        this.#text = undefined;
        this.#length -= lengthOf(name, entry.value);
        this.#entries.delete(name);
      }
    }
    this.#rememberRemoval(name, atMs);
    return true;
  }

  /** Adds a property that is absent, behind the others. */
  #add(name: string, entry: Entry & { value: Json }): void {
    this.#text = undefined;
    this.#length += lengthOf(name, entry.value);
    if (this.#entries.delete(name)) this.#removals--;
    this.#entries.set(name, entry);
  }

  /** Gives a property that is present another value. */
  #replace(name: string, entry: Entry, value: Json): void {
    if (entry.value === undefined || isSame(entry.value, value)) return;
    this.#text = undefined;
    this.#length += lengthOf(name, value) - lengthOf(name, entry.value);
    entry.value = value;
  }

  /** Notes the time at which an absent property was removed. */
  #rememberRemoval(name: string, atMs: number): void {
    const known = this.#entries.get(name);
    if (known) known.atMs = atMs;
    else {
      this.#removals++;
      this.#entries.set(name, { value: undefined, source: "set", atMs });
    }
    if (this.#removals <= MAX_REMEMBERED_REMOVALS) return;
    let earliest: string | undefined;
    let earliestMs = Number.POSITIVE_INFINITY;
    for (const [removed, entry] of this.#entries) {
      if (entry.value !== undefined || entry.atMs >= earliestMs) continue;
      earliest = removed;
      earliestMs = entry.atMs;
    }
    if (earliest === undefined) return;
    this.#entries.delete(earliest);
    this.#removals--;
  }

  #copy(): PropertySheet {
    const copy = new PropertySheet();
    for (const [name, entry] of this.#entries) copy.#entries.set(name, { ...entry });
    copy.#removals = this.#removals;
    copy.#length = this.#length;
    return copy;
  }
}

/** A property, or what is remembered of one that was removed. */
interface Entry {
  /** Absent where it was removed. */
  value: Json | undefined;
  /** What gave it its value, or removed it (which counts as `set`); unknown where nothing was noted. */
  source: "set" | "setOnce" | "unknown";
  /** When, in milliseconds since the epoch. */
  atMs: number;
}

function date(entry: Entry, source: Entry["source"], atMs: number): void {
  entry.source = source;
  entry.atMs = atMs;
}

/** The entries that have a value. */
function* present(entries: ReadonlyMap<string, Entry>) {
  for (const one of entries)
    if (one[1].value !== undefined) yield one as [string, Entry & { value: Json }];
}

const EMPTY: PropertyState = { properties: {}, times: { set: {}, setOnce: {} } };

/** Names that are their own JSON text: nearly all. */
const PLAIN_NAME = /^[ !#-[\]-~]*$/;

/** A name and the colon behind it as JSON text. */
function nameText(name: string): string {
  return PLAIN_NAME.test(name) ? `"${name}":` : `${JSON.stringify(name)}:`;
}

function valueText(value: Json): string {
  return typeof value === "string" ? JSON.stringify(value) : encodeJson(value);
}

/** Scalars only: whether objects are the same does not pay to find out. */
function isSame(a: Json | undefined, b: Json): boolean {
  return a === b && (b === null || typeof b !== "object");
}

/** What a property adds to the JSON text: name, colon, value and comma. */
function lengthOf(name: string, value: Json): number {
  return JSON.stringify(name).length + encodeJson(value).length + 2;
}

/** An upper bound of what the changes may add to the JSON text. */
function growthOf({ automatic = NOTHING_AUTOMATIC, setOnce, set }: PropertyChanges): number {
  const { names, values } = automatic;
  let growth = 0;
  for (let at = 0; at < names.length; at++) {
    const { name, initial } = names[at] as AutomaticName;
    growth += boundOf(name) + boundOf(initial) + 2 * boundOf(values[at] as Json);
  }
  if (setOnce.size > 0) {
    for (const [name, value] of setOnce) growth += boundOf(name) + boundOf(value);
  }
  if (set.size > 0) {
    for (const [name, value] of set) growth += boundOf(name) + boundOf(value);
  }
  return growth;
}

/** At most this long as JSON; escapes make a character six long at worst. */
function boundOf(value: Json): number {
  if (typeof value === "string") return value.length * 6 + 4;
  if (typeof value === "object" && value !== null) return encodeJson(value).length + 4;
  return typeof value === "bigint" ? value.toString().length + 1 : 30;
}

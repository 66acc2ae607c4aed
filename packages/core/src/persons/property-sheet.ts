import { encodeJson } from "../exact-json.ts";
import type { Json, JsonObject } from "../json.ts";

/** What an event asks to be done with properties; applied in this order: once, set, unset. */
export interface PropertyChanges {
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
  #values: Map<string, Json>;
  #setAt: Map<string, number>;
  #setOnceAt: Map<string, number>;
  #removals: number;
  /** Length of the JSON text of the values without its opening brace. */
  #length: number;

  /** `textLength`, where known, is the length of the properties' JSON text; it saves counting. */
  constructor({ properties, times }: PropertyState = EMPTY, textLength?: number) {
    this.#values = new Map(Object.entries(properties));
    this.#setAt = new Map(Object.entries(times.set));
    this.#setOnceAt = new Map(Object.entries(times.setOnce));
    this.#removals = 0;
    for (const name of this.#setAt.keys()) if (!this.#values.has(name)) this.#removals++;
    this.#length = 0;
    if (textLength !== undefined && this.#values.size > 0) {
      this.#length = textLength - 1;
      return;
    }
    for (const [name, value] of this.#values) this.#length += lengthOf(name, value);
  }

  get state(): PropertyState {
    return {
      properties: Object.fromEntries(this.#values),
      times: {
        set: Object.fromEntries(this.#setAt),
        setOnce: Object.fromEntries(this.#setOnceAt),
      },
    };
  }

  /** Length of the properties' JSON text. */
  get textLength(): number {
    return this.#length + 1;
  }

  /** JSON text of the properties, as `state` has them. */
  get propertiesText(): string {
    let text = "";
    for (const [name, value] of this.#values) {
      text += `${text === "" ? "{" : ","}${nameText(name)}${valueText(value)}`;
    }
    return text === "" ? "{}" : `${text}}`;
  }

  /** JSON text of the times, as `state` has them. */
  get timesText(): string {
    return `{"set":${timesText(this.#setAt)},"setOnce":${timesText(this.#setOnceAt)}}`;
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
      this.#values = trial.#values;
      this.#setAt = trial.#setAt;
      this.#setOnceAt = trial.#setOnceAt;
      this.#removals = trial.#removals;
      this.#length = trial.#length;
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
    for (const [name, value] of other.#values) {
      if (this.#values.has(name)) continue;
      const setAt = other.#setAt.get(name);
      const at = setAt ?? other.#setOnceAt.get(name) ?? Number.MIN_SAFE_INTEGER;
      const removedAt = this.#setAt.get(name);
      if (removedAt !== undefined && at <= removedAt) continue;
      if (this.#length + lengthOf(name, value) >= MAX_PROPERTIES_LENGTH) {
        leftBehind = true;
        continue;
      }
      this.#put(name, value);
      if (setAt === undefined) {
        this.#setAt.delete(name);
        this.#setOnceAt.set(name, at);
      } else this.#setAt.set(name, setAt);
      changed = true;
    }
    for (const [name, at] of other.#setAt) {
      if (other.#values.has(name) || this.#values.has(name)) continue;
      const removedAt = this.#setAt.get(name);
      if (removedAt !== undefined && removedAt >= at) continue;
      this.#rememberRemoval(name, at);
      changed = true;
    }
    if (leftBehind) return "too-long";
    return changed ? "changed" : "unchanged";
  }

  #applyAll(changes: PropertyChanges, atMs: number): "changed" | "unchanged" {
    let changed = false;
    for (const [name, value] of changes.setOnce) {
      if (this.#setOnce(name, value, atMs)) changed = true;
    }
    for (const [name, value] of changes.set) {
      if (this.#set(name, value, atMs)) changed = true;
    }
    for (const name of changes.unset) {
      if (this.#unset(name, atMs)) changed = true;
    }
    return changed ? "changed" : "unchanged";
  }

  #setOnce(name: string, value: Json, atMs: number): boolean {
    const setAt = this.#setAt.get(name);
    if (setAt !== undefined && (this.#values.has(name) || atMs < setAt)) return false;
    const onceAt = this.#setOnceAt.get(name);
    if (onceAt === undefined ? this.#values.has(name) : atMs >= onceAt) return false;
    this.#put(name, value);
    this.#setAt.delete(name);
    this.#setOnceAt.set(name, atMs);
    return true;
  }

  #set(name: string, value: Json, atMs: number): boolean {
    const setAt = this.#setAt.get(name);
    if (setAt !== undefined && atMs < setAt) return false;
    if (setAt === atMs && this.#values.has(name) && isSame(this.#values.get(name), value)) {
      return false;
    }
    this.#put(name, value);
    this.#setOnceAt.delete(name);
    this.#setAt.set(name, atMs);
    return true;
  }

  #unset(name: string, atMs: number): boolean {
    const setAt = this.#setAt.get(name);
    if (setAt !== undefined && atMs < setAt) return false;
    if (setAt === atMs && !this.#values.has(name)) return false;
    const onceAt = this.#setOnceAt.get(name);
    if (onceAt !== undefined && atMs < onceAt) return false;
    const value = this.#values.get(name);
    if (value !== undefined) {
      this.#length -= lengthOf(name, value);
      this.#values.delete(name);
      this.#setOnceAt.delete(name);
      this.#setAt.delete(name);
    }
    this.#rememberRemoval(name, atMs);
    return true;
  }

  #put(name: string, value: Json): void {
    const before = this.#values.get(name);
    if (before === undefined) {
      this.#length += lengthOf(name, value);
      if (this.#setAt.has(name)) this.#removals--;
    } else if (!isSame(before, value)) {
      this.#length += lengthOf(name, value) - lengthOf(name, before);
    }
    this.#values.set(name, value);
  }

  /** Notes the time at which an absent property was removed. */
  #rememberRemoval(name: string, atMs: number): void {
    if (!this.#setAt.has(name)) this.#removals++;
    this.#setAt.set(name, atMs);
    if (this.#removals <= MAX_REMEMBERED_REMOVALS) return;
    let earliest: string | undefined;
    let earliestAt = Number.POSITIVE_INFINITY;
    for (const [removed, at] of this.#setAt) {
      if (at >= earliestAt || this.#values.has(removed)) continue;
      earliest = removed;
      earliestAt = at;
    }
    if (earliest === undefined) return;
    this.#setAt.delete(earliest);
    this.#removals--;
  }

  #copy(): PropertySheet {
    const copy = new PropertySheet();
    copy.#values = new Map(this.#values);
    copy.#setAt = new Map(this.#setAt);
    copy.#setOnceAt = new Map(this.#setOnceAt);
    copy.#removals = this.#removals;
    copy.#length = this.#length;
    return copy;
  }
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

/** JSON text of times by name. Neighbours mostly share theirs, so that a few numbers become text. */
function timesText(times: ReadonlyMap<string, number>): string {
  let text = "";
  let lastMs: number | undefined;
  let lastText = "";
  for (const [name, ms] of times) {
    if (ms !== lastMs) {
      lastMs = ms;
      lastText = String(ms);
    }
    text += `${text === "" ? "{" : ","}${nameText(name)}${lastText}`;
  }
  return text === "" ? "{}" : `${text}}`;
}

/** Scalars only: whether objects are the same does not pay to find out. */
function isSame(a: Json | undefined, b: Json): boolean {
  return a === b && typeof b !== "object";
}

/** What a property adds to the JSON text: name, colon, value and comma. */
function lengthOf(name: string, value: Json): number {
  return JSON.stringify(name).length + encodeJson(value).length + 2;
}

/** An upper bound of what the changes may add to the JSON text. */
function growthOf({ setOnce, set }: PropertyChanges): number {
  let growth = 0;
  for (const [name, value] of setOnce) growth += boundOf(name) + boundOf(value);
  for (const [name, value] of set) growth += boundOf(name) + boundOf(value);
  return growth;
}

/** At most this long as JSON; escapes make a character six long at worst. */
function boundOf(value: Json): number {
  if (typeof value === "string") return value.length * 6 + 4;
  if (typeof value === "object" && value !== null) return encodeJson(value).length + 4;
  return typeof value === "bigint" ? value.toString().length + 1 : 30;
}

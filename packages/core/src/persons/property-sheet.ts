import { encodeJson } from "../exact-json.ts";
import type { Json, JsonObject } from "../json.ts";
import { type AutomaticName, NOTHING_AUTOMATIC } from "./automatic-properties.ts";
import { asksForAny, growthOf, type PropertyChanges } from "./property-changes.ts";
import {
  boundOf,
  date,
  type Entry,
  giveValue,
  isSame,
  lengthIn,
  lengthOf,
  newEntry,
  present,
  takeMember,
} from "./property-entry.ts";
import {
  dateByRuns,
  type PropertyTimeRuns,
  type PropertyTimes,
  runsTextOf,
} from "./property-times.ts";

/** Properties and when each got its value. */
export interface PropertyState {
  readonly properties: JsonObject;
  readonly times: PropertyTimes;
}

/** Properties as they are stored, in the present form or in that of earlier versions. */
export interface StoredProperties {
  readonly properties: JsonObject;
  readonly times: PropertyTimes | PropertyTimeRuns;
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
  /** JSON text of the values as last written: each entry knows what of it is its own. */
  #text: string | undefined;
  /** Whether the text says what the entries say. */
  #isWritten = false;
  /** Whether any value changed since `settle`: else nothing did but times. */
  #hasNewValues = false;
  /** Whether any name may be an index, which objects put before all others. */
  #mayHaveIndexes = false;
  /** What the latest event said by itself, and where that is: the next says mostly the same names. */
  #automatic: KnownAutomatic | undefined;

  /** `textLength`, where known, is the length of the properties' JSON text; it saves counting. */
  constructor({ properties, times }: StoredProperties = EMPTY, textLength?: number) {
    for (const [name, value] of Object.entries(properties)) {
      this.#insert(newEntry(name, { value, source: "unknown", atMs: Number.MIN_SAFE_INTEGER }));
    }
    if (textLength !== undefined && this.#entries.size > 0) this.#length = textLength - 1;
    else for (const entry of this.#entries.values()) this.#length += lengthIn(entry);
    if ("runs" in times) this.#readRuns(times);
    else this.#readTimes(times);
  }

  #readRuns({ runs, removed }: PropertyTimeRuns): void {
    dateByRuns(this.#entries.values(), runs);
    for (const [name, atMs] of Object.entries(removed)) this.#rememberRemoval(name, atMs);
  }

  #readTimes(times: PropertyTimes): void {
    for (const [name, atMs] of Object.entries(times.set ?? {})) {
      const entry = this.#entries.get(name);
      if (entry) date(entry, "set", atMs);
      else this.#rememberRemoval(name, atMs);
    }
    for (const [name, atMs] of Object.entries(times.setOnce ?? {})) {
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

  /** Whether any value came, changed or went since `settle`, not just when it was said. */
  get hasNewValues(): boolean {
    return this.#hasNewValues;
  }

  /** The sheet as it is now is stored. */
  settle(): void {
    this.#hasNewValues = false;
  }

  /** JSON text of the properties, as `state` has them. */
  get propertiesText(): string {
    if (this.#text !== undefined && this.#isWritten) return this.#text;
    const text = this.#text === undefined ? this.#writeText() : this.#amendText(this.#text);
    this.#text = text;
    this.#isWritten = true;
    return text;
  }

  #writeText(): string {
    let text = "";
    for (const entry of this.#entries.values()) {
      if (entry.value === undefined) continue;
      text += (text === "" ? "{" : ",") + takeMember(entry);
    }
    return text === "" ? "{}" : `${text}}`;
  }

  /** The text as it was with the members that changed since: most stay, and are not written again. */
  #amendText(old: string): string {
    let text = "";
    let takenUpTo = 0;
    let at = 1;
    for (const entry of this.#entries.values()) {
      if (entry.value === undefined) continue;
      const { written } = entry;
      if (entry.member === undefined && written > 0) at += written + 1;
      else if (written > 0) {
        text += old.slice(takenUpTo, at) + takeMember(entry);
        takenUpTo = at + written;
        at = takenUpTo + 1;
      } else {
        // New ones are behind all others.
        text += old.slice(takenUpTo, -1);
        takenUpTo = old.length - 1;
        text += (text.length > 1 ? "," : "") + takeMember(entry);
      }
    }
    return text + old.slice(takenUpTo);
  }

  /** JSON text of the times: {@link PropertyTimeRuns} where that can be, else {@link PropertyTimes}. */
  get timesText(): string {
    return this.#mayHaveIndexes ? encodeJson(this.state.times) : runsTextOf(this.#entries.values());
  }

  /**
   * Applies one event's changes. `"too-long"`: the properties would exceed
   * {@link MAX_PROPERTIES_LENGTH}; nothing of the event is applied then.
   */
  apply(changes: PropertyChanges, atMs: number): "changed" | "unchanged" | "too-long" {
    const known = this.#applyKnown(changes, atMs);
    if (known !== undefined) return known;
    if (this.#length + growthOf(changes) >= MAX_PROPERTIES_LENGTH) {
      const trial = this.#copy();
      const outcome = trial.#applyAll(changes, atMs);
      if (trial.#length >= Math.max(MAX_PROPERTIES_LENGTH, this.#length + 1)) return "too-long";
      this.#entries = trial.#entries;
      this.#removals = trial.#removals;
      this.#length = trial.#length;
      this.#mayHaveIndexes = trial.#mayHaveIndexes;
      this.#rewrite();
      return outcome;
    }
    const outcome = this.#applyAll(changes, atMs);
    this.#learnAutomatic(changes);
    return outcome;
  }

  /**
   * The short way for an event that says the same names by itself as the one before, of which the
   * first values are there already, and asks for none of them by name. `undefined`: it must go the
   * long way.
   */
  #applyKnown(changes: PropertyChanges, atMs: number): "changed" | "unchanged" | undefined {
    const known = this.#automatic;
    if (known?.entries === undefined || atMs < known.initialUntilMs) return undefined;
    const { names, values } = changes.automatic ?? NOTHING_AUTOMATIC;
    if (!isSameList(names, known.names)) return undefined;
    const { set, setOnce, unset } = changes;
    const asksByName = set.size > 0 || setOnce.size > 0 || unset.length > 0;
    if (asksByName && asksForAny(names, changes)) return undefined;
    const { entries } = known;
    let growth = asksByName ? growthOf({ set, setOnce, unset }) : 0;
    let isChanged = false;
    for (let at = 0; at < values.length; at++) {
      const entry = entries[at] as Entry;
      if (atMs < entry.atMs) continue;
      const value = values[at] as Json;
      if (!isSame(entry.value, value)) growth += boundOf(value);
      else if (atMs === entry.atMs) continue;
      isChanged = true;
    }
    if (growth > 0 && this.#length + growth >= MAX_PROPERTIES_LENGTH) return undefined;
    if (isChanged) {
      for (let at = 0; at < values.length; at++) {
        this.#setPresent(entries[at] as Entry, values[at] as Json, atMs);
      }
    }
    // Nothing of these comes between the first values, which stay, and the latest: those are set.
    if (asksByName) {
      if (this.#applySetOnce(setOnce, atMs)) isChanged = true;
      if (this.#applySetAndUnset(set, unset, atMs)) isChanged = true;
    }
    return isChanged ? "changed" : "unchanged";
  }

  /** Notes the names that an event said by itself, and at the second time where they are. */
  #learnAutomatic({ automatic = NOTHING_AUTOMATIC }: PropertyChanges): void {
    const { names } = automatic;
    if (names.length === 0) return;
    if (!this.#automatic || !isSameList(names, this.#automatic.names)) {
      this.#automatic = { names, entries: undefined, initialUntilMs: 0 };
      return;
    }
    let initialUntilMs = Number.NEGATIVE_INFINITY;
    const entries: Entry[] = [];
    for (const { name, initial } of names) {
      const first = this.#entries.get(initial);
      const latest = this.#entries.get(name);
      if (first?.value === undefined || latest?.value === undefined) return;
      if (latest.source !== "set") return;
      if (first.source === "setOnce") initialUntilMs = Math.max(initialUntilMs, first.atMs);
      entries.push(latest);
    }
    this.#automatic = { names, entries, initialUntilMs };
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
      this.#add(newEntry(name, { value, source: source === "set" ? "set" : "setOnce", atMs }));
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
    if (this.#applySetOnce(setOnce, atMs)) changed = true;
    for (let at = 0; at < names.length; at++) {
      const { name } = names[at] as AutomaticName;
      const named = set.size > 0 ? set.get(name) : undefined;
      const value = named === undefined ? (values[at] as Json) : named;
      if (this.#set(name, value, atMs)) changed = true;
    }
    if (this.#applySetAndUnset(set, unset, atMs)) changed = true;
    return changed ? "changed" : "unchanged";
  }

  #applySetOnce(setOnce: PropertyChanges["setOnce"], atMs: number): boolean {
    if (setOnce.size === 0) return false;
    let changed = false;
    for (const [name, value] of setOnce) if (this.#setOnce(name, value, atMs)) changed = true;
    return changed;
  }

  #applySetAndUnset(
    set: PropertyChanges["set"],
    unset: PropertyChanges["unset"],
    atMs: number,
  ): boolean {
    let changed = false;
    if (set.size > 0) {
      for (const [name, value] of set) if (this.#set(name, value, atMs)) changed = true;
    }
    for (const name of unset) if (this.#unset(name, atMs)) changed = true;
    return changed;
  }

  #setOnce(name: string, value: Json, atMs: number): boolean {
    const entry = this.#entries.get(name);
    if (entry?.value === undefined) {
      if (entry && atMs < entry.atMs) return false;
      this.#add(newEntry(name, { value, source: "setOnce", atMs }));
      return true;
    }
    if (entry.source !== "setOnce" || atMs >= entry.atMs) return false;
    this.#replace(entry, value);
    entry.atMs = atMs;
    return true;
  }

  #set(name: string, value: Json, atMs: number): boolean {
    const entry = this.#entries.get(name);
    if (entry?.value === undefined) {
      if (entry && atMs < entry.atMs) return false;
      this.#add(newEntry(name, { value, source: "set", atMs }));
      return true;
    }
    return this.#setPresent(entry, value, atMs);
  }

  #setPresent(entry: Entry, value: Json, atMs: number): boolean {
    if (entry.source === "set") {
      if (atMs < entry.atMs) return false;
      if (atMs === entry.atMs && isSame(entry.value, value)) return false;
    }
    this.#replace(entry, value);
    date(entry, "set", atMs);
    return true;
  }

  #unset(name: string, atMs: number): boolean {
    const entry = this.#entries.get(name);
    if (entry) {
      if (atMs < entry.atMs) return false;
      if (entry.value === undefined && atMs === entry.atMs) return false;
      if (entry.value !== undefined) {
        this.#length -= lengthIn(entry);
        this.#entries.delete(name);
        this.#rewrite();
      }
    }
    this.#rememberRemoval(name, atMs);
    return true;
  }

  /** Adds a property that is absent, behind the others. */
  #add(entry: Entry): void {
    if (this.#entries.delete(entry.name)) this.#removals--;
    this.#insert(entry);
    this.#length += lengthIn(entry);
    this.#isWritten = false;
    this.#hasNewValues = true;
  }

  #insert(entry: Entry): void {
    this.#entries.set(entry.name, entry);
    if (FIRST_OF_INDEX.test(entry.name)) this.#mayHaveIndexes = true;
  }

  /** Gives a property that is present another value. */
  #replace(entry: Entry, value: Json): void {
    if (isSame(entry.value, value)) return;
    this.#length += giveValue(entry, value);
    this.#isWritten = false;
    this.#hasNewValues = true;
  }

  /** Something of the text is gone, or not where it was: it has to be written anew. */
  #rewrite(): void {
    this.#text = undefined;
    this.#automatic = undefined;
    this.#hasNewValues = true;
  }

  /** Notes the time at which an absent property was removed. */
  #rememberRemoval(name: string, atMs: number): void {
    const known = this.#entries.get(name);
    if (known) known.atMs = atMs;
    else {
      this.#removals++;
      this.#insert(newEntry(name, { value: undefined, source: "set", atMs }));
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
    copy.#mayHaveIndexes = this.#mayHaveIndexes;
    return copy;
  }
}

/** Names that an event said by itself. */
interface KnownAutomatic {
  readonly names: readonly AutomaticName[];
  /** Where their latest values are, all of them present and set; `undefined` until that pays. */
  readonly entries: readonly Entry[] | undefined;
  /** Events from this time on leave the first values alone. */
  readonly initialUntilMs: number;
}

function isSameList(some: readonly unknown[], others: readonly unknown[]): boolean {
  if (some === others) return true;
  if (some.length !== others.length) return false;
  for (let at = 0; at < some.length; at++) if (some[at] !== others[at]) return false;
  return true;
}

const EMPTY: PropertyState = { properties: {}, times: { set: {}, setOnce: {} } };

/** What array indexes begin with. */
const FIRST_OF_INDEX = /^[0-9]/;

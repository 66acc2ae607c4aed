/**
 * Objects of which only the JSON text is known: a value is read when it is asked for. Whoever does
 * more than to read, set, look for or delete single keys makes a plain object of the whole, which it
 * stays. To code they look and behave like the plain object that the text stands for.
 *
 * All of this runs for every event in an engine without a compiler, where a call costs as much as
 * reading a short text: hence arrays in the place of objects and maps, and loops written out.
 */

import { SET, SET_ALIKE } from "../told-sets.ts";
import { beginningOf, PLAIN_TEXT } from "../value-places.ts";
import {
  defineProperty,
  deleteProperty,
  getOwnPropertyDescriptor,
  newList,
  ownKeys,
  parse,
  ROOT,
  setPrototypeOf,
  stringify,
} from "./intrinsics.ts";

/** The keys of an object in their order, and how long each is as it stands in the text, colon included. */
export interface LazyShape {
  readonly keys: readonly string[];
  /**
   * Where the place of each key's value is among those of its object: twice its slot. Without a
   * prototype, and no map: nothing in between can be tampered with.
   */
  readonly places: Readonly<Record<string, number>>;
  readonly lengths: readonly number[];
  /** The place of an event's properties: numbers are compared quicker than keys. */
  readonly innerPlace: number | undefined;
  /** Whether there is a key by which promises, or what writes its JSON itself, are known. */
  readonly isOdd: boolean;
}

/** Keys that make a shape odd. */
const ODD_KEYS = ["then", "toJSON"];

export function lazyShape(keys: readonly string[], lengths: readonly number[]): LazyShape {
  const places = { __proto__: null } as unknown as Record<string, number>;
  for (let slot = 0; slot < keys.length; slot += 1) places[keys[slot] as string] = 2 * slot;
  let isOdd = false;
  for (let at = 0; at < ODD_KEYS.length; at += 1) {
    if (places[ODD_KEYS[at] as string] !== undefined) isOdd = true;
  }
  return { keys, lengths, places, innerPlace: places[INNER], isOdd };
}

/** Where values stand in the texts of a batch; given up with the batch, since it takes much memory. */
export interface BatchPlaces {
  places: Uint32Array | null;
}

/**
 * A lazy object: the handler of a proxy over an empty object, which becomes the plain object when it
 * is settled. An array whose prototype are the traps, and nothing but numbers lead into it: that is
 * made and read quickest.
 */
export type LazyObject = [
  /** The line of its event. */
  line: string,
  batch: BatchPlaces,
  /** Where among the places of the batch its own begin. */
  base: number,
  /** Where it begins in the line: at 0 the event itself, elsewhere its properties. */
  start: number,
  shape: LazyShape,
  /** Its {@link LazyShape.places}. */
  places: Readonly<Record<string, number>>,
  /** The shape of an event's properties, where they are lazy themselves. */
  innerShape: LazyShape | null,
  /** Its proxy, as long as its event is under way. */
  self: Plain | null,
  /** That of an event's properties, once they were asked for, and its proxy, as long as it is there. */
  inner: LazyObject | null,
  innerSelf: Plain | null,
  /**
   * Keys that were set, deleted, or read as objects, which may have been changed inside; each with its
   * value behind it ({@link GONE} where it was deleted). An empty list once it is settled.
   */
  touched: unknown[] | null,
  isSettled: boolean,
];
// By number, since to take an array apart by a pattern calls its iterator.
export const LINE = 0;
const BATCH = 1;
const BASE = 2;
const START = 3;
export const SHAPE = 4;
export const PLACES = 5;
export const INNER_SHAPE = 6;
export const SELF = 7;
export const INNER_OBJECT = 8;
const INNER_SELF = 9;
export const TOUCHED = 10;
export const IS_SETTLED = 11;

export type Plain = Record<PropertyKey, unknown>;

const { get, set, has, preventExtensions } = Reflect;
const ProxyOf = Proxy as unknown as new (target: Plain, handler: LazyObject) => Plain;

/** Stands for a key that was deleted. */
export const GONE = Symbol("gone");
/** The field of an event whose object is lazy itself. */
export const INNER = "properties";
/** Whoever touches more keys than this is likely to touch all; two for each in the list. */
const MAX_TOUCHED = 2 * 16;

class Traps implements ProxyHandler<Plain> {
  get(target: Plain, key: PropertyKey, receiver: unknown): unknown {
    const lazy = this as unknown as LazyObject;
    const touched = lazy[TOUCHED];
    if (touched !== null) {
      for (let at = 0; at < touched.length; at += 2) {
        if (touched[at] !== key) continue;
        const value = touched[at + 1];
        return value === GONE ? get(target, key, receiver) : value;
      }
    }
    const place = lazy[PLACES][key as string];
    if (place === undefined) return get(target, key, receiver);
    const { places } = lazy[BATCH];
    if (place === lazy[SHAPE].innerPlace) {
      if (lazy[INNER_SELF] !== null) return lazy[INNER_SELF];
      if (lazy[INNER_SHAPE] !== null && places !== null) return openInner(lazy, place, places);
    }
    if (places === null) {
      settle(lazy, target);
      return get(target, key, receiver);
    }
    const at = lazy[BASE] + place;
    const start = places[at] as number;
    const end = places[at + 1] as number;
    if (start >= PLAIN_TEXT) return lazy[LINE].substring(start - PLAIN_TEXT, end - 1);
    const value = parse(lazy[LINE].substring(start, end));
    if (typeof value !== "object" || value === null) return value;
    if (note(lazy, key, value)) return value;
    settle(lazy, target);
    return target[key];
  }

  has(target: Plain, key: PropertyKey): boolean {
    return isOwn(this as unknown as LazyObject, key) || has(target, key);
  }

  set(target: Plain, key: PropertyKey, value: unknown, receiver: unknown): boolean {
    const lazy = this as unknown as LazyObject;
    if (receiver === lazy[SELF] && typeof key === "string" && value !== undefined) {
      const touched = lazy[TOUCHED];
      if (touched !== null) {
        for (let at = 0; at < touched.length; at += 2) {
          if (touched[at] !== key) continue;
          if (touched[at + 1] !== GONE) {
            touched[at + 1] = value;
            return true;
          }
          // What was deleted comes back at the end.
          settle(lazy, target);
          return set(target, key, value, receiver);
        }
      }
      if (
        lazy[PLACES][key] !== undefined ||
        // The plain object would order a key that begins with a digit by its number.
        (!(key < ":" && key >= "0") && !(key in target))
      ) {
        if (touched === null) {
          lazy[TOUCHED] = [key, value];
          return true;
        }
        if (note(lazy, key, value)) return true;
      }
    }
    settle(lazy, target);
    return set(target, key, value, receiver);
  }

  deleteProperty(target: Plain, key: PropertyKey): boolean {
    const lazy = this as unknown as LazyObject;
    const touched = lazy[TOUCHED];
    const at = find(touched, key);
    if (at >= 0) {
      (touched as unknown[])[at + 1] = GONE;
      return true;
    }
    if (lazy[PLACES][key as string] !== undefined) {
      if (note(lazy, key, GONE)) return true;
      settle(lazy, target);
    }
    return deleteProperty(target, key);
  }

  getOwnPropertyDescriptor(target: Plain, key: PropertyKey): PropertyDescriptor | undefined {
    if (!isOwn(this as unknown as LazyObject, key)) return getOwnPropertyDescriptor(target, key);
    const value = this.get(target, key, target);
    return plainProperty(value);
  }

  defineProperty(target: Plain, key: PropertyKey, descriptor: PropertyDescriptor): boolean {
    settle(this as unknown as LazyObject, target);
    setPrototypeOf(descriptor, null);
    return defineProperty(target, key, descriptor);
  }

  ownKeys(target: Plain): (string | symbol)[] {
    settle(this as unknown as LazyObject, target);
    return ownKeys(target);
  }

  preventExtensions(target: Plain): boolean {
    settle(this as unknown as LazyObject, target);
    return preventExtensions(target);
  }

  setPrototypeOf(target: Plain, prototype: object | null): boolean {
    settle(this as unknown as LazyObject, target);
    return setPrototypeOf(target, prototype);
  }
}

/** Without a prototype, where code could put further traps. */
const TRAPS = Object.setPrototypeOf(Traps.prototype, null) as Traps;
/** What a settled object has in the place of the traps. */
const NO_TRAPS = Object.create(null) as object;

/**
 * A lazy event.
 * @param base where the ends of its values begin; those of its properties follow them
 * @param innerShape of its properties; null where they are read as a whole
 */
export function lazyEvent(
  shape: LazyShape,
  line: string,
  batch: BatchPlaces,
  base: number,
  innerShape: LazyShape | null,
): LazyObject {
  const lazy: LazyObject = [
    line,
    batch,
    base,
    0,
    shape,
    shape.places,
    innerShape,
    null,
    null,
    null,
    null,
    false,
  ];
  setPrototypeOf(lazy, TRAPS);
  lazy[SELF] = new ProxyOf({}, lazy);
  return lazy;
}

/** Where a key stands that was touched, or -1. */
export function find(touched: unknown[] | null, key: PropertyKey): number {
  if (touched === null) return -1;
  for (let at = 0; at < touched.length; at += 2) if (touched[at] === key) return at;
  return -1;
}

/** Notes a key that was not touched before; false where there are too many. */
function note(lazy: LazyObject, key: PropertyKey, value: unknown): boolean {
  const touched = lazy[TOUCHED];
  if (touched === null) {
    lazy[TOUCHED] = [key, value];
    return true;
  }
  const { length } = touched;
  if (length >= MAX_TOUCHED) return false;
  touched[length] = key;
  touched[length + 1] = value;
  return true;
}

function isOwn(lazy: LazyObject, key: PropertyKey): boolean {
  const touched = lazy[TOUCHED];
  const at = find(touched, key);
  if (at >= 0) return (touched as unknown[])[at + 1] !== GONE;
  return lazy[PLACES][key as string] !== undefined;
}

/** Where a value begins. */
export function startOf(lazy: LazyObject, place: number): number {
  return beginningOf((lazy[BATCH].places as Uint32Array)[lazy[BASE] + place] as number);
}

export function textOfPlace(lazy: LazyObject, place: number): string {
  const places = lazy[BATCH].places as Uint32Array;
  return lazy[LINE].substring(startOf(lazy, place), places[lazy[BASE] + place + 1]);
}

/** Makes the lazy object of an event's properties, whose shape is known. */
function openInner(lazy: LazyObject, place: number, places: Uint32Array): Plain {
  const base = lazy[BASE];
  const start = places[base + place] as number;
  const shape = lazy[INNER_SHAPE] as LazyShape;
  const inner: LazyObject = [
    lazy[LINE],
    lazy[BATCH],
    base + 2 * lazy[SHAPE].lengths.length,
    start,
    shape,
    shape.places,
    null,
    null,
    null,
    null,
    null,
    false,
  ];
  setPrototypeOf(inner, TRAPS);
  const self = new ProxyOf({}, inner);
  inner[SELF] = self;
  lazy[INNER_OBJECT] = inner;
  lazy[INNER_SELF] = self;
  return self;
}

/** Makes the plain object of it; from then on nothing comes between it and the code. */
function settle(lazy: LazyObject, target: Plain): void {
  if (lazy[IS_SETTLED]) return;
  const touched = lazy[TOUCHED];
  const { places } = lazy[BATCH];
  const { keys } = lazy[SHAPE];
  const isInnerLazy = lazy[START] === 0 && lazy[INNER_SHAPE] !== null && places !== null;
  const plain = plainOf(lazy);
  for (let slot = 0; slot < keys.length; slot += 1) {
    const key = keys[slot] as string;
    const at = find(touched, key);
    if (at >= 0) {
      const value = (touched as unknown[])[at + 1];
      if (value !== GONE) put(target, key, value);
    } else if (key === INNER && lazy[INNER_SELF] !== null) put(target, key, lazy[INNER_SELF]);
    else if (key === INNER && isInnerLazy) put(target, key, openInner(lazy, 2 * slot, places));
    else put(target, key, plain[key]);
  }
  if (touched !== null) {
    for (let at = 0; at < touched.length; at += 2) {
      const key = touched[at] as string;
      const value = touched[at + 1];
      if (value !== GONE && lazy[PLACES][key] === undefined) put(target, key, value);
    }
  }
  lazy[IS_SETTLED] = true;
  lazy[TOUCHED] = newList();
  setPrototypeOf(lazy, NO_TRAPS);
}

/** What its text stands for; an event without its properties where they stay lazy. */
function plainOf(lazy: LazyObject): Plain {
  const line = lazy[LINE];
  const base = lazy[BASE];
  const start = lazy[START];
  const { places } = lazy[BATCH];
  const { keys } = lazy[SHAPE];
  if (start === 0) {
    const place = lazy[PLACES][INNER];
    if (lazy[INNER_SHAPE] === null || places === null || place === undefined) return parse(line);
    const rest = line.substring(places[base + place + 1] as number);
    return parse(`${line.substring(0, startOf(lazy, place))}0${rest}`);
  }
  // Its place is known no more: it lies in its event.
  if (places === null) return parse(line)[INNER];
  const last = keys.length === 0 ? start + 1 : (places[base + 2 * keys.length - 1] as number);
  return parse(line.substring(start, last + 1));
}

/** Without a prototype: code may have given all objects a `get`. */
function plainProperty(value: unknown): PropertyDescriptor {
  const property = { value, writable: true, enumerable: true, configurable: true };
  setPrototypeOf(property, null);
  return property;
}

export function put(target: Plain, key: PropertyKey, value: unknown): void {
  if (key in target) {
    defineProperty(target, key, plainProperty(value));
  } else target[key] = value;
}

/** Its event is over: what still holds it may go on to use it. */
export function release(lazy: LazyObject): void {
  lazy[SELF] = null;
  const inner = lazy[INNER_OBJECT];
  if (inner !== null) inner[SELF] = null;
}

/** Whether all properties of an event were made plain. */
export function isInnerSettled(lazy: LazyObject): boolean {
  const inner = lazy[INNER_OBJECT];
  return inner === null ? false : inner[IS_SETTLED];
}

/** Whether an object that is the given one itself is no promise: cheaper than to ask it. */
export function isNoPromise(answer: unknown, lazy: LazyObject): boolean {
  if (
    answer !== lazy[SELF] ||
    lazy[IS_SETTLED] ||
    lazy[SHAPE].isOdd ||
    ROOT["then"] !== undefined
  ) {
    return false;
  }
  return find(lazy[TOUCHED], "then") < 0;
}

const NOTHING: readonly string[] = newList();
/** Stands in that list for a property that was deleted. */
const NO_VALUE: readonly unknown[] = newList();

/** What events set of their properties, one after the other: how many keys, the keys and the values; or only those. */
let sets = newList<unknown>();
/** How much of that list counts: what could not be noted to its end is written over. */
let setsLength = 0;
/**
 * The keys that were told last: in a list of their own, since those that were touched may become more
 * when code comes back to an event that is over.
 */
let lastKeys = NOTHING;
let lastKeysLength = 0;
/** Characters that are made of it, and after how many no more is noted, so that they do not fill the memory. */
let setsTextLength = 0;
const MAX_SETS_LENGTH = 300_000;

/** What was set since this was asked for, as JSON. */
export function takeSets(): string {
  const taken = sets;
  taken.length = setsLength;
  startSets();
  return stringify(taken);
}

export function startSets(): void {
  sets = newList();
  setsLength = 0;
  setsTextLength = 0;
  lastKeys = NOTHING;
}

/**
 * Ends an event as nearly all of them end: the answer is the event itself, of which nothing but
 * properties was touched, and those hold texts, numbers and the like or are gone. That is noted, and the
 * host writes it, where that costs little. Answers what became of the event; `""` and does nothing
 * where more may differ, and where the answer may be a promise.
 */
export function endPlainly(answer: unknown, lazy: LazyObject): string {
  if (answer !== lazy[SELF] || lazy[TOUCHED] !== null) return "";
  if (ROOT["then"] !== undefined || ROOT["toJSON"] !== undefined) return "";
  const inner = lazy[INNER_OBJECT];
  if (inner === null) {
    lazy[SELF] = null;
    return "=";
  }
  const touched = inner[TOUCHED];
  if (touched === null) {
    lazy[SELF] = null;
    inner[SELF] = null;
    return "=";
  }
  const { length } = touched;
  // Settled, or too much to be kept.
  if (length === 0 || setsTextLength >= MAX_SETS_LENGTH) return "";
  const isLikeLast = hasLastKeys(touched, length);
  let next = setsLength;
  let keys = lastKeys;
  let keysLength = lastKeysLength;
  if (!isLikeLast) {
    keys = keysAmong(touched);
    keysLength = lengthOfAll(keys);
    next = noteKeys(keys, next);
  }
  let textLength = keysLength;
  for (let at = 1; at < length; at += 2) {
    let value = touched[at];
    const type = typeof value;
    if (type === "string") textLength += (value as string).length;
    else if (type !== "number" && value !== true && value !== false && value !== null) {
      // What was deleted that was not there before is told by nobody.
      if (value !== GONE || inner[PLACES][touched[at - 1] as string] === undefined) return "";
      value = NO_VALUE;
    }
    sets[next] = value;
    next += 1;
  }
  setsTextLength += textLength;
  setsLength = next;
  lastKeys = keys;
  lastKeysLength = keysLength;
  lazy[SELF] = null;
  inner[SELF] = null;
  return isLikeLast ? SET_ALIKE : SET;
}

/** Whether just the keys were touched that were told last. */
function hasLastKeys(touched: readonly unknown[], length: number): boolean {
  if (length !== 2 * lastKeys.length) return false;
  for (let at = 0; at < length; at += 2) if (touched[at] !== lastKeys[at / 2]) return false;
  return true;
}

function keysAmong(touched: readonly unknown[]): readonly string[] {
  const keys = newList<string>();
  for (let at = 0; at < touched.length; at += 2) keys[at / 2] = touched[at] as string;
  return keys;
}

function lengthOfAll(keys: readonly string[]): number {
  let length = 0;
  for (let at = 0; at < keys.length; at += 1) length += (keys[at] as string).length;
  return length;
}

function noteKeys(keys: readonly string[], from: number): number {
  const { length } = keys;
  let next = from;
  sets[next] = length;
  next += 1;
  for (let at = 0; at < length; at += 1) {
    sets[next] = keys[at];
    next += 1;
  }
  return next;
}

/**
 * Objects of which only the JSON text is known: a value is read when it is asked for. Whoever does
 * more than to read, set, look for or delete single keys makes a plain object of the whole, which it
 * stays. To code they look and behave like the plain object that the text stands for.
 *
 * All of this runs for every event in an engine without a compiler, where a call costs as much as
 * reading a short text: hence arrays in the place of objects and maps, and loops written out.
 */

/** The keys of an object in their order, and how long each is as it stands in the text, colon included. */
export interface LazyShape {
  readonly keys: readonly string[];
  /** Where each key stands; without a prototype, and no map: nothing in between can be tampered with. */
  readonly slots: Readonly<Record<string, number>>;
  readonly lengths: readonly number[];
  /** Whether there is a key by which promises, or what writes its JSON itself, are known. */
  readonly isOdd: boolean;
}

/** Keys that make a shape odd. */
export const ODD_KEYS = ["then", "toJSON"];

/** Where values end in the texts of a batch; given up with the batch, since it takes much memory. */
export interface BatchEnds {
  ends: Uint32Array | null;
}

/**
 * Where an object stands: the line of its event; the ends of its batch, and where in them its own
 * begin; where it begins in the line (at 0 the event itself, elsewhere its properties); its shape;
 * and that of the event's properties, where they are lazy themselves.
 */
type Place = [
  line: string,
  batch: BatchEnds,
  base: number,
  start: number,
  shape: LazyShape,
  innerShape: LazyShape | null,
];
// By number, since to take an array apart by a pattern calls its iterator.
const LINE = 0;
const BATCH = 1;
const BASE = 2;
const START = 3;
const SHAPE = 4;
const INNER_SHAPE = 5;

type Plain = Record<PropertyKey, unknown>;

const { parse, stringify } = JSON;
const { get, set, has, deleteProperty, defineProperty, getOwnPropertyDescriptor, ownKeys } =
  Reflect;
const { setPrototypeOf, preventExtensions } = Reflect;
const { keys: keysOf } = Object;
const ROOT = Object.prototype as unknown as Plain;

/** Stands for a key that was deleted. */
const GONE = Symbol("gone");
/** The field of an event whose object is lazy itself. */
const INNER = "properties";
/** Whoever touches more keys than this is likely to touch all. */
const MAX_TOUCHED = 16;

/**
 * A lazy object: the handler of a proxy over an empty object, which becomes the plain object when it
 * is settled. Fields get their first values from the prototype.
 */
export interface LazyObject {
  place: Place;
  /** That of an event's properties, once they were asked for. */
  inner: LazyObject | null;
  /** Its proxy, as long as its event is under way. */
  self: Plain | null;
  /** Keys that were set, deleted ({@link GONE}), or read as objects, which may have been changed inside. */
  names: PropertyKey[] | null;
  values: unknown[] | null;
  isSettled: boolean;
}

class Traps implements ProxyHandler<Plain> {
  get(target: Plain, key: PropertyKey, receiver: unknown): unknown {
    const lazy = this as unknown as LazyObject;
    const { names } = lazy;
    if (names !== null) {
      for (let at = 0; at < names.length; at += 1) {
        if (names[at] !== key) continue;
        const value = (lazy.values as unknown[])[at];
        return value === GONE ? get(target, key, receiver) : value;
      }
    }
    const slot = lazy.place[SHAPE].slots[key as string];
    if (slot === undefined) return get(target, key, receiver);
    if (lazy.place[BATCH].ends === null) {
      settle(lazy, target);
      return get(target, key, receiver);
    }
    return readSlot(lazy, target, key, slot);
  }

  has(target: Plain, key: PropertyKey): boolean {
    return isOwn(this as unknown as LazyObject, key) || has(target, key);
  }

  set(target: Plain, key: PropertyKey, value: unknown, receiver: unknown): boolean {
    const lazy = this as unknown as LazyObject;
    if (receiver === lazy.self && typeof key === "string" && value !== undefined) {
      const at = find(lazy.names, key);
      if (at >= 0) {
        const values = lazy.values as unknown[];
        // What was deleted comes back at the end.
        if (values[at] !== GONE) {
          values[at] = value;
          return true;
        }
      } else if (
        lazy.place[SHAPE].slots[key] !== undefined ||
        (!isIndexLike(key) && !(key in target))
      ) {
        if (note(lazy, key, value)) return true;
      }
    }
    settle(lazy, target);
    return set(target, key, value, receiver);
  }

  deleteProperty(target: Plain, key: PropertyKey): boolean {
    const lazy = this as unknown as LazyObject;
    const at = find(lazy.names, key);
    if (at >= 0) {
      (lazy.values as unknown[])[at] = GONE;
      return true;
    }
    if (lazy.place[SHAPE].slots[key as string] !== undefined) {
      if (note(lazy, key, GONE)) return true;
      settle(lazy, target);
    }
    return deleteProperty(target, key);
  }

  getOwnPropertyDescriptor(target: Plain, key: PropertyKey): PropertyDescriptor | undefined {
    if (!isOwn(this as unknown as LazyObject, key)) return getOwnPropertyDescriptor(target, key);
    const value = this.get(target, key, target);
    return { value, writable: true, enumerable: true, configurable: true };
  }

  defineProperty(target: Plain, key: PropertyKey, descriptor: PropertyDescriptor): boolean {
    settle(this as unknown as LazyObject, target);
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

const FIRST_VALUES = { inner: null, self: null, names: null, values: null, isSettled: false };
const TRAPS = Object.assign(Traps.prototype, FIRST_VALUES);
/** What a settled object has in the place of the traps. */
const NO_TRAPS = Object.assign(Object.create(null), FIRST_VALUES) as object;

/**
 * A lazy event.
 * @param base where the ends of its values begin; those of its properties follow them
 * @param innerShape of its properties; null where they are read as a whole
 */
export function lazyEvent(
  shape: LazyShape,
  line: string,
  batch: BatchEnds,
  base: number,
  innerShape: LazyShape | null,
): LazyObject {
  return lazyAt([line, batch, base, 0, shape, innerShape]);
}

function lazyAt(place: Place): LazyObject {
  const lazy = { __proto__: TRAPS, place } as unknown as LazyObject;
  lazy.self = new Proxy<Plain>({}, lazy as unknown as ProxyHandler<Plain>);
  return lazy;
}

/** Whether the plain object would order a key by its number. */
function isIndexLike(key: string): boolean {
  const code = key.charCodeAt(0);
  return code >= 48 && code <= 57;
}

function find(names: PropertyKey[] | null, key: PropertyKey): number {
  if (names === null) return -1;
  for (let at = 0; at < names.length; at += 1) if (names[at] === key) return at;
  return -1;
}

/** Notes a key that was not touched before; false where there are too many. */
function note(lazy: LazyObject, key: PropertyKey, value: unknown): boolean {
  const { names } = lazy;
  if (names === null) {
    lazy.names = [key];
    lazy.values = [value];
    return true;
  }
  const { length } = names;
  if (length >= MAX_TOUCHED) return false;
  names[length] = key;
  (lazy.values as unknown[])[length] = value;
  return true;
}

function isOwn({ names, values, place }: LazyObject, key: PropertyKey): boolean {
  const at = find(names, key);
  if (at >= 0) return (values as unknown[])[at] !== GONE;
  return place[SHAPE].slots[key as string] !== undefined;
}

/** Where the value of a slot begins. */
function startOf(place: Place, slot: number): number {
  const length = place[SHAPE].lengths[slot] as number;
  if (slot === 0) return place[START] + 1 + length;
  return ((place[BATCH].ends as Uint32Array)[place[BASE] + slot - 1] as number) + 1 + length;
}

function textOfSlot(place: Place, slot: number): string {
  const ends = place[BATCH].ends as Uint32Array;
  return place[LINE].substring(startOf(place, slot), ends[place[BASE] + slot]);
}

function readSlot(lazy: LazyObject, target: Plain, key: PropertyKey, slot: number): unknown {
  const { place } = lazy;
  const innerShape = place[INNER_SHAPE];
  let value: unknown;
  if (innerShape !== null && key === INNER) value = openInner(lazy, slot, innerShape);
  else {
    value = parse(textOfSlot(place, slot));
    if (typeof value !== "object" || value === null) return value;
  }
  if (note(lazy, key, value)) return value;
  settle(lazy, target);
  return target[key];
}

function openInner(lazy: LazyObject, slot: number, shape: LazyShape): Plain | null {
  const { place } = lazy;
  const base = place[BASE] + place[SHAPE].lengths.length;
  lazy.inner ??= lazyAt([place[LINE], place[BATCH], base, startOf(place, slot), shape, null]);
  return lazy.inner.self;
}

/** Makes the plain object of it; from then on nothing comes between it and the code. */
function settle(lazy: LazyObject, target: Plain): void {
  if (lazy.isSettled) return;
  const { place, names, values } = lazy;
  const { ends } = place[BATCH];
  const { keys, slots } = place[SHAPE];
  const innerShape = place[START] === 0 && ends !== null ? place[INNER_SHAPE] : null;
  const plain = plainOf(place);
  for (let slot = 0; slot < keys.length; slot += 1) {
    const key = keys[slot] as string;
    const at = find(names, key);
    if (at >= 0) {
      const value = (values as unknown[])[at];
      if (value !== GONE) put(target, key, value);
    } else if (key === INNER && innerShape !== null) {
      put(target, key, openInner(lazy, slot, innerShape));
    } else put(target, key, plain[key]);
  }
  if (names !== null) {
    for (let at = 0; at < names.length; at += 1) {
      const key = names[at] as string;
      const value = (values as unknown[])[at];
      if (value !== GONE && slots[key] === undefined) put(target, key, value);
    }
  }
  lazy.isSettled = true;
  lazy.names = null;
  lazy.values = null;
  setPrototypeOf(lazy, NO_TRAPS);
}

/** What its text stands for; an event without its properties where they stay lazy. */
function plainOf(place: Place): Plain {
  const line = place[LINE];
  const base = place[BASE];
  const start = place[START];
  const { ends } = place[BATCH];
  const { keys, slots } = place[SHAPE];
  if (start === 0) {
    const slot = slots[INNER];
    if (place[INNER_SHAPE] === null || ends === null || slot === undefined) return parse(line);
    const rest = line.substring(ends[base + slot] as number);
    return parse(`${line.substring(0, startOf(place, slot))}0${rest}`);
  }
  // Its place is known no more: it lies in its event.
  if (ends === null) return parse(line)[INNER];
  const last = keys.length === 0 ? start + 1 : (ends[base + keys.length - 1] as number);
  return parse(line.substring(start, last + 1));
}

function put(target: Plain, key: PropertyKey, value: unknown): void {
  if (key in target) {
    defineProperty(target, key, { value, writable: true, enumerable: true, configurable: true });
  } else target[key] = value;
}

/** Its event is over: what still holds it may go on to use it. */
export function release(lazy: LazyObject): void {
  lazy.self = null;
  if (lazy.inner !== null) lazy.inner.self = null;
}

/** Whether an object that is the given one itself is no promise: cheaper than to ask it. */
export function isNoPromise(
  answer: unknown,
  { self, isSettled, names, place }: LazyObject,
): boolean {
  if (answer !== self || isSettled || place[SHAPE].isOdd || ROOT["then"] !== undefined)
    return false;
  return names === null || find(names, "then") < 0;
}

/** Whether something writes its JSON itself, which a lazy object does not. */
function writesItself(lazy: LazyObject): boolean {
  if (!lazy.isSettled && !lazy.place[SHAPE].isOdd && ROOT["toJSON"] === undefined) {
    if (lazy.names === null || find(lazy.names, "toJSON") < 0) return false;
  }
  return typeof lazy.self?.["toJSON"] === "function";
}

/**
 * How an answer differs from the event that was given, as JSON of `{e, f, h, p, q, w}`: fields of the
 * event that were set and removed, or all of them (`h`); properties that were set and removed, or all
 * of them (`w`). `=` where it does not differ, `+` and the JSON of the answer where it is another
 * object altogether. Throws what writing it throws.
 */
export function writeAnswer(answer: Plain, given: LazyObject): string {
  const { inner, self } = given;
  let parts = "";
  if (answer === self && !given.isSettled) {
    if (writesItself(given)) return `+${writeWhole(answer)}`;
    const { names, values } = given;
    if (names !== null) {
      const at = find(names, INNER);
      const isReplaced = at >= 0 && (values as unknown[])[at] !== inner?.self;
      if (isReplaced && (inner !== null || given.place[INNER_SHAPE] !== null)) {
        return `+${writeWhole(answer)}`;
      }
      if (inner === null || names.length > 1) parts = writeChanges(given, '"e":{', '"f":[');
    }
  } else {
    const isOther = inner === null || inner.self === null || answer[INNER] !== inner.self;
    if (isOther || typeof answer["toJSON"] === "function") return `+${writeWhole(answer)}`;
    const rest: Plain = {};
    const keys = keysOf(answer);
    for (let at = 0; at < keys.length; at += 1) {
      const key = keys[at] as string;
      if (key !== INNER) put(rest, key, answer[key]);
    }
    parts = `"h":${stringify(rest)}`;
  }
  if (inner !== null && inner.self !== null) {
    let text = "";
    if (inner.isSettled || writesItself(inner)) {
      const whole = stringify(inner.self);
      if (whole === undefined) return `+${writeWhole(answer)}`;
      text = `"w":${whole}`;
    } else if (inner.names !== null) text = writeChanges(inner, '"p":{', '"q":[');
    if (text !== "") parts = parts === "" ? text : `${parts},${text}`;
  }
  return parts === "" ? "=" : `~{${parts}}`;
}

/** An answer as JSON; throws where it has none, since its `toJSON` answers nothing. */
export function writeWhole(answer: Plain): string {
  const text = stringify(answer) as string | undefined;
  if (text === undefined) throw new TypeError("processEvent answered what has no JSON");
  return text;
}

/** What was touched and differs, as JSON without the outer brackets. */
function writeChanges(
  { names, values, place, inner }: LazyObject,
  set: string,
  gone: string,
): string {
  if (names === null || values === null) return "";
  const { slots } = place[SHAPE];
  let setTexts = "";
  let goneTexts = "";
  for (let at = 0; at < names.length; at += 1) {
    const key = names[at] as string;
    if (inner !== null && key === INNER) continue;
    const value = values[at];
    const slot = slots[key];
    let text: string | undefined;
    if (value === GONE) text = undefined;
    else if (value === true || value === false) text = value ? "true" : "false";
    else text = stringify(value);
    if (text === undefined) {
      if (slot === undefined) continue;
      goneTexts = goneTexts === "" ? stringify(key) : `${goneTexts},${stringify(key)}`;
    } else if (slot === undefined || text !== textOfSlot(place, slot)) {
      const name = slot === undefined ? keyText(key) : literalOf(place, slot);
      setTexts = setTexts === "" ? name + text : `${setTexts},${name}${text}`;
    }
  }
  const sets = setTexts === "" ? "" : `${set}${setTexts}}`;
  if (goneTexts === "") return sets;
  return sets === "" ? `${gone}${goneTexts}]` : `${sets},${gone}${goneTexts}]`;
}

/** The key of a slot as it stands in the text, with its colon. */
function literalOf(place: Place, slot: number): string {
  const end = startOf(place, slot);
  return place[LINE].substring(end - (place[SHAPE].lengths[slot] as number), end);
}

/** Keys that were added, as JSON with a colon: transformations add the same ones again and again. */
const keyTexts = { __proto__: null } as unknown as Record<string, string>;
const MAX_KEY_TEXTS = 200;
let keyTextCount = 0;

function keyText(key: string): string {
  const known = keyTexts[key];
  if (known !== undefined) return known;
  const text = `${stringify(key)}:`;
  if (keyTextCount < MAX_KEY_TEXTS) {
    keyTextCount += 1;
    keyTexts[key] = text;
  }
  return text;
}

/**
 * Objects of which only the JSON text is known: a value is read when it is asked for. Whoever does
 * more than to read, set, look for or delete single keys makes a plain object of the whole, which it
 * stays. To code they look and behave like the plain object that the text stands for.
 */

/** The keys of an object in their order, and how long each is as it stands in the text, colon included. */
export interface LazyShape {
  readonly keys: readonly string[];
  readonly slots: ReadonlyMap<string, number>;
  readonly lengths: readonly number[];
}

/** Where values end in the texts of a batch; given up with the batch, since it takes much memory. */
export interface BatchEnds {
  ends: Uint32Array | null;
}

type Plain = Record<PropertyKey, unknown>;

const { parse, stringify } = JSON;
const { get, set, has, deleteProperty, defineProperty, getOwnPropertyDescriptor, ownKeys } =
  Reflect;
const { setPrototypeOf, preventExtensions } = Reflect;

/** Stands for a key that was deleted. */
const GONE = Symbol("gone");
/** The field of an event whose object is lazy itself. */
const INNER = "properties";

/** The handler of a proxy over an empty object, which becomes the plain object when it is settled. */
export class LazyObject implements ProxyHandler<Plain> {
  shape: LazyShape;
  /** The text of the event that it is, or is part of. */
  line: string;
  batch: BatchEnds;
  /** Where the ends of its values begin. */
  base: number;
  /** Where it begins in the line: at 0 the event itself, elsewhere its properties. */
  start: number;
  /** The shape of an event's properties, where they are lazy themselves. */
  innerShape: LazyShape | null;
  inner: LazyObject | null = null;
  /** Its proxy, as long as its event is under way. */
  self: Plain | null = null;
  /** Keys that were set or deleted. */
  changes: Map<PropertyKey, unknown> | null = null;
  /** Objects that were read, and may have been changed inside. */
  read: Map<PropertyKey, unknown> | null = null;
  isSettled = false;

  constructor(
    shape: LazyShape,
    line: string,
    batch: BatchEnds,
    base: number,
    start: number,
    innerShape: LazyShape | null,
  ) {
    this.shape = shape;
    this.line = line;
    this.batch = batch;
    this.base = base;
    this.start = start;
    this.innerShape = innerShape;
  }

  get(target: Plain, key: PropertyKey, receiver: unknown): unknown {
    const { changes } = this;
    if (changes?.has(key)) {
      const value = changes.get(key);
      return value === GONE ? get(target, key, receiver) : value;
    }
    const slot = this.shape.slots.get(key as string);
    if (slot === undefined) return get(target, key, receiver);
    const known = this.read === null ? undefined : this.read.get(key);
    if (known !== undefined) return known;
    if (this.batch.ends === null) {
      settle(this, target);
      return get(target, key, receiver);
    }
    return readSlot(this, key, slot);
  }

  has(target: Plain, key: PropertyKey): boolean {
    return isOwn(this, key) || has(target, key);
  }

  set(target: Plain, key: PropertyKey, value: unknown, receiver: unknown): boolean {
    if (receiver === this.self && typeof key === "string" && value !== undefined) {
      const { changes } = this;
      const isKept = changes?.has(key);
      const isKnown = isKept ? changes?.get(key) !== GONE : this.shape.slots.has(key);
      if (isKnown || (!isKept && !isIndexLike(key) && !has(target, key))) {
        if (changes === null) this.changes = new Map<PropertyKey, unknown>().set(key, value);
        else changes.set(key, value);
        return true;
      }
    }
    settle(this, target);
    return set(target, key, value, receiver);
  }

  deleteProperty(target: Plain, key: PropertyKey): boolean {
    if (isOwn(this, key)) {
      if (!this.shape.slots.has(key as string)) this.changes?.delete(key);
      else if (this.changes === null) this.changes = new Map<PropertyKey, unknown>().set(key, GONE);
      else this.changes.set(key, GONE);
      return true;
    }
    return deleteProperty(target, key);
  }

  getOwnPropertyDescriptor(target: Plain, key: PropertyKey): PropertyDescriptor | undefined {
    if (!isOwn(this, key)) return getOwnPropertyDescriptor(target, key);
    const value = this.get(target, key, target);
    return { value, writable: true, enumerable: true, configurable: true };
  }

  defineProperty(target: Plain, key: PropertyKey, descriptor: PropertyDescriptor): boolean {
    settle(this, target);
    return defineProperty(target, key, descriptor);
  }

  ownKeys(target: Plain): (string | symbol)[] {
    settle(this, target);
    return ownKeys(target);
  }

  preventExtensions(target: Plain): boolean {
    settle(this, target);
    return preventExtensions(target);
  }
}

/** Whether the plain object would order a key by its number. */
function isIndexLike(key: string): boolean {
  const code = key.charCodeAt(0);
  return code >= 48 && code <= 57;
}

function isOwn({ changes, shape }: LazyObject, key: PropertyKey): boolean {
  if (changes?.has(key)) return changes.get(key) !== GONE;
  return shape.slots.has(key as string);
}

function textOfSlot({ shape, line, batch, base, start }: LazyObject, slot: number): string {
  const ends = batch.ends as Uint32Array;
  const before = slot === 0 ? start : (ends[base + slot - 1] as number);
  return line.substring(before + 1 + (shape.lengths[slot] as number), ends[base + slot]);
}

function readSlot(lazy: LazyObject, key: PropertyKey, slot: number): unknown {
  const { innerShape } = lazy;
  let value: unknown;
  if (innerShape !== null && key === INNER) {
    const { line, batch, base, shape } = lazy;
    const ends = batch.ends as Uint32Array;
    const before = slot === 0 ? lazy.start : (ends[base + slot - 1] as number);
    const start = before + 1 + (shape.lengths[slot] as number);
    const innerBase = base + shape.lengths.length;
    lazy.inner = new LazyObject(innerShape, line, batch, innerBase, start, null);
    value = proxyOf(lazy.inner);
  } else {
    value = parse(textOfSlot(lazy, slot));
    if (typeof value !== "object" || value === null) return value;
  }
  if (lazy.read === null) lazy.read = new Map<PropertyKey, unknown>().set(key, value);
  else lazy.read.set(key, value);
  return value;
}

/** Makes the plain object of it; from then on nothing comes between it and the code. */
function settle(lazy: LazyObject, target: Plain): void {
  if (lazy.isSettled) return;
  const { shape, changes, read, batch } = lazy;
  const isEvent = lazy.start === 0;
  const values = batch.ends !== null && isEvent ? null : plainOf(lazy);
  for (let slot = 0; slot < shape.keys.length; slot += 1) {
    const key = shape.keys[slot] as string;
    if (changes?.has(key)) {
      const value = changes.get(key);
      if (value !== GONE) put(target, key, value);
      continue;
    }
    const known = read === null ? undefined : read.get(key);
    if (known !== undefined) put(target, key, known);
    else put(target, key, values === null ? readSlot(lazy, key, slot) : values[key]);
  }
  if (changes !== null) {
    for (const [key, value] of changes) {
      if (value !== GONE && !shape.slots.has(key as string)) put(target, key, value);
    }
  }
  lazy.isSettled = true;
  lazy.changes = null;
  lazy.read = null;
  lazy.line = "";
  setPrototypeOf(lazy, null);
}

/** What its text stands for. */
function plainOf({ line, batch, base, start, shape }: LazyObject): Plain {
  if (start === 0) return parse(line);
  const { ends } = batch;
  // Its place is known no more: it lies in its event.
  if (ends === null) return parse(line)[INNER];
  const last = shape.keys.length === 0 ? start + 1 : (ends[base + shape.keys.length - 1] as number);
  return parse(line.substring(start, last + 1));
}

function put(target: Plain, key: PropertyKey, value: unknown): void {
  if (key in target) {
    defineProperty(target, key, { value, writable: true, enumerable: true, configurable: true });
  } else target[key] = value;
}

export function proxyOf(lazy: LazyObject): Plain {
  lazy.self = new Proxy<Plain>({}, lazy);
  return lazy.self;
}

/** Its event is over: what still holds it may go on to use it. */
export function release(lazy: LazyObject): void {
  lazy.self = null;
  if (lazy.inner !== null) lazy.inner.self = null;
}

/**
 * How an answer differs from the event that was given, as JSON of `{e, f, h, p, q, w}`: fields of the
 * event that were set and removed, or all of them (`h`); properties that were set and removed, or all
 * of them (`w`). `=` where it does not differ, `+` and the JSON of the answer where it is another
 * object altogether. Throws what writing it throws.
 */
export function writeAnswer(answer: Plain, given: LazyObject): string {
  const { inner, self } = given;
  if (typeof answer["toJSON"] === "function") return `+${stringify(answer)}`;
  const isSame = answer === self && !given.isSettled;
  const parts: string[] = [];
  if (isSame) {
    const { changes } = given;
    if (changes?.has(INNER) && changes.get(INNER) !== inner?.self) {
      return `+${stringify(answer)}`;
    }
    writeChanges(given, "e", "f", parts);
  } else {
    if (inner === null || inner.self === null || answer[INNER] !== inner.self) {
      return `+${stringify(answer)}`;
    }
    const rest: Plain = {};
    for (const key of Object.keys(answer)) if (key !== INNER) put(rest, key, answer[key]);
    parts.push(`"h":${stringify(rest)}`);
  }
  if (inner !== null && inner.self !== null) {
    if (inner.isSettled || typeof inner.self["toJSON"] === "function") {
      const text = stringify(inner.self);
      if (text !== undefined) parts.push(`"w":${text}`);
      else return `+${stringify(answer)}`;
    } else writeChanges(inner, "p", "q", parts);
  }
  return parts.length === 0 ? "=" : `~{${parts.join(",")}}`;
}

function writeChanges(lazy: LazyObject, set: string, gone: string, parts: string[]): void {
  const { changes, read, shape } = lazy;
  if (changes === null && read === null) return;
  let setTexts = "";
  let goneTexts = "";
  const write = (key: PropertyKey, value: unknown): void => {
    const slot = shape.slots.get(key as string);
    const text = value === GONE ? undefined : stringify(value);
    if (text === undefined) {
      if (slot === undefined) return;
      goneTexts += goneTexts === "" ? stringify(key) : `,${stringify(key)}`;
    } else if (slot === undefined || text !== textOfSlot(lazy, slot)) {
      setTexts += `${setTexts === "" ? "" : ","}${stringify(key)}:${text}`;
    }
  };
  if (changes !== null) {
    for (const [key, value] of changes) if (key !== INNER || lazy.inner === null) write(key, value);
  }
  if (read !== null) {
    for (const [key, value] of read) {
      const isOther = key === INNER && lazy.inner !== null;
      if (!isOther && (changes === null || !changes.has(key))) write(key, value);
    }
  }
  if (setTexts !== "") parts.push(`"${set}":{${setTexts}}`);
  if (goneTexts !== "") parts.push(`"${gone}":[${goneTexts}]`);
}

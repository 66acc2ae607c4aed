/**
 * The keys of objects in their order, learned from the events that come: those of one source have
 * the same keys nearly always. Tells where values stand in a text without reading it.
 */

import { PLAIN_TEXT } from "./value-places.ts";

/** What is known of a sequence of keys; `id` counts from 1. */
export interface Shape {
  readonly id: number;
  readonly keys: readonly string[];
  /** How long each key is as it stands in the text, with its quotes and the colon. */
  readonly lengths: readonly number[];
  readonly slots: ReadonlyMap<string, number>;
}

interface Step {
  readonly key: string;
  /** The key as it stands in the text, with its quotes and the colon. */
  readonly literal: string;
  readonly before: Step | null;
  readonly depth: number;
  readonly next: Step[];
  /** False where a plain object would have its keys in another order, or fewer of them. */
  readonly isPlain: boolean;
  /** How often a text ended here; shapes are made of what comes more than once. */
  seen: number;
  shape: Shape | null;
}

/** Objects with more keys are read as a whole. */
const MAX_KEYS = 256;
/** More that may follow one key: what varies more is data, not shape. */
const MAX_NEXT = 32;
/** All that is remembered; then everything is learned anew. */
const MAX_STEPS = 20_000;
/** And what all shapes together may have, which the guest keeps within its memory. */
const MAX_SHAPE_KEYS = 10_000;
const MAX_SHAPE_LENGTH = 300_000;
/** Longer keys are data, not shape. */
const MAX_KEY_LENGTH = 200;
/** So much at a time is told to the guest, which needs time for it. */
const MAX_TOLD_KEYS = 2_000;
const MAX_TOLD_LENGTH = 60_000;

const QUOTE = 34;
const COMMA = 44;
const BACKSLASH = 92;
const OPEN = 123;
const CLOSE = 125;

/**
 * Per event: in which text its line stands ({@link ScannedLines.texts}), where it begins and ends
 * there, and the shapes of it and of its properties.
 */
export const HEAD = { text: 0, from: 1, to: 2, shape: 3, innerShape: 4, length: 5 } as const;

/** Lines of events and where their values end. */
export interface ScannedLines {
  readonly lines: readonly string[];
  /**
   * The lines one behind the other: those of ASCII alone, which the engine copies as they are, and
   * the others, which it reads character by character.
   */
  readonly texts: readonly [plain: string, other: string];
  /**
   * For each event the place of its numbers, then those: {@link HEAD}, then where each value of the
   * event and each of its properties begins and ends (`value-places.ts`) in the line.
   */
  readonly numbers: Uint32Array;
  /** Ids of its shapes are those of this table. */
  readonly shapes: ShapeTable;
}

export class ShapeTable {
  readonly #events = newStep("", "", null, true);
  readonly #properties = newStep("", "", null, true);
  readonly #shapes: Shape[] = [];
  #steps = 0;
  #shapeKeys = 0;
  #shapeLength = 0;
  /** Room for numbers, used again and again, and how many of them are used. */
  #numbers = new Uint32Array(1024);
  #length = 0;
  /** Before it, the line that is looked through has nothing escaped. */
  #plainUntil = 0;
  /** Of that line: the keys of its properties, where their values stand, and where the object ends. */
  #inner: Step | null = null;
  readonly #innerPlaces = new Uint32Array(2 * MAX_KEYS + 2);
  #innerEnd = 0;

  get isFull(): boolean {
    return (
      this.#steps > MAX_STEPS ||
      this.#shapeKeys > MAX_SHAPE_KEYS ||
      this.#shapeLength > MAX_SHAPE_LENGTH
    );
  }

  /** Shapes in the order of their ids: those behind the first ones, as many as can be told at a time. */
  someFrom(count: number): readonly Shape[] {
    let end = count;
    let keys = 0;
    let length = 0;
    for (; end < this.#shapes.length; end += 1) {
      const shape = this.#shapes[end] as Shape;
      keys += shape.keys.length + 1;
      length += lengthOf(shape);
      if (end > count && (keys > MAX_TOLD_KEYS || length > MAX_TOLD_LENGTH)) break;
    }
    return this.#shapes.slice(count, end);
  }

  shapeOf(id: number | undefined): Shape | null {
    return id === undefined || id === 0 ? null : (this.#shapes[id - 1] ?? null);
  }

  /** @param text events as one line of JSON each, as `JSON.stringify` writes them */
  scan(text: string): ScannedLines {
    const lines = text.split("\n");
    const isAllPlain = isAscii(text);
    const others: string[] = [];
    const plain: string[] = [];
    const ends: [number, number] = [0, 0];
    this.#length = 0;
    this.#makeRoom(lines.length);
    this.#length = lines.length;
    for (let index = 0; index < lines.length; index += 1) {
      const line = lines[index] as string;
      const which = isAllPlain || isAscii(line) ? 0 : 1;
      if (!isAllPlain) (which === 0 ? plain : others).push(line);
      this.#makeRoom(HEAD.length + 4 * MAX_KEYS + 4);
      const place = this.#length;
      this.#numbers[index] = place;
      this.#numbers[place + HEAD.text] = which;
      this.#numbers[place + HEAD.from] = ends[which];
      this.#numbers[place + HEAD.to] = ends[which] + line.length;
      this.#scanEvent(line, place);
      ends[which] += line.length + 1;
    }
    const texts = [isAllPlain ? text : plain.join("\n"), others.join("\n")] as const;
    return { lines, texts, numbers: this.#numbers.slice(0, this.#length), shapes: this };
  }

  #makeRoom(count: number): void {
    if (this.#length + count <= this.#numbers.length) return;
    const more = new Uint32Array(2 * (this.#length + count));
    more.set(this.#numbers.subarray(0, this.#length));
    this.#numbers = more;
  }

  #scanEvent(line: string, place: number): void {
    const ends = place + HEAD.length;
    this.#length = ends;
    this.#inner = null;
    const escaped = line.indexOf("\\");
    this.#plainUntil = escaped < 0 ? line.length : escaped;
    const step = this.#scanObject(this.#events, line, 0);
    const shape = step === null ? null : this.#shapeAt(step);
    this.#numbers[place + HEAD.shape] = shape?.id ?? 0;
    this.#numbers[place + HEAD.innerShape] = 0;
    if (shape === null) {
      this.#length = ends;
      return;
    }
    const innerShape = this.#inner === null ? null : this.#shapeAt(this.#inner);
    if (innerShape === null) return;
    this.#numbers[place + HEAD.innerShape] = innerShape.id;
    const count = 2 * innerShape.keys.length;
    for (let at = 0; at < count; at += 1) {
      this.#numbers[this.#length + at] = this.#innerPlaces[at] as number;
    }
    this.#length += count;
  }

  /** Notes where an object's values stand; null where it is not plain. */
  #scanObject(root: Step, text: string, start: number): Step | null {
    const isInner = root === this.#properties;
    const numbers = isInner ? this.#innerPlaces : this.#numbers;
    const plainUntil = this.#plainUntil;
    let count = isInner ? 0 : this.#length;
    let step = root;
    let at = start + 1;
    if (text.charCodeAt(at) === CLOSE) return this.#endObject(root, isInner, count, at);
    for (;;) {
      const likely = step.next[0];
      const next =
        likely !== undefined && isThere(likely.literal, text, at)
          ? likely
          : this.#nextOf(step, text, at);
      if (next === null || !next.isPlain) return null;
      step = next;
      at += step.literal.length;
      const first = text.charCodeAt(at);
      numbers[count] = at;
      if (first === QUOTE) {
        const end = text.indexOf('"', at + 1);
        if (end < plainUntil) numbers[count] = at + 1 + PLAIN_TEXT;
        at = text.charCodeAt(end - 1) === BACKSLASH ? endOfText(text, at) : end + 1;
      } else if (first === OPEN && !isInner && step.key === "properties") {
        this.#inner = this.#scanObject(this.#properties, text, at);
        at = this.#inner === null ? endOfValue(text, at) : this.#innerEnd;
      } else at = endOfValue(text, at);
      numbers[count + 1] = at;
      count += 2;
      const code = text.charCodeAt(at);
      if (code === COMMA) at += 1;
      else return code === CLOSE ? this.#endObject(step, isInner, count, at) : null;
    }
  }

  #endObject(step: Step, isInner: boolean, count: number, at: number): Step {
    if (isInner) this.#innerEnd = at + 1;
    else this.#length = count;
    return step;
  }

  #nextOf(step: Step, text: string, at: number): Step | null {
    const { next } = step;
    for (let index = 0; index < next.length; index += 1) {
      const one = next[index] as Step;
      if (!text.startsWith(one.literal, at)) continue;
      // What came last is likely to come again.
      next[index] = next[0] as Step;
      next[0] = one;
      return one;
    }
    if (next.length >= MAX_NEXT || step.depth >= MAX_KEYS || this.isFull) return null;
    const end = endOfText(text, at);
    if (text.charCodeAt(at) !== QUOTE || text[end] !== ":") return null;
    if (end - at > MAX_KEY_LENGTH) return null;
    // Read and written anew: a part of the text would hold all of it.
    const key = JSON.parse(text.slice(at, end)) as string;
    const literal = flat(`${JSON.stringify(key)}:`);
    const isPlain =
      literal.length === end + 1 - at &&
      text.startsWith(literal, at) &&
      key !== "__proto__" &&
      !/^\d/.test(key) &&
      !hasKey(step, key);
    const made = newStep(key, literal, step, isPlain);
    next.push(made);
    this.#steps += 1;
    return made;
  }

  #shapeAt(step: Step): Shape | null {
    if (step.shape !== null) return step.shape;
    step.seen += 1;
    if (step.seen < 2 || this.isFull) return null;
    const keys: string[] = [];
    const lengths: number[] = [];
    for (let one: Step | null = step; one !== null && one.depth > 0; one = one.before) {
      keys.unshift(one.key);
      lengths.unshift(one.literal.length);
    }
    const slots = new Map(keys.map((key, slot) => [key, slot]));
    step.shape = { id: this.#shapes.length + 1, keys, lengths, slots };
    this.#shapes.push(step.shape);
    this.#shapeKeys += keys.length + 1;
    this.#shapeLength += lengthOf(step.shape);
    return step.shape;
  }
}

function lengthOf({ lengths }: Shape): number {
  return lengths.reduce((sum, length) => sum + length, 0);
}

function isAscii(text: string): boolean {
  return Buffer.byteLength(text) === text.length;
}

/** Texts up to this length are searched quicker than they are compared. */
const MAX_SEARCHED = 16_384;

function isThere(literal: string, text: string, at: number): boolean {
  return text.length > MAX_SEARCHED
    ? text.startsWith(literal, at)
    : text.indexOf(literal, at) === at;
}

/** The same text in one piece, which is compared quicker than one that was put together. */
function flat(text: string): string {
  return JSON.parse(JSON.stringify(text)) as string;
}

function newStep(key: string, literal: string, before: Step | null, isPlain: boolean): Step {
  const depth = before === null ? 0 : before.depth + 1;
  return { key, literal, before, depth, next: [], isPlain, seen: 0, shape: null };
}

function hasKey(step: Step, key: string): boolean {
  for (let one: Step | null = step; one !== null; one = one.before) {
    if (one.depth > 0 && one.key === key) return true;
  }
  return false;
}

/** Where a string ends that begins there: behind its quote. */
function endOfText(text: string, start: number): number {
  let at = text.indexOf('"', start + 1);
  while (at > 0 && text.charCodeAt(at - 1) === BACKSLASH) {
    let before = at - 2;
    while (text.charCodeAt(before) === BACKSLASH) before -= 1;
    if ((at - before) % 2 === 1) break;
    at = text.indexOf('"', at + 1);
  }
  return at < 0 ? text.length : at + 1;
}

/** Where a value of JSON ends that begins there. */
function endOfValue(text: string, start: number): number {
  const first = text.charCodeAt(start);
  if (first === QUOTE) return endOfText(text, start);
  let at = start;
  if (first !== OPEN && first !== 91) {
    for (; at < text.length; at += 1) {
      const code = text.charCodeAt(at);
      if (code === COMMA || code === CLOSE) break;
    }
    return at;
  }
  let depth = 0;
  for (; at < text.length; ) {
    const code = text.charCodeAt(at);
    if (code === QUOTE) {
      at = endOfText(text, at);
      continue;
    }
    at += 1;
    if (code === OPEN || code === 91) depth += 1;
    else if (code === CLOSE || code === 93) {
      depth -= 1;
      if (depth === 0) break;
    }
  }
  return at;
}

/**
 * The keys of objects in their order, learned from the events that come: those of one source have
 * the same keys nearly always. Tells where values stand in a text without reading it.
 */

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

const QUOTE = 34;
const COMMA = 44;
const BACKSLASH = 92;
const OPEN = 123;
const CLOSE = 125;

/** Per event: where its line begins and ends in the text, and the shapes of it and of its properties. */
export const HEAD = { from: 0, to: 1, shape: 2, innerShape: 3, length: 4 } as const;

/** Lines of events and where their values end. */
export interface ScannedLines {
  readonly lines: readonly string[];
  /**
   * For each event the place of its numbers, then those: {@link HEAD}, then the end of each value of
   * the event and of each of its properties, from the beginning of the line.
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

  get isFull(): boolean {
    return this.#steps > MAX_STEPS;
  }

  /** Shapes in the order of their ids. */
  get shapes(): readonly Shape[] {
    return this.#shapes;
  }

  shapeOf(id: number | undefined): Shape | null {
    return id === undefined || id === 0 ? null : (this.#shapes[id - 1] ?? null);
  }

  /** @param text events as one line of JSON each, as `JSON.stringify` writes them */
  scan(text: string): ScannedLines {
    const lines = text.split("\n");
    let numbers: number[] = [];
    let from = 0;
    const places: number[] = [];
    for (const line of lines) {
      places.push(lines.length + numbers.length);
      const place = numbers.length;
      numbers.push(from, from + line.length, 0, 0);
      const step = this.#scanObject(this.#events, line, 0, numbers);
      const shape = step === null ? null : this.#shapeAt(step);
      if (shape === null) numbers.length = place + HEAD.length;
      else {
        numbers[place + HEAD.shape] = shape.id;
        const slot = shape.slots.get("properties");
        if (slot !== undefined) {
          const ends = place + HEAD.length;
          const before = slot === 0 ? 0 : (numbers[ends + slot - 1] as number);
          const at = before + 1 + (shape.lengths[slot] as number);
          const length = numbers.length;
          const inner =
            line.charCodeAt(at) === OPEN
              ? this.#scanObject(this.#properties, line, at, numbers)
              : null;
          const innerShape = inner === null ? null : this.#shapeAt(inner);
          if (innerShape === null) numbers.length = length;
          else numbers[place + HEAD.innerShape] = innerShape.id;
        }
      }
      from += line.length + 1;
    }
    numbers = places.concat(numbers);
    return { lines, numbers: Uint32Array.from(numbers), shapes: this };
  }

  /** Notes the ends of an object's values; null where it is not plain. */
  #scanObject(root: Step, text: string, start: number, ends: number[]): Step | null {
    let step = root;
    let at = start + 1;
    if (text.charCodeAt(at) === CLOSE) return root;
    for (;;) {
      const likely = step.next[0];
      const next =
        likely !== undefined && text.startsWith(likely.literal, at)
          ? likely
          : this.#nextOf(step, text, at);
      if (next === null || !next.isPlain) return null;
      step = next;
      at = endOfValue(text, at + step.literal.length);
      ends.push(at);
      const code = text.charCodeAt(at);
      if (code === CLOSE) return step;
      if (code !== COMMA) return null;
      at += 1;
    }
  }

  #nextOf(step: Step, text: string, at: number): Step | null {
    const { next } = step;
    for (let index = 1; index < next.length; index += 1) {
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
    // Read and written anew: a part of the text would hold all of it.
    const key = JSON.parse(text.slice(at, end)) as string;
    const literal = `${JSON.stringify(key)}:`;
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
    if (step.seen < 2) return null;
    const keys: string[] = [];
    const lengths: number[] = [];
    for (let one: Step | null = step; one !== null && one.depth > 0; one = one.before) {
      keys.unshift(one.key);
      lengths.unshift(one.literal.length);
    }
    const slots = new Map(keys.map((key, slot) => [key, slot]));
    step.shape = { id: this.#shapes.length + 1, keys, lengths, slots };
    this.#shapes.push(step.shape);
    return step.shape;
  }
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

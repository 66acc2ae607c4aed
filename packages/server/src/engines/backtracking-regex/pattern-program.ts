/** One instruction; `next` and branch targets are positions in the program. */
export type Instruction =
  /** Takes one code point. */
  | { readonly op: "take"; readonly set: CodePointSet }
  /** Goes on at `first`, and at `second` if that fails. */
  | { readonly op: "split"; readonly first: number; readonly second: number }
  | { readonly op: "jump"; readonly to: number }
  | { readonly op: "save"; readonly slot: number }
  /** Remembers where a repetition began, so that an empty one is not repeated for ever. */
  | { readonly op: "mark"; readonly slot: number }
  | { readonly op: "progress"; readonly slot: number }
  | { readonly op: "assert"; readonly what: Assertion }
  | { readonly op: "reference"; readonly group: number; readonly ignoresCase: boolean }
  /** Runs what follows up to its `done` aside, then goes on at `after`. */
  | {
      readonly op: "look";
      readonly ahead: boolean;
      readonly negated: boolean;
      /** How many code points what stands before may have, for looking behind. */
      readonly width: Width;
      readonly after: number;
    }
  | { readonly op: "done" };

export type Assertion = "start" | "end" | "word" | "notWord";

/** A compiled pattern. */
export interface Program {
  readonly instructions: readonly Instruction[];
  readonly slotCount: number;
  /** True when a match can only begin at the start. */
  readonly isAnchored: boolean;
}

/** Fewest and most code points something can match. */
export interface Width {
  readonly min: number;
  readonly max: number;
}

type Node =
  | { readonly kind: "take"; readonly set: CodePointSet }
  | { readonly kind: "assert"; readonly what: Assertion }
  | { readonly kind: "reference"; readonly group: number | string }
  | { readonly kind: "sequence" | "choice"; readonly nodes: readonly Node[] }
  | { readonly kind: "group"; readonly index: number; readonly node: Node }
  | {
      readonly kind: "look";
      readonly ahead: boolean;
      readonly negated: boolean;
      readonly node: Node;
    }
  | {
      readonly kind: "repeat";
      readonly node: Node;
      readonly min: number;
      readonly max: number;
      readonly isLazy: boolean;
    };

/**
 * Repetitions are written out, so that a program may not grow without bound. Core gives nothing away
 * that needs more, see its `MAX_BACKTRACKING_SIZE`.
 */
const MAX_INSTRUCTIONS = 20_000;

const QUANTIFIER = /(?:[*+?]|\{([0-9]+)(?:(,)([0-9]*))?\})(\??)/y;
const NAMED_GROUP = /\(\?<([A-Za-z_][A-Za-z0-9_]*)>/y;
const LOOK = /\(\?(<?)([=!])/y;
const REFERENCE = /\\(?:([1-9][0-9]?)|k<([A-Za-z_][A-Za-z0-9_]*)>)/y;
const CLASS = /\[(?:\\u\{[0-9A-Fa-f]+\}|\\[pP]\{[^}]*\}|\\[\s\S]|[^\]\\])*\]/y;
const ESCAPE = /\\(?:u\{[0-9A-Fa-f]+\}|x[0-9A-Fa-f]{2}|[pP]\{[^}]*\}|[\s\S])/y;

/** The code points a class, an escape, or a literal stands for. */
class CodePointSet {
  readonly #pattern: RegExp;
  readonly #ascii = new Uint8Array(128);

  constructor(source: string, flags: string) {
    // On a single code point the platform's engine has nothing to backtrack over.
    this.#pattern = new RegExp(`^(?:${source})$`, flags);
    for (let code = 0; code < 128; code += 1) {
      this.#ascii[code] = this.#pattern.test(String.fromCharCode(code)) ? 1 : 0;
    }
  }

  has(code: number): boolean {
    return code < 128 ? this.#ascii[code] === 1 : this.#pattern.test(String.fromCodePoint(code));
  }
}

/**
 * Compiles JavaScript source (as core restates patterns, with the `u` flag) to a program. `null`
 * when it is no valid pattern, or one whose written-out repetitions are too large.
 */
export function compileProgram(source: string, flags: string): Program | null {
  try {
    new RegExp(source, flags);
  } catch {
    return null;
  }
  const parser = new Parser(source, flags);
  const node = parser.parse();
  const compiler = new Compiler(parser, flags.includes("i"));
  return compiler.compile(node);
}

/** Reads source that is known to be valid. */
class Parser {
  groupCount = 0;
  readonly groupNames = new Map<string, number>();
  readonly #source: string;
  readonly #flags: string;
  #at = 0;

  constructor(source: string, flags: string) {
    this.#source = source;
    this.#flags = flags;
  }

  parse(): Node {
    const alternatives: Node[] = [];
    let nodes: Node[] = [];
    while (this.#at < this.#source.length && this.#source[this.#at] !== ")") {
      if (this.#source[this.#at] === "|") {
        this.#at += 1;
        alternatives.push({ kind: "sequence", nodes });
        nodes = [];
        continue;
      }
      nodes.push(this.#quantified(this.#atom()));
    }
    alternatives.push({ kind: "sequence", nodes });
    return { kind: "choice", nodes: alternatives };
  }

  #match(pattern: RegExp): RegExpExecArray | null {
    pattern.lastIndex = this.#at;
    const match = pattern.exec(this.#source);
    if (match !== null) this.#at += match[0].length;
    return match;
  }

  #atom(): Node {
    const char = this.#source[this.#at];
    if (char === "(") return this.#group();
    if (char === "^" || char === "$") {
      this.#at += 1;
      return { kind: "assert", what: char === "^" ? "start" : "end" };
    }
    const reference = this.#match(REFERENCE);
    if (reference !== null) {
      return { kind: "reference", group: reference[2] ?? Number(reference[1]) };
    }
    if (this.#source.startsWith("\\b", this.#at) || this.#source.startsWith("\\B", this.#at)) {
      const what = this.#source[this.#at + 1] === "b" ? "word" : "notWord";
      this.#at += 2;
      return { kind: "assert", what };
    }
    const set = this.#match(CLASS) ?? this.#match(ESCAPE);
    if (set !== null) return { kind: "take", set: new CodePointSet(set[0], this.#flags) };
    const point = String.fromCodePoint(this.#source.codePointAt(this.#at) ?? 0);
    this.#at += point.length;
    const quoted = `\\u{${(point.codePointAt(0) ?? 0).toString(16)}}`;
    return { kind: "take", set: new CodePointSet(point === "." ? "." : quoted, this.#flags) };
  }

  #group(): Node {
    const look = this.#match(LOOK);
    if (look !== null) {
      const node = this.#untilClosed();
      return { kind: "look", ahead: look[1] === "", negated: look[2] === "!", node };
    }
    if (this.#source.startsWith("(?:", this.#at)) {
      this.#at += 3;
      return this.#untilClosed();
    }
    this.groupCount += 1;
    const index = this.groupCount;
    const named = this.#match(NAMED_GROUP);
    if (named === null) this.#at += 1;
    else this.groupNames.set(named[1] ?? "", index);
    return { kind: "group", index, node: this.#untilClosed() };
  }

  #untilClosed(): Node {
    const node = this.parse();
    this.#at += 1;
    return node;
  }

  #quantified(node: Node): Node {
    const match = this.#match(QUANTIFIER);
    if (match === null) return node;
    const isLazy = match[4] === "?";
    const sign = match[0][0];
    if (sign !== "{") {
      const min = sign === "+" ? 1 : 0;
      return {
        kind: "repeat",
        node,
        min,
        max: sign === "?" ? 1 : Number.POSITIVE_INFINITY,
        isLazy,
      };
    }
    const min = Number(match[1]);
    const open = match[3] === "" ? Number.POSITIVE_INFINITY : Number(match[3]);
    return { kind: "repeat", node, min, max: match[2] === undefined ? min : open, isLazy };
  }
}

class TooLarge extends Error {}

class Compiler {
  readonly #instructions: Instruction[] = [];
  readonly #parser: Parser;
  readonly #ignoresCase: boolean;
  #slotCount: number;

  constructor(parser: Parser, ignoresCase: boolean) {
    this.#parser = parser;
    this.#ignoresCase = ignoresCase;
    this.#slotCount = 2 * (parser.groupCount + 1);
  }

  compile(node: Node): Program | null {
    try {
      this.#emit(node);
    } catch (error) {
      if (error instanceof TooLarge) return null;
      throw error;
    }
    this.#add({ op: "done" });
    return {
      instructions: this.#instructions,
      slotCount: this.#slotCount,
      isAnchored: isAnchored(node),
    };
  }

  #add(instruction: Instruction): number {
    if (this.#instructions.length >= MAX_INSTRUCTIONS) throw new TooLarge();
    return this.#instructions.push(instruction) - 1;
  }

  #emit(node: Node): void {
    switch (node.kind) {
      case "take":
        this.#add({ op: "take", set: node.set });
        break;
      case "assert":
        this.#add({ op: "assert", what: node.what });
        break;
      case "reference": {
        const group =
          typeof node.group === "number"
            ? node.group
            : (this.#parser.groupNames.get(node.group) ?? 0);
        this.#add({ op: "reference", group, ignoresCase: this.#ignoresCase });
        break;
      }
      case "sequence":
        for (const part of node.nodes) this.#emit(part);
        break;
      case "choice":
        this.#choice(node.nodes);
        break;
      case "group":
        this.#add({ op: "save", slot: 2 * node.index });
        this.#emit(node.node);
        this.#add({ op: "save", slot: 2 * node.index + 1 });
        break;
      case "look": {
        const at = this.#add({ op: "done" });
        this.#emit(node.node);
        this.#add({ op: "done" });
        const { ahead, negated } = node;
        const after = this.#instructions.length;
        this.#instructions[at] = { op: "look", ahead, negated, width: widthOf(node.node), after };
        break;
      }
      case "repeat":
        this.#repeat(node);
        break;
    }
  }

  #choice(nodes: readonly Node[]): void {
    const jumps: number[] = [];
    for (const [index, node] of nodes.entries()) {
      if (index === nodes.length - 1) {
        this.#emit(node);
        break;
      }
      const split = this.#add({ op: "done" });
      this.#emit(node);
      jumps.push(this.#add({ op: "done" }));
      const second = this.#instructions.length;
      this.#instructions[split] = { op: "split", first: split + 1, second };
    }
    const to = this.#instructions.length;
    for (const jump of jumps) this.#instructions[jump] = { op: "jump", to };
  }

  #repeat({ node, min, max, isLazy }: Extract<Node, { kind: "repeat" }>): void {
    for (let count = 0; count < min; count += 1) this.#emit(node);
    if (max === Number.POSITIVE_INFINITY) {
      this.#optional(node, isLazy, true);
      return;
    }
    const splits: number[] = [];
    for (let count = min; count < max; count += 1) {
      splits.push(this.#add({ op: "done" }));
      this.#emit(node);
    }
    const exit = this.#instructions.length;
    for (const split of splits) this.#instructions[split] = splitOf(split + 1, exit, isLazy);
  }

  /** A loop whose every turn must take something. */
  #optional(node: Node, isLazy: boolean, mayBeEmpty: boolean): void {
    const split = this.#add({ op: "done" });
    const slot = mayBeEmpty && widthOf(node).min === 0 ? this.#slotCount++ : null;
    if (slot !== null) this.#add({ op: "mark", slot });
    this.#emit(node);
    if (slot !== null) this.#add({ op: "progress", slot });
    this.#add({ op: "jump", to: split });
    this.#instructions[split] = splitOf(split + 1, this.#instructions.length, isLazy);
  }
}

function splitOf(body: number, exit: number, isLazy: boolean): Instruction {
  return isLazy
    ? { op: "split", first: exit, second: body }
    : { op: "split", first: body, second: exit };
}

function isAnchored(node: Node): boolean {
  switch (node.kind) {
    case "assert":
      return node.what === "start";
    case "choice":
      return node.nodes.length > 0 && node.nodes.every(isAnchored);
    case "sequence":
      return node.nodes[0] !== undefined && isAnchored(node.nodes[0]);
    case "group":
      return isAnchored(node.node);
    default:
      return false;
  }
}

function widthOf(node: Node): Width {
  switch (node.kind) {
    case "take":
      return { min: 1, max: 1 };
    case "assert":
    case "look":
      return { min: 0, max: 0 };
    case "reference":
      return { min: 0, max: Number.POSITIVE_INFINITY };
    case "group":
      return widthOf(node.node);
    case "sequence":
      return node.nodes
        .map(widthOf)
        .reduce((sum, width) => ({ min: sum.min + width.min, max: sum.max + width.max }), {
          min: 0,
          max: 0,
        });
    case "choice": {
      const widths = node.nodes.map(widthOf);
      return {
        min: Math.min(...widths.map((width) => width.min)),
        max: Math.max(...widths.map((width) => width.max)),
      };
    }
    case "repeat": {
      const { min, max } = widthOf(node.node);
      // Nothing repeated for ever is still nothing.
      return { min: min * node.min, max: max === 0 ? 0 : max * node.max };
    }
  }
}

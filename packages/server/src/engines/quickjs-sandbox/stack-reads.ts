import type { BuildOptions } from "esbuild";
import type { SourceFiles } from "../../transformations/sandbox.ts";

/** What the bundler is told to call `stack` where it is the name of a property: nothing else is called so. */
const MARK = "__stack_";
/** How all names begin that are put into a source. */
const RESERVED = "__stack";

/** What a source is given before its code where it reads stacks, from the guest's module `stack`. */
export const STACK_READERS = `{ of: ${RESERVED}Of, within: ${RESERVED}Within, mended: ${RESERVED}Mended }`;

const MENTION = /[.{,]\s*stack\b/;

/**
 * Settings of the bundler by which it marks what reads `stack`, since the engine's has no first line
 * (`TypeError: message`): nothing where no source mentions it.
 */
export function markStacks(files: SourceFiles): Pick<BuildOptions, "mangleProps" | "mangleCache"> {
  const texts = Object.values(files);
  const isMentioned = texts.some((text) => MENTION.test(text));
  if (!isMentioned || texts.some((text) => text.includes(RESERVED))) return {};
  return { mangleProps: /^stack$/, mangleCache: { stack: MARK } };
}

/** The code with its marks replaced: reads of `stack` by calls of what {@link STACK_READERS} names. */
export function readStacks(code: string): { readonly code: string; readonly hasReads: boolean } {
  if (!code.includes(MARK)) return { code, hasReads: false };
  const edits = new Reader(code).read();
  // What is found later stands around what was found before.
  edits.sort((one, other) => one.at - other.at || other.order - one.order);
  const parts: string[] = [];
  let from = 0;
  for (const { at, length, text } of edits) {
    parts.push(code.slice(from, at), text);
    from = at + length;
  }
  parts.push(code.slice(from));
  return { code: parts.join("").replaceAll(MARK, "stack"), hasReads: edits.length > 0 };
}

interface Edit {
  readonly at: number;
  readonly length: number;
  readonly text: string;
  readonly order: number;
}

/** What depends on whether the list or object where it stands takes something apart. */
interface Open {
  readonly inPattern: boolean;
  readonly edits: readonly Edit[];
}

/** A bracket that is open, and the latest operand in it: `a.b(c)`, from `new` on. */
interface Frame {
  readonly bracket: string;
  /** The token before it, and the one before the operand that it belongs to. */
  readonly before: string;
  readonly ahead: string;
  /** Whether it belongs to the operand before it, as in `f(` and `a[`. */
  readonly isTight: boolean;
  /** Whether it may be a part of the pattern that the bracket around it may be. */
  readonly isElement: boolean;
  start: number;
  /** The token before the operand. */
  aheadOfStart: string;
  isFirst: boolean;
  /** How many `new` wait for their arguments. */
  news: number;
  isOptional: boolean;
  /** Whether nothing was computed since the last comma. */
  isPlain: boolean;
  open: Open[];
}

const WORD = /[\w$#@\u0080-\uffff]+/y;
const DIGITS = /\d[\w.]*|\.\d\w*/y;
const SPACE = /\s+|\/\/[^\n]*|\/\*[\s\S]*?\*\//y;
const SIGN = /\.\.\.|\?\.(?!\d)|=>|\+\+|--|[\s\S]/y;
const ASSIGNED = /\s*(?:(?:\*\*|<<|>>>?|&&|\|\||\?\?|[-+*/%&|^])?=(?![=>])|\+\+|--)/y;
const SET = / =(?![=>])/y;
const OF = / of /y;
const IN = / in /y;
const ARROW = / =>/y;
const BLOCK = / \{/y;
const CALLED = /\(|`|\?\.\(/y;
const GOES_ON = /\.|\[|\?\.(?!\d)/y;
const ENDS_ELEMENT = /\s*[,\]}]/y;
/** Words behind which `/` begins an expression. */
const OPERATORS =
  /^(?:await|case|delete|do|else|extends|in|instanceof|new|of|return|throw|typeof|void|yield)$/;
/** Words whose brackets are followed by a statement. */
const HEADS = /^(?:await|for|if|while|with)$/;
const DECLARES = /^(?:const|let|var)$/;

/**
 * Finds reads in what the bundler wrote, whose form is always the same: blanks stand before brackets
 * that belong to no operand, bodies of `if` on lines of their own. What is not understood stays as it
 * is, so that it reads the engine's stack.
 */
class Reader {
  readonly #code: string;
  readonly #edits: Edit[] = [];
  readonly #frames: Frame[] = [];
  #frame: Frame;
  #at = 0;
  #order = 0;
  /** The last token; for texts, numbers and expressions one sign. */
  #last = ";";
  #lastEnd = 0;
  #isOperand = false;

  constructor(code: string) {
    this.#code = code;
    this.#frame = frameOf("", "", "", false, false);
  }

  read(): Edit[] {
    while (this.#at < this.#code.length) this.#token();
    for (const frame of [...this.#frames, this.#frame]) this.#settle(frame.open, false);
    return this.#edits;
  }

  #token(): void {
    const at = this.#at;
    const first = this.#code[at] as string;
    const space = first <= " " || first === "/" ? this.#match(SPACE, at) : null;
    if (space !== null) {
      this.#at += space.length;
      return;
    }
    const isTight = at === this.#lastEnd;
    if (first === '"' || first === "'") {
      this.#value(at, endOfText(this.#code, at + 1, first));
    } else if (first === "`") {
      if (!(isTight && this.#isOperand)) this.#begin(at);
      this.#at = at + 1;
      this.#template();
    } else if (isDigit(first) || (first === "." && isDigit(this.#code[at + 1]))) {
      this.#value(at, at + (this.#match(DIGITS, at) ?? first).length);
    } else if (first === "/" && this.#mayBeRegex(at)) {
      this.#value(at, endOfRegex(this.#code, at + 1));
    } else {
      const word = this.#match(WORD, at);
      if (word !== null) this.#word(at, word);
      else this.#sign(at, this.#match(SIGN, at) ?? first, isTight);
    }
  }

  #word(at: number, word: string): void {
    const last = this.#last;
    if (word === MARK && (last === "." || last === "?.")) {
      this.#member(at, last);
      return;
    }
    const isKey = word === MARK && this.#frame.bracket === "{" && /^[{,]$/.test(last);
    if (isKey && this.#code[at + word.length] === ":") {
      const text = `[${RESERVED}Mended]: {} = 0, stack`;
      const edit = { at, length: word.length, text, order: this.#order++ };
      this.#frame.open.push({ inPattern: true, edits: [edit] });
    }
    if (last !== "." && last !== "?.") this.#begin(at);
    if (word === "new") this.#frame.news += 1;
    this.#end(at + word.length, word, !OPERATORS.test(word));
  }

  #sign(at: number, sign: string, isTight: boolean): void {
    const frame = this.#frame;
    const end = at + sign.length;
    switch (sign) {
      case "(":
      case "[":
      case "{": {
        const continues =
          sign !== "{" && isTight && (this.#isOperand || /^(?:\?\.|[\w$#]+)$/.test(this.#last));
        const isElement = /^[[({,:]$|^\.\.\.$/.test(this.#last) && frame.isPlain;
        if (!continues) {
          if (sign === "{" && (this.#isOperand || this.#last === "=>")) frame.start = -1;
          else this.#begin(at);
        } else if (sign === "(" && frame.news > 0) frame.news -= 1;
        this.#frames.push(frame);
        this.#frame = frameOf(sign, this.#last, frame.aheadOfStart, continues, isElement);
        this.#end(end, sign, false);
        return;
      }
      case ")":
      case "]":
      case "}":
        this.#close(end, sign);
        return;
      case "++":
      case "--":
        this.#end(end, sign, isTight && this.#isOperand);
        return;
      case "?.":
        frame.isOptional = true;
        break;
      case ".":
        // `new.target`
        if (this.#last === "new") frame.news -= 1;
        break;
      case ",":
        frame.isPlain = true;
        break;
      case "=":
      case "?":
        frame.isPlain = false;
        break;
    }
    this.#end(end, sign, false);
  }

  #close(end: number, sign: string): void {
    const closed = this.#frame;
    const isTemplate = closed.bracket === "${";
    this.#frame = this.#frames.pop() ?? frameOf("", "", "", false, false);
    const isHead = closed.bracket === "(" && !closed.isTight && HEADS.test(closed.before);
    this.#end(end, sign, !isHead);
    if (closed.open.length > 0) {
      const isPattern = this.#isPattern(closed, end);
      if (isPattern || !closed.isElement || closed.bracket === "(" || closed.isTight) {
        this.#settle(closed.open, isPattern);
      } else if (/^[[({]$/.test(this.#frame.bracket)) {
        for (const open of closed.open) this.#frame.open.push(open);
      } else this.#settle(closed.open, false);
    }
    if (isTemplate) this.#template();
  }

  /** Whether what was closed takes something apart. */
  #isPattern({ bracket, before, ahead, isTight }: Frame, end: number): boolean {
    if (bracket === "(") {
      if (this.#match(ARROW, end) !== null) return true;
      if (this.#match(BLOCK, end) === null) return false;
      return isTight ? ahead !== "extends" : before === "*" || before === "catch";
    }
    if (isTight || bracket === "${") return false;
    if (this.#match(SET, end) !== null || this.#match(OF, end) !== null) return true;
    const isHead = before === "(" && this.#frame.before === "for";
    return (DECLARES.test(before) || isHead) && this.#match(IN, end) !== null;
  }

  /** Reads on in a template, up to its end or to what is put into it. */
  #template(): void {
    const end = endOfText(this.#code, this.#at, "`");
    if (this.#code[end - 1] !== "{") {
      this.#end(end, "`", true);
      return;
    }
    this.#frames.push(this.#frame);
    this.#frame = frameOf("${", "`", "", false, false);
    this.#end(end, "${", false);
  }

  #member(at: number, dot: string): void {
    const frame = this.#frame;
    const end = at + MARK.length;
    // What comes behind is left together with what may be left before.
    const wasOptional = dot === "." && frame.isOptional;
    const order = this.#order++;
    if (this.#isRead(frame, end, wasOptional)) {
      const name = dot === "." ? "Of" : "Within";
      const edits = [
        { at: frame.start, length: 0, text: `${RESERVED}${name}(`, order },
        {
          at: at - dot.length,
          length: dot.length + MARK.length,
          text: dot === "." ? ")" : ")?.stack",
          order,
        },
      ];
      const isWhole = this.#match(ENDS_ELEMENT, end) !== null && /^[[{]$/.test(frame.bracket);
      const isElement = isWhole && frame.isPlain && /^[[,:]$|^\.\.\.$/.test(frame.aheadOfStart);
      if (isElement && !frame.isTight) frame.open.push({ inPattern: false, edits });
      else this.#edits.push(...edits);
    }
    this.#end(end, MARK, true);
  }

  #isRead(frame: Frame, end: number, wasOptional: boolean): boolean {
    const { start, news, aheadOfStart } = frame;
    if (start < 0 || news > 0 || wasOptional || this.#match(CALLED, end) !== null) return false;
    if (/^super\??\.$/.test(this.#code.slice(start, end - MARK.length))) return false;
    if (this.#match(GOES_ON, end) !== null) return true;
    if (/^(?:delete|\+\+|--)$/.test(aheadOfStart) || this.#match(ASSIGNED, end) !== null)
      return false;
    const isHead = frame.bracket === "(" && frame.before === "for" && frame.isFirst;
    return this.#match(OF, end) === null && !(isHead && this.#match(IN, end) !== null);
  }

  #value(at: number, end: number): void {
    this.#begin(at);
    this.#end(end, '"', true);
  }

  /** An operand begins, unless it belongs to a `new`. */
  #begin(at: number): void {
    const frame = this.#frame;
    if (this.#last === "new" && frame.news > 0) return;
    frame.isFirst = frame.start === -1 && this.#last === frame.bracket;
    frame.start = at;
    frame.aheadOfStart = this.#last;
    frame.news = 0;
    frame.isOptional = false;
  }

  #end(end: number, token: string, isOperand: boolean): void {
    this.#at = end;
    this.#lastEnd = end;
    this.#last = token;
    this.#isOperand = isOperand;
  }

  #mayBeRegex(at: number): boolean {
    return !this.#isOperand || this.#code.slice(this.#lastEnd, at).includes("\n");
  }

  #settle(open: readonly Open[], isPattern: boolean): void {
    for (const { inPattern, edits } of open) {
      if (inPattern === isPattern) this.#edits.push(...edits);
    }
  }

  #match(pattern: RegExp, at: number): string | null {
    pattern.lastIndex = at;
    return pattern.exec(this.#code)?.[0] ?? null;
  }
}

function isDigit(sign: string | undefined): boolean {
  return sign !== undefined && sign >= "0" && sign <= "9";
}

/** Where a text ends that has begun; that of a template also where something is put into it. */
function endOfText(code: string, from: number, quote: string): number {
  for (let at = from; at < code.length; at += 1) {
    const sign = code[at];
    if (sign === "\\") at += 1;
    else if (sign === quote) return at + 1;
    else if (sign === "$" && quote === "`" && code[at + 1] === "{") return at + 2;
  }
  return code.length;
}

/** Where an expression `/…/` ends that has begun. */
function endOfRegex(code: string, from: number): number {
  let isClass = false;
  for (let at = from; at < code.length; at += 1) {
    const sign = code[at];
    if (sign === "\\") at += 1;
    else if (sign === "[") isClass = true;
    else if (sign === "]") isClass = false;
    else if (sign === "/" && !isClass) return at + 1;
  }
  return code.length;
}

function frameOf(
  bracket: string,
  before: string,
  ahead: string,
  isTight: boolean,
  isElement: boolean,
): Frame {
  return {
    bracket,
    before,
    ahead,
    isTight,
    isElement,
    start: -1,
    aheadOfStart: "",
    isFirst: false,
    news: 0,
    isOptional: false,
    isPlain: true,
    open: [],
  };
}

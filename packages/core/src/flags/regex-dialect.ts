/**
 * A pattern as the server's dialect writes it, restated for the two engines that run it here: a
 * linear-time one (RE2 syntax) and, for look-around and back-references, a backtracking one
 * (JavaScript syntax with the `u` flag).
 */
export interface RestatedPattern {
  /** RE2 syntax; `null` where the pattern uses what a linear-time engine cannot have. */
  readonly linear: string | null;
  /** JavaScript source and flags; `null` where JavaScript lacks a construct. */
  readonly backtracking: { readonly source: string; readonly flags: string } | null;
  /** Upper estimate of the program a linear-time engine would build, in instructions. */
  readonly programSize: number;
  /** Classes of Unicode properties in it, each of which stands for hundreds of ranges. */
  readonly propertyClasses: number;
  /** Set when the pattern is plain text, at most anchored at its ends. */
  readonly literal: LiteralPattern | null;
}

/** A pattern that is a text: where it must stand in the subject. */
export interface LiteralPattern {
  readonly text: string;
  readonly atStart: boolean;
  readonly atEnd: boolean;
}

/** Group nesting beyond this is refused: both engines parse recursively. */
const MAX_GROUP_DEPTH = 100;

/** Most classes of Unicode properties in a pattern: each stands for hundreds of ranges to be merged. */
const MAX_PROPERTY_CLASSES = 100;

/** Estimated program sizes saturate here. */
const HUGE = 1_000_000;

const POSIX_CLASSES: Readonly<Record<string, string>> = {
  alnum: "0-9A-Za-z",
  alpha: "A-Za-z",
  ascii: "\\x00-\\x7f",
  blank: "\\t ",
  cntrl: "\\x00-\\x1f\\x7f",
  digit: "0-9",
  graph: "!-~",
  lower: "a-z",
  print: " -~",
  punct: "!-\\/:-@\\[-`{-~",
  space: "\\t\\n\\v\\f\\r ",
  upper: "A-Z",
  word: "0-9A-Za-z_",
  xdigit: "0-9A-Fa-f",
};

/** Values of `\p{…}` that JavaScript spells as a script. */
const SCRIPT_NAME = /^[A-Z][a-z]+(?:_[A-Z][a-z]+)*$/;
const CATEGORY_NAME = /^(?:[A-Z][a-z]?|Any|ASCII|Alphabetic|Letter|Mark|Number|Punctuation)$/;

/**
 * Reads a pattern once and restates it. `null` when it is malformed in a way no engine accepts.
 * Leading inline flags (`(?i)`, also `m`, `s`, `x`, `u`) hold for the whole pattern.
 */
export function restatePattern(pattern: string): RestatedPattern | null {
  const leading = /^\(\?([imsxuU]+)\)/.exec(pattern);
  const flags = leading?.[1] ?? "";
  const body = pattern.slice(leading?.[0].length ?? 0);
  const reader = new PatternReader(flags.includes("x") ? dropLayout(body) : body, flags);
  if (!reader.read()) return null;
  const linearFlags = flags.replace(/[xu]/g, "");
  return {
    linear: reader.isLinear
      ? (linearFlags === "" ? "" : `(?${linearFlags})`) + reader.linear
      : null,
    backtracking:
      reader.isJavaScript && !flags.includes("U")
        ? { source: reader.javaScript, flags: flags.includes("i") ? "iu" : "u" }
        : null,
    programSize: reader.programSize,
    propertyClasses: reader.propertyClasses,
    literal: flags === "" ? readLiteral(body) : null,
  };
}

/** The `x` flag: spaces and comments outside classes are layout. */
function dropLayout(body: string): string {
  return body.replace(/\\[\s\S]|\[(?:\\[\s\S]|[^\]])*\]|\s+|#.*/g, (part) =>
    /^[\s#]/.test(part) ? "" : part,
  );
}

function readLiteral(body: string): LiteralPattern | null {
  const atStart = body.startsWith("^");
  const rest = atStart ? body.slice(1) : body;
  const match = /^((?:[^\\^$.*+?()[\]{}|]|\\[-!"#$%&'()*+,./:;=?@[\\\]^_`{|}~])*)(\$?)$/.exec(rest);
  if (match === null) return null;
  return {
    text: (match[1] as string).replace(/\\([\s\S])/g, "$1"),
    atStart,
    atEnd: match[2] === "$",
  };
}

/** One pass over a pattern, writing both restatements. */
class PatternReader {
  linear = "";
  javaScript = "";
  isLinear = true;
  isJavaScript = true;
  programSize = 0;
  propertyClasses = 0;
  readonly #text: string;
  readonly #multiLine: boolean;
  readonly #dotAll: boolean;
  #at = 0;

  constructor(text: string, flags: string) {
    this.#text = text;
    this.#multiLine = flags.includes("m");
    this.#dotAll = flags.includes("s");
  }

  read(): boolean {
    const size = this.#readAlternatives(0);
    if (size === null || this.#at < this.#text.length) return false;
    this.programSize = Math.min(size, HUGE);
    return true;
  }

  /** Estimated size, or `null` when malformed. Stops at the closing parenthesis. */
  #readAlternatives(depth: number): number | null {
    if (depth > MAX_GROUP_DEPTH) return null;
    let size = 1;
    while (this.#at < this.#text.length) {
      const char = this.#text[this.#at] as string;
      if (char === ")") return size;
      if (char === "|") {
        this.#both("|");
        size += 1;
        continue;
      }
      const atom = this.#readAtom(char, depth);
      if (atom === null) return null;
      size = Math.min(size + this.#readQuantifier(atom), HUGE);
    }
    return size;
  }

  #readAtom(char: string, depth: number): number | null {
    switch (char) {
      case "(":
        return this.#readGroup(depth);
      case "[":
        return this.#readClass();
      case "\\":
        return this.#readEscape();
      case ".":
        this.#write(".", this.#dotAll ? "[\\s\\S]" : "[^\\n]");
        return 1;
      case "^":
        this.#write("^", this.#multiLine ? "(?<![^\\n])" : "^");
        return 1;
      case "$":
        this.#write("$", this.#multiLine ? "(?![^\\n])" : "$");
        return 1;
      case "*":
      case "+":
      case "?":
        return null;
      case "{":
      case "}":
      case "]":
        this.#write(char, `\\${char}`);
        return 1;
      default: {
        const point = String.fromCodePoint(this.#text.codePointAt(this.#at) as number);
        this.#both(point);
        return 1;
      }
    }
  }

  #readGroup(depth: number): number | null {
    const rest = this.#text.slice(this.#at, this.#at + 80);
    const comment = /^\(\?#[^)]*\)/.exec(rest);
    if (comment !== null) {
      this.#at += comment[0].length;
      return 0;
    }
    const named = /^\(\?P?<([A-Za-z_][A-Za-z0-9_]*)>/.exec(rest);
    const reference = /^\(\?P=([A-Za-z_][A-Za-z0-9_]*)\)/.exec(rest);
    if (reference !== null) {
      this.isLinear = false;
      this.#write(reference[0], `\\k<${reference[1]}>`);
      return 1;
    }
    if (named !== null) {
      this.#write(named[0], `(?<${named[1]}>`, `(?P<${named[1]}>`);
    } else if (/^\(\?(?:[=!]|<[=!])/.test(rest)) {
      this.isLinear = false;
      this.#both(rest.startsWith("(?<") ? rest.slice(0, 4) : rest.slice(0, 3));
    } else if (rest.startsWith("(?:")) {
      this.#both("(?:");
    } else if (rest.startsWith("(?")) {
      // Scoped flags, atomic groups and the like: JavaScript has none of them.
      const opening = /^\(\?[imsU-]+[:)]/.exec(rest);
      if (opening === null) return null;
      this.isJavaScript = false;
      this.#both(opening[0]);
      if (opening[0].endsWith(")")) return 0;
    } else {
      this.#both("(");
    }
    const size = this.#readAlternatives(depth + 1);
    if (size === null || this.#text[this.#at] !== ")") return null;
    this.#both(")");
    return size + 2;
  }

  /** Reads a quantifier if one follows; the size of the atom repeated. */
  #readQuantifier(atom: number): number {
    const match = /^(?:[*+?]|\{([0-9]+)(?:(,)([0-9]*))?\})/.exec(
      this.#text.slice(this.#at, this.#at + 30),
    );
    if (match === null) return atom;
    this.#both(match[0]);
    if (this.#text[this.#at] === "?") this.#both("?");
    else if (this.#text[this.#at] === "+") {
      // Possessive.
      this.isLinear = false;
      this.isJavaScript = false;
      this.#both("+");
    }
    if (match[1] === undefined) return atom + 1;
    const low = Number(match[1]);
    const high = match[3] === undefined || match[3] === "" ? low + 1 : Number(match[3]);
    return atom * Math.max(low, high, 1) + 1;
  }

  #readEscape(): number | null {
    const rest = this.#text.slice(this.#at, this.#at + 60);
    const escaped = this.#restateEscape(rest, false);
    if (escaped === null) return null;
    this.#write(escaped.consumed, escaped.javaScript, escaped.linear);
    return 1;
  }

  #restateEscape(
    rest: string,
    inClass: boolean,
  ): { consumed: string; javaScript: string; linear: string } | null {
    const code =
      /^\\(?:x\{([0-9A-Fa-f]{1,6})\}|u\{([0-9A-Fa-f]{1,6})\}|x([0-9A-Fa-f]{2})|u([0-9A-Fa-f]{4}))/.exec(
        rest,
      );
    if (code !== null) {
      const hex = code[1] ?? code[2] ?? code[3] ?? code[4] ?? "";
      if (Number.parseInt(hex, 16) > 0x10ffff) return null;
      return { consumed: code[0], javaScript: `\\u{${hex}}`, linear: `\\x{${hex}}` };
    }
    const property = /^\\([pP])(?:([A-Z])|\{(\^?)([A-Za-z_=]+)\})/.exec(rest);
    if (property !== null) {
      const name = property[2] ?? property[4] ?? "";
      const negated = (property[1] === "P") !== (property[3] === "^");
      if (!CATEGORY_NAME.test(name) && !name.includes("=") && !SCRIPT_NAME.test(name)) return null;
      this.propertyClasses += 1;
      if (this.propertyClasses > MAX_PROPERTY_CLASSES) return null;
      const value = CATEGORY_NAME.test(name) || name.includes("=") ? name : `Script=${name}`;
      return {
        consumed: property[0],
        javaScript: `\\${negated ? "P" : "p"}{${value}}`,
        linear: property[0],
      };
    }
    const reference = inClass ? null : /^\\(?:[1-9][0-9]?|k<[A-Za-z_][A-Za-z0-9_]*>)/.exec(rest);
    if (reference !== null) {
      this.isLinear = false;
      return { consumed: reference[0], javaScript: reference[0], linear: reference[0] };
    }
    const char = rest[1];
    if (char === undefined) return null;
    const consumed = rest.slice(0, 2);
    if ("dDwWsSnrtfv".includes(char)) return { consumed, javaScript: consumed, linear: consumed };
    if (!inClass) {
      if (char === "b" || char === "B") return { consumed, javaScript: consumed, linear: consumed };
      if (char === "A") return { consumed, javaScript: "(?<![\\s\\S])", linear: consumed };
      if (char === "z") return { consumed, javaScript: "(?![\\s\\S])", linear: consumed };
      if (char === "Z") {
        this.isLinear = false;
        return { consumed, javaScript: "(?=\\n?(?![\\s\\S]))", linear: consumed };
      }
    }
    if (char === "a") return { consumed, javaScript: "\\x07", linear: consumed };
    if (char === "h" || char === "H") {
      if (inClass) return null;
      const set = char === "h" ? "[0-9A-Fa-f]" : "[^0-9A-Fa-f]";
      return { consumed, javaScript: set, linear: set };
    }
    if (/[0-9A-Za-z]/.test(char) || char > "\x7f") return null;
    return { consumed, javaScript: quotedInJavaScript(char), linear: consumed };
  }

  #readClass(): number | null {
    const start = this.#at;
    let at = start + 1;
    let javaScript = "[";
    let linear = "[";
    if (this.#text[at] === "^") {
      javaScript += "^";
      linear += "^";
      at += 1;
    }
    for (let first = true; ; first = false) {
      const char = this.#text[at];
      if (char === undefined) return null;
      if (char === "]" && !first) break;
      const rest = this.#text.slice(at, at + 60);
      const posix = /^\[:(\^?)([a-z]+):\]/.exec(rest);
      if (posix !== null) {
        const members = Object.hasOwn(POSIX_CLASSES, posix[2] ?? "")
          ? POSIX_CLASSES[posix[2] ?? ""]
          : undefined;
        if (members === undefined) return null;
        if (posix[1] === "^") this.isJavaScript = false;
        javaScript += members;
        linear += posix[0];
        at += posix[0].length;
      } else if (char === "\\") {
        const escaped = this.#restateEscape(rest, true);
        if (escaped === null) return null;
        javaScript += escaped.javaScript;
        linear += escaped.linear;
        at += escaped.consumed.length;
      } else if (char === "-") {
        javaScript += "-";
        linear += "-";
        at += 1;
      } else {
        const point = String.fromCodePoint(this.#text.codePointAt(at) as number);
        javaScript += /[[\]{}()|/^$.*+?]/.test(point) ? `\\${point}` : point;
        linear += point === "[" || (point === "]" && first) ? `\\${point}` : point;
        at += point.length;
      }
    }
    this.#write(this.#text.slice(start, at + 1), `${javaScript}]`, `${linear}]`);
    return 2;
  }

  #both(text: string): void {
    this.#write(text, text);
  }

  #write(consumed: string, javaScript: string, linear: string = consumed): void {
    this.#at += consumed.length;
    this.javaScript += javaScript;
    this.linear += linear;
  }
}

function quotedInJavaScript(char: string): string {
  if ("^$\\.*+?()[]{}|/".includes(char)) return `\\${char}`;
  return `\\x${char.charCodeAt(0).toString(16).padStart(2, "0")}`;
}

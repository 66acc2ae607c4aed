import type { SourceFiles } from "../../transformations/sandbox.ts";

/** How the bundler writes a class that mentions itself. */
const OWN_CLASS = /^ *(?:var )?[\w$]+ = class _([\w$]+)(?: extends [\w$.]+)? \{$/gm;
/** How it numbers what has the name of something further out: classes, and constructors of old. */
const NUMBERED_CLASS =
  /^ *(?:return )?(?:(?:var |let |const )?[\w$.]+ = )?class ([A-Z][\w$]*\d)(?: extends [^{}\n]*)? \{$/gm;
const NUMBERED_FUNCTION = /^( *)(function ([A-Z][\w$]*\d)\()/gm;
/** What may be the name of a class. */
const WORD = /\b[A-Z][\w$]*/g;
/** The bundler's numbers are no longer than this. */
const MAX_DIGITS = 6;

/**
 * Gives classes the names that their sources give them, and functions that may be constructors too:
 * the bundler calls them otherwise where one name stands within the reach of another. No line moves.
 */
export function restoreNames(code: string, files: SourceFiles): string {
  const texts = Object.values(files);
  const own = new Set<string | undefined>();
  for (const text of texts) {
    for (const [, name] of text.matchAll(/\bclass _([\w$]+)/g)) own.add(name);
  }
  const originals = originalsOf(code, texts);
  return code
    .replace(OWN_CLASS, (line: string, name: string) =>
      own.has(name) ? line : `${line} static { ${naming("this", name)} }`,
    )
    .replace(NUMBERED_CLASS, (line: string, name: string) => {
      const original = originals.get(name);
      return original === undefined ? line : `${line} static { ${naming("this", original)} }`;
    })
    .replace(NUMBERED_FUNCTION, (line: string, indent: string, start: string, name: string) => {
      const original = originals.get(name);
      return original === undefined ? line : `${indent}${naming(name, original)} ${start}`;
    });
}

/** The names that were numbered, with what they were before: no numbered one stands in the sources, and that does. */
function originalsOf(code: string, texts: readonly string[]): Map<string, string> {
  const candidates = new Map<string, readonly string[]>();
  const wanted = new Set<string>();
  for (const pattern of [NUMBERED_CLASS, NUMBERED_FUNCTION]) {
    for (const match of code.matchAll(pattern)) {
      const name = match.at(-1) as string;
      if (candidates.has(name)) continue;
      const shorter = withFewerDigits(name);
      candidates.set(name, shorter);
      for (const word of [name, ...shorter]) wanted.add(word);
    }
  }
  const written = new Set<string>();
  for (const text of wanted.size > 0 ? texts : []) {
    for (const [word] of text.matchAll(WORD)) if (wanted.has(word)) written.add(word);
  }
  const originals = new Map<string, string>();
  for (const [name, shorter] of candidates) {
    const original = shorter.find((word) => written.has(word));
    if (!written.has(name) && original !== undefined) originals.set(name, original);
  }
  return originals;
}

/** A name without its last digit, without its last two, and so on: the longest first. */
function withFewerDigits(name: string): string[] {
  const shorter: string[] = [];
  for (let digits = 1; digits <= MAX_DIGITS && /\d/.test(name.at(-digits) ?? ""); digits += 1) {
    shorter.push(name.slice(0, -digits));
  }
  return shorter;
}

function naming(target: string, name: string): string {
  return `Object.defineProperty(${target}, "name", { value: "${name}", configurable: true });`;
}

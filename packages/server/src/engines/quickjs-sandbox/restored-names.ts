import type { SourceFiles } from "../../transformations/sandbox.ts";

/** How the bundler writes a class that mentions itself. */
const OWN_CLASS = /^ *(?:var )?[\w$]+ = class _([\w$]+)(?: extends [\w$.]+)? \{$/gm;
/** How it numbers what has the name of something further out: classes, and constructors of old. */
const NUMBERED_CLASS =
  /^ *(?:return )?(?:(?:var |let |const )?[\w$.]+ = )?class ([A-Z][\w$]*\d)(?: extends [^{}]*)? \{$/gm;
const NUMBERED_FUNCTION = /^( *)(function ([A-Z][\w$]*\d)\()/gm;

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
  const originals = new Map<string, string | null>();
  const originalOf = (name: string): string | null => {
    const known = originals.get(name);
    if (known !== undefined) return known;
    const original = withoutNumber(name, texts);
    originals.set(name, original);
    return original;
  };
  return code
    .replace(OWN_CLASS, (line: string, name: string) =>
      own.has(name) ? line : `${line} static { ${naming("this", name)} }`,
    )
    .replace(NUMBERED_CLASS, (line: string, name: string) => {
      const original = originalOf(name);
      return original === null ? line : `${line} static { ${naming("this", original)} }`;
    })
    .replace(NUMBERED_FUNCTION, (line: string, indent: string, start: string, name: string) => {
      const original = originalOf(name);
      return original === null ? line : `${indent}${naming(name, original)} ${start}`;
    });
}

/** The name that was numbered; `null` for one that sources have as it is. */
function withoutNumber(name: string, texts: readonly string[]): string | null {
  const isIn = (word: string) => texts.some((text) => text.includes(word));
  if (isIn(name)) return null;
  for (let end = name.length - 1; /\d/.test(name[end] ?? ""); end -= 1) {
    const original = name.slice(0, end);
    if (isIn(original)) return original;
  }
  return null;
}

function naming(target: string, name: string): string {
  return `Object.defineProperty(${target}, "name", { value: "${name}", configurable: true });`;
}

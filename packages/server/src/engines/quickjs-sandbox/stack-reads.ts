import type { BuildOptions } from "esbuild";
import type { SourceFiles } from "../../transformations/sandbox.ts";

/** What the bundler is told to call `stack` where it is the name of a property: nothing else is called so. */
const MARK = "__stack_";
/** A variable that holds the key under which all objects tell their `stack` as V8 does. */
export const STACK_KEY = "__stack";

const MENTION = /[.{,]\s*stack\b/;

/**
 * Settings of the bundler by which it marks what reads `stack`, since the engine's has no first line
 * (`TypeError: message`): nothing where no source mentions it.
 */
export function markStacks(files: SourceFiles): Pick<BuildOptions, "mangleProps" | "mangleCache"> {
  const texts = Object.values(files);
  const isMentioned = texts.some((text) => MENTION.test(text));
  if (!isMentioned || texts.some((text) => text.includes(STACK_KEY))) return {};
  return { mangleProps: /^stack$/, mangleCache: { stack: MARK } };
}

/** Patterns that take a thing apart: declarations, the only parameter of a function, what was caught. */
const PATTERNS = [
  /\b(?:const|let|var) \{[^{}]*\} = /g,
  /\(\{[^{}]*\}\) =>/g,
  /\bcatch \(\{[^{}]*\}\)/g,
];
const READ = /(\?)?\.__stack_\b(?!\s*(?:[-+*/%&|^<>?]{0,3}=(?![=>])|\+\+|--))/g;
/** What a class does with a member of its own, and what is deleted, is left as it is. */
const NO_READ = /(?:\bthis|\bdelete [\w$.[\]]+)$/;

/** The code with its marks replaced: reads of `stack` by reads under {@link STACK_KEY}. */
export function readStacks(code: string): { readonly code: string; readonly hasReads: boolean } {
  if (!code.includes(MARK)) return { code, hasReads: false };
  const apart = PATTERNS.reduce(
    (text, pattern) =>
      text.replace(pattern, (part) => part.replaceAll(`${MARK}:`, `[${STACK_KEY}]:`)),
    code,
  );
  const read = apart.replace(READ, (whole, optional, at: number) =>
    NO_READ.test(apart.slice(Math.max(0, at - 100), at))
      ? whole
      : `${optional === undefined ? "" : "?."}[${STACK_KEY}]`,
  );
  return { code: read.replaceAll(MARK, "stack"), hasReads: read.includes(`[${STACK_KEY}]`) };
}

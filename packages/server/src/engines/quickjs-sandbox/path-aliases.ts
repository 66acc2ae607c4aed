import { isJsonObject, ownValue } from "@hedgerow/core/json";
import type { CompilerSettings } from "./compiler-settings.ts";
import { plainPath } from "./find-entry.ts";

/** Names by which a source imports its own files: a pattern with one `*` at most, and where that lies. */
export interface PathAliases {
  /** Where any other name may lie. */
  readonly base: string | null;
  readonly targets: readonly (readonly [pattern: string, paths: readonly string[]])[];
}

/** The `baseUrl` and `paths` of a source's settings. */
export function aliasesOf({ options, base, pathsBase }: CompilerSettings): PathAliases {
  const paths = ownValue(options, "paths");
  const targets = Object.entries(paths !== undefined && isJsonObject(paths) ? paths : {});
  const pathsOf = (to: unknown) =>
    Array.isArray(to) ? to.map((path) => plainPath(`${pathsBase}/${String(path)}`)) : [];
  return {
    base,
    targets: targets
      .map(([pattern, to]) => [pattern, pathsOf(to)] as const)
      // The most particular first.
      .sort(([one], [other]) => prefixLength(other) - prefixLength(one)),
  };
}

/**
 * The file that an import names by an alias, or under `baseUrl`.
 * @param findFile the file that a path means
 */
export function resolveAlias(
  findFile: (path: string) => string | null,
  { base, targets }: PathAliases,
  specifier: string,
): string | null {
  for (const [pattern, paths] of targets) {
    const [before = "", after] = pattern.split("*");
    const isMatch =
      after === undefined
        ? specifier === pattern
        : specifier.length >= pattern.length - 1 &&
          specifier.startsWith(before) &&
          specifier.endsWith(after);
    if (!isMatch) continue;
    const middle = specifier.slice(before.length, specifier.length - (after ?? "").length);
    for (const path of paths) {
      const found = findFile(plainPath(path.replace("*", () => middle)));
      if (found !== null) return found;
    }
  }
  return base === null ? null : findFile(plainPath(`${base}/${specifier}`));
}

function prefixLength(pattern: string): number {
  const star = pattern.indexOf("*");
  return star < 0 ? Number.MAX_SAFE_INTEGER : star;
}

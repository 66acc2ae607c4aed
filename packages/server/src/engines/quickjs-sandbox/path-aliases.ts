import { isJsonObject, type Json, ownValue } from "@hedgerow/core/json";
import JSON5 from "json5";
import type { SourceFiles } from "../../transformations/sandbox.ts";
import { plainPath, resolveFile } from "./find-entry.ts";

/** Names by which a source imports its own files: a pattern with one `*` at most, and where that lies. */
export interface PathAliases {
  readonly base: string;
  readonly targets: readonly (readonly [pattern: string, paths: readonly string[]])[];
}

const FILES = ["tsconfig.json", "jsconfig.json"];
const MAX_LENGTH = 20_000;

/** The `baseUrl` and `paths` of a source's `tsconfig.json`; none where that cannot be read. */
export function readAliases(files: SourceFiles): PathAliases {
  const path = FILES.find((name) => Object.hasOwn(files, name));
  const options = ownValue(
    readLoosely(path === undefined ? "" : (files[path] ?? "")),
    "compilerOptions",
  );
  if (options === undefined || !isJsonObject(options)) return { base: "", targets: [] };
  const base = ownValue(options, "baseUrl");
  const paths = ownValue(options, "paths");
  const targets = Object.entries(paths !== undefined && isJsonObject(paths) ? paths : {});
  return {
    base: typeof base === "string" ? base : "",
    targets: targets
      .map(([pattern, to]) => [pattern, Array.isArray(to) ? to.map(String) : []] as const)
      // The most particular first.
      .sort(([one], [other]) => prefixLength(other) - prefixLength(one)),
  };
}

/** The file that an import names by an alias, or under `baseUrl`. */
export function resolveAlias(
  files: SourceFiles,
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
      const found = resolveFile(files, plainPath(`${base}/${path.replace("*", () => middle)}`));
      if (found !== null) return found;
    }
  }
  return base === "" ? null : resolveFile(files, plainPath(`${base}/${specifier}`));
}

function prefixLength(pattern: string): number {
  const star = pattern.indexOf("*");
  return star < 0 ? Number.MAX_SAFE_INTEGER : star;
}

/** JSON as compilers take it in their settings, with comments and commas at the end. */
function readLoosely(text: string): Record<string, Json> {
  if (text === "" || text.length > MAX_LENGTH) return {};
  try {
    const value = JSON5.parse<Json>(text.replace(/^\uFEFF/, ""));
    return isJsonObject(value) ? { ...value } : {};
  } catch {
    return {};
  }
}

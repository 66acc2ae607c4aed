import { isJsonObject, type Json, type JsonObject, ownValue } from "@hedgerow/core/json";
import type { SourceFiles, SourceProblem } from "../../transformations/sandbox.ts";

/** Where a source begins: its main file, and the library of 2020 that runs before it. */
export type Entry =
  | { readonly kind: "found"; readonly main: string; readonly library: string | null }
  | { readonly kind: "missing"; readonly problem: SourceProblem };

const EXTENSIONS = ["ts", "tsx", "js", "mjs", "cjs", "jsx", "mts", "cts"];
const FOLDERS = ["", "src/", "dist/", "lib/", "build/"];

/**
 * Finds the main file: what `plugin.json` names, then what `package.json` names, then the usual
 * places. A named file that is not there (`dist/index.js` of a source that was never built) is
 * looked for with other extensions and in the other folders.
 */
export function findEntry(files: SourceFiles): Entry {
  const plugin = readObject(files, "plugin.json");
  const names = [
    textOf(plugin, "main"),
    textOf(readObject(files, "package.json"), "main"),
    "index",
  ].filter((name) => name !== null);
  const main = names.map((name) => findNamed(files, name)).find((path) => path !== null);
  const lib = textOf(plugin, "lib");
  const library = lib === null ? null : resolveFile(files, plainPath(lib));
  if (main !== undefined && main !== null) {
    return { kind: "found", main, library: library === main ? null : library };
  }
  if (library !== null) return { kind: "found", main: library, library: null };
  const sources = Object.keys(files).filter((path) => loaderOf(path) === "code");
  const [only, second] = sources.filter((path) => !/(^|\/)(frontend|site)\.tsx?$/.test(path));
  if (only !== undefined && second === undefined) {
    return { kind: "found", main: only, library: null };
  }
  const message = `no main file: expected ${names[0] === "index" ? "index.ts or index.js" : names[0]}`;
  return { kind: "missing", problem: { file: "plugin.json", line: 0, column: 0, message } };
}

/** The file that a path means: itself, with an extension, or the index of a folder. */
export function resolveFile(files: SourceFiles, path: string): string | null {
  if (Object.hasOwn(files, path)) return path;
  const prefix = path === "" ? "" : `${path}/`;
  const stem = path.replace(/\.(js|jsx|mjs|cjs)$/, "");
  const candidates = [
    ...EXTENSIONS.map((extension) => `${path}.${extension}`),
    `${path}.json`,
    ...EXTENSIONS.map((extension) => `${prefix}index.${extension}`),
    // TypeScript sources name what the compiler will write.
    ...(stem === path ? [] : EXTENSIONS.map((extension) => `${stem}.${extension}`)),
  ];
  return candidates.find((candidate) => Object.hasOwn(files, candidate)) ?? null;
}

/** A path without `./`, doubled slashes and steps upwards; steps above the top stay at the top. */
export function plainPath(path: string): string {
  const parts: string[] = [];
  for (const part of path.replaceAll("\\", "/").split("/")) {
    if (part === "" || part === ".") continue;
    if (part === "..") parts.pop();
    else parts.push(part);
  }
  return parts.join("/");
}

/** What a file holds, by its name. */
export function loaderOf(path: string): "code" | "json" | "text" {
  if (/\.([cm]?[jt]s|[jt]sx)$/.test(path) && !/\.d\.[cm]?ts$/.test(path)) return "code";
  return path.endsWith(".json") ? "json" : "text";
}

function findNamed(files: SourceFiles, name: string): string | null {
  const path = plainPath(name);
  const exact = resolveFile(files, path);
  if (exact !== null && loaderOf(exact) === "code") return exact;
  const base = (path.split("/").at(-1) ?? path).replace(/\.[^.]+$/, "");
  for (const folder of FOLDERS) {
    const found = resolveFile(files, `${folder}${base}`);
    if (found !== null && loaderOf(found) === "code") return found;
  }
  return null;
}

/** A JSON file's object; an empty one where there is none. */
export function readObject(files: SourceFiles, path: string): JsonObject {
  const text = Object.hasOwn(files, path) ? files[path] : undefined;
  if (text === undefined) return {};
  try {
    const value = JSON.parse(text.replace(/^\uFEFF/, "")) as Json;
    return isJsonObject(value) ? value : {};
  } catch {
    return {};
  }
}

function textOf(object: JsonObject, key: string): string | null {
  const value = ownValue(object, key);
  return typeof value === "string" && value !== "" ? value : null;
}

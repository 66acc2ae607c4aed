import { isJsonObject, type Json, ownValue } from "@hedgerow/core/json";
import type { SourceFiles } from "../../transformations/sandbox.ts";
import { plainPath, readObject, resolveFile } from "./find-entry.ts";

/** What a package may be asked for: the sandbox is more like a browser than like Node.js. */
const ANYHOW = ["browser", "worker", "default"];
/** Code that asks by `require` counts on what Node.js gives it: a module in its place has a `default`. */
const REQUIRED = { conditions: ["require", ...ANYHOW], fields: ["main", "module"] };
const IMPORTED = { conditions: ["import", "module", ...ANYHOW], fields: ["module", "main"] };

/** A path inside of the source: a file, or a folder that may have a `package.json` of its own. */
export function resolvePath(files: SourceFiles, path: string, kind: string): string | null {
  return resolveFolder(files, path, ".", kind) ?? resolveFile(files, path);
}

/**
 * A package that the source brings along, or a path from its top as `baseUrl` allows.
 * @param kind how it is asked for, in the bundler's words: `import-statement`, `require-call`, …
 */
export function resolvePackage(files: SourceFiles, specifier: string, kind: string): string | null {
  const [first = "", second = ""] = specifier.split("/");
  const name = first.startsWith("@") ? `${first}/${second}` : first;
  const root = `node_modules/${name}`;
  const rest = specifier.slice(name.length);
  return (
    resolveFolder(files, root, `.${rest}`, kind) ??
    resolvePath(files, plainPath(`${root}${rest}`), kind) ??
    resolveFile(files, plainPath(specifier)) ??
    resolveFile(files, plainPath(`src/${specifier}`))
  );
}

/** What the `package.json` of a folder names: by `exports`, or by `main` and `module` for itself. */
function resolveFolder(
  files: SourceFiles,
  folder: string,
  entry: string,
  kind: string,
): string | null {
  const manifest = readObject(files, `${folder}/package.json`);
  const find = (target: Json | undefined) =>
    typeof target === "string" ? resolveFile(files, plainPath(`${folder}/${target}`)) : null;
  const { conditions, fields } = kind.startsWith("require") ? REQUIRED : IMPORTED;
  const exported = find(targetOf(ownValue(manifest, "exports"), entry, conditions));
  if (exported !== null || entry !== ".") return exported;
  const [first = "", second = ""] = fields;
  return find(ownValue(manifest, first)) ?? find(ownValue(manifest, second));
}

/** The path that `exports` gives to an entry (`.`, `./sub`), by the first condition that holds. */
function targetOf(
  exported: Json | undefined,
  entry: string,
  conditions: readonly string[],
): string | undefined {
  if (typeof exported === "string") return entry === "." ? exported : undefined;
  if (Array.isArray(exported)) return targetOf(exported[0] as Json, entry, conditions);
  if (exported === undefined || !isJsonObject(exported)) return undefined;
  const own = ownValue(exported, entry);
  if (own !== undefined) return targetOf(own, ".", conditions);
  for (const [key, target] of Object.entries(exported)) {
    if (!key.startsWith(".")) {
      const found = conditions.includes(key) ? targetOf(target, entry, conditions) : undefined;
      if (found !== undefined) return found;
      continue;
    }
    const [before = "", after] = key.split("*");
    if (after === undefined || !entry.startsWith(before) || !entry.endsWith(after)) continue;
    const middle = entry.slice(before.length, entry.length - after.length);
    return targetOf(target, ".", conditions)?.replaceAll("*", () => middle);
  }
  return undefined;
}

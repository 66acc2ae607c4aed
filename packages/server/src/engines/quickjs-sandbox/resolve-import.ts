import { isJsonObject, type Json, type JsonObject, ownValue } from "@hedgerow/core/json";
import type { SourceFiles } from "../../transformations/sandbox.ts";
import type { CompilerSettings } from "./compiler-settings.ts";
import { plainPath, readObject, resolveFile } from "./find-entry.ts";
import { aliasesOf, type PathAliases, resolveAlias } from "./path-aliases.ts";

/**
 * What an import means within a source: a file of it, nothing at all by its package's wish, or what it
 * lacks; nothing more is looked for in a source that has `exhausted` what may be looked for.
 */
export type Resolution =
  | { readonly kind: "file"; readonly path: string }
  | { readonly kind: "empty" }
  | { readonly kind: "missing" }
  | { readonly kind: "exhausted" };

/** What a package may be asked for: the sandbox is more like a browser than like Node.js. */
const ANYHOW = ["browser", "worker", "default"];
/** Code that asks by `require` counts on what Node.js gives it: a module in its place has a `default`. */
const REQUIRED = { conditions: ["require", ...ANYHOW], fields: ["browser", "main", "module"] };
const IMPORTED = {
  conditions: ["import", "module", ...ANYHOW],
  fields: ["browser", "module", "main"],
};
type Wish = typeof REQUIRED;

/** No path of a source is longer. */
const MAX_PATH_LENGTH = 4_096;

/** So often paths are looked up for all imports of a source: twice as often as the largest need. */
const MAX_LOOKS = 500_000;
/** So many patterns are compared in the time of a look, and so many letters of targets read. */
const PATTERNS_PER_LOOK = 2;
const LETTERS_PER_LOOK = 100;

/** Finds what files of a source import of each other, and of packages that the source brings along. */
export class ImportResolver {
  readonly #files: SourceFiles;
  readonly #aliases: PathAliases;
  /** By folder. */
  readonly #manifests = new Map<string, JsonObject>();
  #looksLeft = MAX_LOOKS;

  constructor(files: SourceFiles, settings: CompilerSettings) {
    this.#files = files;
    this.#aliases = aliasesOf(settings);
  }

  /**
   * @param importer the file that asks
   * @param kind how it asks, in the bundler's words: `import-statement`, `require-call`, …
   */
  resolve(specifier: string, importer: string, kind: string): Resolution {
    if (this.#looksLeft <= 0) return { kind: "exhausted" };
    const found = this.#resolve(specifier, importer, kind);
    return this.#looksLeft > 0 ? found : { kind: "exhausted" };
  }

  #resolve(specifier: string, importer: string, kind: string): Resolution {
    if (specifier.startsWith("/") || specifier.length > MAX_PATH_LENGTH) return { kind: "missing" };
    const scope = this.#scopeOf(importer);
    const wish = kind.startsWith("require") ? REQUIRED : IMPORTED;
    const asked = specifier.startsWith(".")
      ? pathFrom(scope, join(folderOf(importer), specifier))
      : specifier;
    const replaced = this.#replacementOf(scope, asked);
    if (replaced === false) return { kind: "empty" };
    const path =
      replaced === undefined
        ? this.#find(specifier, importer, scope, wish)
        : this.#find(replaced, join(scope, "package.json"), scope, wish);
    if (path === null) return { kind: "missing" };
    const owner = this.#scopeOf(path);
    const other = this.#replacementOf(owner, pathFrom(owner, path));
    if (other === false) return { kind: "empty" };
    const found = other === undefined ? path : this.#look(join(owner, other));
    return { kind: "file", path: found ?? path };
  }

  #find(specifier: string, importer: string, scope: string, wish: Wish): string | null {
    if (specifier.startsWith(".")) {
      const path = join(folderOf(importer), specifier);
      const isFolder = /(?:^|\/)\.{0,2}$/.test(specifier);
      return (
        this.#findMain(path, wish) ??
        (isFolder ? this.#look(join(path, "index")) : null) ??
        this.#look(path)
      );
    }
    if (specifier.startsWith("#")) {
      const imports = ownValue(this.#manifestOf(scope), "imports");
      return this.#findTarget(scope, imports, specifier, wish);
    }
    return (
      resolveAlias((path) => this.#look(path), this.#aliases, specifier) ??
      this.#findPackage(specifier, importer, scope, wish) ??
      this.#look(plainPath(specifier)) ??
      this.#look(plainPath(`src/${specifier}`))
    );
  }

  /** A package by its name: the one that asks, or that in the nearest `node_modules`. */
  #findPackage(specifier: string, importer: string, scope: string, wish: Wish): string | null {
    const [first = "", second = ""] = specifier.split("/");
    const name = first.startsWith("@") ? `${first}/${second}` : first;
    const entry = `.${specifier.slice(name.length)}`;
    const own = this.#manifestOf(scope);
    const itself =
      ownValue(own, "name") === name
        ? this.#findTarget(scope, ownValue(own, "exports"), entry, wish)
        : null;
    if (itself !== null) return itself;
    for (let folder: string | null = folderOf(importer); folder !== null; folder = above(folder)) {
      const root = join(folder, `node_modules/${name}`);
      const path = join(root, entry);
      const found =
        this.#findTarget(root, ownValue(this.#manifestOf(root), "exports"), entry, wish) ??
        this.#findMain(path, wish) ??
        this.#look(path);
      if (found !== null) return found;
    }
    return null;
  }

  /** What the `package.json` of a folder names for the folder itself. */
  #findMain(folder: string, wish: Wish): string | null {
    const manifest = this.#manifestOf(folder);
    const exported = this.#findTarget(folder, ownValue(manifest, "exports"), ".", wish);
    if (exported !== null) return exported;
    for (const field of wish.fields) {
      const target = ownValue(manifest, field);
      const found = typeof target === "string" ? this.#fileIn(folder, target) : null;
      if (found !== null) return found;
    }
    return null;
  }

  /** What `exports` or `imports` give for one of their entries (`.`, `./sub`, `#name`). */
  #findTarget(folder: string, table: Json | undefined, entry: string, wish: Wish): string | null {
    const follow = (target: Json | undefined, middle: string): string | null => {
      if (typeof target === "string") {
        this.#looksLeft -= target.length / LETTERS_PER_LOOK;
        if (target.length > MAX_PATH_LENGTH) return null;
        const stars = target.split("*").length - 1;
        if (target.length + stars * middle.length > MAX_PATH_LENGTH) return null;
        return this.#fileIn(
          folder,
          target.replaceAll("*", () => middle),
        );
      }
      const others = Array.isArray(target)
        ? target
        : target !== undefined && isJsonObject(target)
          ? Object.keys(target)
              .filter((condition) => wish.conditions.includes(condition))
              .map((condition) => ownValue(target, condition))
          : [];
      for (const other of others) {
        const found = follow(other, middle);
        if (found !== null) return found;
      }
      return null;
    };
    if (table === undefined || table === null) return null;
    if (!isJsonObject(table) || !Object.keys(table).some((key) => /^[.#]/.test(key))) {
      return entry === "." ? follow(table, "") : null;
    }
    if (Object.hasOwn(table, entry)) return follow(ownValue(table, entry), "");
    this.#looksLeft -= Object.keys(table).length / PATTERNS_PER_LOOK;
    const [pattern, before = "", after = ""] =
      Object.keys(table)
        .filter((key) => key.includes("*"))
        .map((key) => [key, ...key.split("*")])
        .filter(([, start = "", end = ""]) => entry.startsWith(start) && entry.endsWith(end))
        // The most particular one.
        .sort(([, one = ""], [, other = ""]) => other.length - one.length)[0] ?? [];
    if (pattern === undefined || entry.length < before.length + after.length) return null;
    const middle = entry.slice(before.length, entry.length - after.length);
    return follow(ownValue(table, pattern), middle);
  }

  /** What the `browser` field of a package puts in the place of a module or of a file; `false` is nothing. */
  #replacementOf(scope: string, specifier: string): string | false | undefined {
    const browser = ownValue(this.#manifestOf(scope), "browser");
    if (browser === undefined || !isJsonObject(browser)) return undefined;
    const other = ownValue(browser, specifier) ?? ownValue(browser, specifier.replace(/\.js$/, ""));
    return typeof other === "string" || other === false ? other : undefined;
  }

  /** The file that a path means; none once too many were looked for. */
  #look(path: string): string | null {
    this.#looksLeft -= 1;
    return this.#looksLeft > 0 ? resolveFile(this.#files, path) : null;
  }

  #fileIn(folder: string, target: string): string | null {
    return this.#look(join(folder, target));
  }

  /** The folder of the nearest `package.json` above a file; that of the source where there is none. */
  #scopeOf(path: string): string {
    for (let folder: string | null = folderOf(path); folder !== null; folder = above(folder)) {
      if (Object.hasOwn(this.#files, join(folder, "package.json"))) return folder;
    }
    return "";
  }

  #manifestOf(folder: string): JsonObject {
    const known = this.#manifests.get(folder);
    if (known !== undefined) return known;
    const manifest = readObject(this.#files, join(folder, "package.json"));
    this.#manifests.set(folder, manifest);
    return manifest;
  }
}

function join(folder: string, path: string): string {
  return plainPath(`${folder}/${path}`);
}

/** A path below a folder as its `package.json` writes it, `./lib/a.js`; any other as it is. */
function pathFrom(folder: string, path: string): string {
  if (folder === "") return `./${path}`;
  return path.startsWith(`${folder}/`) ? `.${path.slice(folder.length)}` : path;
}

function folderOf(path: string): string {
  return path.includes("/") ? path.slice(0, path.lastIndexOf("/")) : "";
}

/** The folder above; nothing above that of the source. */
function above(folder: string): string | null {
  return folder === "" ? null : folderOf(folder);
}

import { isJsonObject, type Json, type JsonObject, ownValue } from "@hedgerow/core/json";
import JSON5 from "json5";
import type { SourceFiles } from "../../transformations/sandbox.ts";
import { plainPath } from "./find-entry.ts";

/** What a source's `tsconfig.json` asks of its compiler, with what it extends. */
export interface CompilerSettings {
  readonly options: JsonObject;
  /** The folder that `baseUrl` names, and that `paths` are relative to. */
  readonly base: string | null;
  readonly pathsBase: string;
}

const FILES = ["tsconfig.json", "jsconfig.json"];
const MAX_LENGTH = 20_000;
const MAX_FILES = 20;

/** The settings of a source; none where they cannot be read. */
export function readCompilerSettings(files: SourceFiles): CompilerSettings {
  const settings = {
    options: {} as Record<string, Json>,
    base: null as string | null,
    pathsBase: "",
  };
  let left = MAX_FILES;
  /** Reads what is extended first: what is nearer counts. */
  const read = (path: string): void => {
    left -= 1;
    if (left < 0) return;
    const config = readLoosely(files[path] ?? "");
    const folder = plainPath(`${path}/..`);
    const extended = ownValue(config, "extends");
    for (const name of Array.isArray(extended) ? extended : [extended]) {
      const found = typeof name === "string" ? findConfig(files, folder, name) : undefined;
      if (found !== undefined) read(found);
    }
    const options = ownValue(config, "compilerOptions");
    if (options === undefined || !isJsonObject(options)) return;
    Object.assign(settings.options, options);
    const base = ownValue(options, "baseUrl");
    if (typeof base === "string") settings.base = plainPath(`${folder}/${base}`);
    if (Object.hasOwn(options, "paths")) settings.pathsBase = folder;
  };
  const first = FILES.find((name) => Object.hasOwn(files, name));
  if (first !== undefined) read(first);
  return { ...settings, pathsBase: settings.base ?? settings.pathsBase };
}

/** Those of the settings that change what code does, in the form that the bundler takes. */
export function toBundlerSettings({ options }: CompilerSettings): string {
  const pick = (name: string, type: string) => {
    const value = ownValue(options, name);
    return typeof value === type ? { [name]: value } : {};
  };
  const compilerOptions = {
    // As PostHog reads TypeScript, whose fields without a value are only types.
    experimentalDecorators: true,
    useDefineForClassFields: false,
    ...pick("experimentalDecorators", "boolean"),
    ...pick("useDefineForClassFields", "boolean"),
    ...pick("jsxFactory", "string"),
    ...pick("jsxFragmentFactory", "string"),
  };
  return JSON.stringify({ compilerOptions });
}

/** A file of settings that another one extends, in the source or in a package that it brings along. */
function findConfig(files: SourceFiles, folder: string, name: string): string | undefined {
  const path = plainPath(name.startsWith(".") ? `${folder}/${name}` : `node_modules/${name}`);
  return [path, `${path}.json`, `${path}/tsconfig.json`].find((one) => Object.hasOwn(files, one));
}

/** JSON as compilers take it in their settings, with comments and commas at the end. */
function readLoosely(text: string): JsonObject {
  if (text === "" || text.length > MAX_LENGTH) return {};
  try {
    const value = JSON5.parse<Json>(text.replace(/^\uFEFF/, ""));
    return isJsonObject(value) ? value : {};
  } catch {
    return {};
  }
}

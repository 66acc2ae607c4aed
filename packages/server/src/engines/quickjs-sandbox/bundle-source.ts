import { build, type Message, type Plugin } from "esbuild";
import type { SourceFiles, SourceProblem } from "../../transformations/sandbox.ts";
import { absentFolder, countSteps } from "./absent-folder.ts";
import { fixHelpers } from "./bundler-helpers.ts";
import {
  type CompilerSettings,
  readCompilerSettings,
  toBundlerSettings,
} from "./compiler-settings.ts";
import { esbuildService, TakesTooMuch } from "./esbuild-service.ts";
import { findEntry, loaderOf, plainPath } from "./find-entry.ts";
import { CONSTANT_HOLDER, deferFailures, isLateFailure } from "./late-failures.ts";
import { METHOD_NAMES } from "./method-names.ts";
import { ImportResolver } from "./resolve-import.ts";
import { restoreNames } from "./restored-names.ts";
import { SOURCES, SourcePlaces } from "./source-places.ts";

/** What a source becomes before it is run: the text of one function expression, and where it came from. */
export type Bundle =
  | {
      readonly kind: "bundled";
      readonly code: string;
      /** Where a place of the code comes from, its line and column from 1. */
      locate(line: number, column: number): Omit<SourceProblem, "message"> | undefined;
    }
  | { readonly kind: "refused"; readonly problems: readonly SourceProblem[] };

/** Names that a source may define for the sandbox, exported or not. */
const MEANINGFUL_NAMES = [...METHOD_NAMES, "jobs", "metrics"];

/** Modules that the sandbox has for everybody; what they hold is made inside of it. */
const GUEST_MODULES: ReadonlySet<string> = new Set([
  "@posthog/plugin-scaffold",
  "@posthog/plugin-contrib",
  "posthog-plugins",
  "@maxmind/geoip2-node",
  "assert",
  "assert/strict",
  "buffer",
  "crypto",
  "events",
  "node-fetch",
  "cross-fetch",
  "path",
  "path/posix",
  "querystring",
  "string_decoder",
  "timers",
  "timers/promises",
  "url",
  "util",
  "zlib",
]);

/** Packages that the sandbox has where the source brings along none of its own. */
const GUEST_PACKAGES: ReadonlySet<string> = new Set(["jsonwebtoken"]);

/**
 * Packages that PostHog has for everybody and that are not here: most reach the network by
 * themselves. What asks for them is taken all the same, and fails where it uses them.
 */
const ABSENT_PACKAGES: ReadonlySet<string> = new Set([
  "@google-cloud/bigquery",
  "@google-cloud/pubsub",
  "@google-cloud/storage",
  "aws-sdk",
  "ethers",
  "faker",
  "generic-pool",
  "pg",
  "snowflake-sdk",
  "stream",
]);

const MAX_SOURCE_LENGTH = 8_000_000;
const MAX_CODE_LENGTH = 4_000_000;
const MAX_FILES = 2_000;
const MAX_PROBLEMS = 20;
/** So often a source is bundled again with what fails late, and with so much of it at most. */
const MAX_ROUNDS = 10;
const MAX_DEFERRED = 200;
/** How many steps upwards the paths in a file may have together: whoever looks for one has to know. */
const MAX_STEPS = 5_000;
/** How deep brackets may nest in a file: deeper ones exhaust the stack of whoever parses them. */
const MAX_NESTING = 2_000;
/** The last match, read from `RegExp`: the sandbox keeps it only where it is mentioned. */
const LAST_MATCH =
  /\bRegExp\s*(?:\.\s*|\[\s*["'])(?:\$[1-9&_`'+]|lastMatch|lastParen|leftContext|rightContext|input\b)/;

/** Names that are put into sources, which have none that begin so. */
const EXPOSE = "__sandbox_expose";
const OFFER = "__sandbox_offer";

/** Puts another object in the place of `exports`, which Node.js does not look at, and PostHog does. */
const REPLACED_EXPORTS = /(?<![\w$.])exports\s*=(?![=>])/;

/** How the bundler names a file before its code. */
const FIRST_MODULE = /^\/\/ (?:source|guest-module):/m;

/** How the bundler says that a source awaits something while it loads. */
const AWAITS = "Top-level await is currently not supported";

const TOO_MANY_IMPORTS = "the imports of the source take too long to find";
const CANNOT_IMPORT = "Cannot import ";
/** The last such line counts: what a file says of how it was made is neither looked for nor believed. */
const NO_SOURCE_MAP = "\n//# sourceMappingURL=none";
const TYPED = /\.[cm]?ts$/;
const SCRIPT = /\.[cm]?js$/;
/** How the guest is asked for a package that is not here. */
const ABSENT = "absent:";
const MODULES = "guest-module";
const EMPTY = "empty";
const WHOLE = "whole";
const ENTRY = "\0entry";

/** Bundles sources. */
export class SourceBundler {
  /** Never rejects for what a source holds. */
  async bundle(files: SourceFiles): Promise<Bundle> {
    const tooMuch = findExcess(files);
    if (tooMuch !== null) return { kind: "refused", problems: [tooMuch] };
    const entry = findEntry(files);
    if (entry.kind === "missing") return { kind: "refused", problems: [entry.problem] };
    const bundle = await bundleFrom(files, entry.main, entry.library, "jsx");
    if (bundle.kind === "bundled" || !bundle.problems.some(isOfScript)) return bundle;
    // PostHog reads every file as TypeScript, so that types are found in scripts as well.
    const typed = await bundleFrom(files, entry.main, entry.library, "ts");
    return typed.kind === "bundled" || firstLine(typed) > firstLine(bundle) ? typed : bundle;
  }

  async close(): Promise<void> {
    esbuildService.rest();
  }
}

/** A source that the bundler does not take. */
interface NotBundled {
  readonly kind: "failed";
  readonly messages: readonly Message[];
}

/**
 * @param scripts what files are read as that are called JavaScript
 * @param format `esm` where a source awaits something while it loads
 */
async function bundleFrom(
  files: SourceFiles,
  main: string,
  library: string | null,
  scripts: "jsx" | "ts",
  format: "cjs" | "esm" = "cjs",
): Promise<Bundle> {
  const first = await bundleOnce(files, main, library, scripts, format);
  if (first.kind !== "failed") return first;
  if (format === "cjs" && first.messages.some(({ text }) => text.startsWith(AWAITS))) {
    return bundleFrom(files, main, library, scripts, "esm");
  }
  // Stays the same: what is deferred moves no line.
  const places = new SourcePlaces(files, main, library);
  const placeOf = (message: Message) => places.of(message);
  for (const isShorthand of first.messages.some(isLateFailure) ? [false, true] : []) {
    let later: SourceFiles | null = files;
    let outcome: Bundle | NotBundled = first;
    let count = 0;
    for (let round = 0; round < MAX_ROUNDS && outcome.kind === "failed"; round += 1) {
      count += outcome.messages.filter(isLateFailure).length;
      if (count > MAX_DEFERRED) break;
      later = deferFailures(later, outcome.messages, placeOf, isShorthand);
      if (later === null) break;
      outcome = await bundleOnce(later, main, library, scripts, format);
    }
    if (outcome.kind !== "failed") return outcome;
  }
  return {
    kind: "refused",
    problems: first.messages.slice(0, MAX_PROBLEMS).map((message) => places.describe(message)),
  };
}

async function bundleOnce(
  files: SourceFiles,
  main: string,
  library: string | null,
  scripts: "jsx" | "ts",
  format: "cjs" | "esm",
): Promise<Bundle | NotBundled> {
  const settings = readCompilerSettings(files);
  try {
    const result = await esbuildService.run(() =>
      build({
        entryPoints: [ENTRY],
        bundle: true,
        write: false,
        format,
        platform: "neutral",
        target: "es2022",
        charset: "utf8",
        outfile: "/index.js",
        sourcemap: "external",
        sourcesContent: false,
        legalComments: "none",
        logLevel: "silent",
        logLimit: MAX_PROBLEMS,
        // What many bundled libraries ask for; nothing else of a process exists for them.
        define: {
          [["process", "env", "NODE_ENV"].join(".")]: '"production"',
          // Bundles name the place where they lie, for files that they seldom have.
          __dirname: '"/"',
          __filename: '"/index.js"',
          "import.meta.dirname": '"/"',
          "import.meta.filename": '"/index.js"',
          "import.meta.url": '"file:///index.js"',
        },
        // Given here, so that none is looked for on the disk.
        tsconfigRaw: toBundlerSettings(settings),
        plugins: [inMemory(files, settings, main, library, scripts, format)],
      }),
    );
    const code = result.outputFiles.find((file) => file.path.endsWith(".js"))?.text ?? "";
    const sourceMap = result.outputFiles.find((file) => file.path.endsWith(".map"))?.text ?? "{}";
    if (code.length > MAX_CODE_LENGTH) {
      return refuse({ file: main, line: 0, column: 0, message: "the bundled source is too large" });
    }
    const before = LAST_MATCH.test(code) ? 'require_guest("last-match");' : "";
    const parameters = `exports, module, require, require_guest, ${EXPOSE}, ${CONSTANT_HOLDER}, ${OFFER}`;
    const start = format === "esm" ? "async function" : "function";
    return {
      kind: "bundled",
      code: `(${start} (${parameters}) {${before}\n${withFixedHelpers(restoreNames(code, files))}\n})`,
      // Its first line is none of the bundler's.
      locate: (line, column) =>
        new SourcePlaces(files, main, library).inCode(sourceMap, line - 2, column - 1),
    };
  } catch (error) {
    const messages = (error as { errors?: readonly Message[] }).errors;
    if (messages !== undefined && messages.length > 0) return { kind: "failed", messages };
    // Otherwise the bundler's process ended again and again, be it for another source that it choked on.
    const message =
      error instanceof TakesTooMuch
        ? `the source takes too much ${error.resource} to be bundled`
        : "the source cannot be bundled";
    return refuse({ file: main, line: 0, column: 0, message });
  }
}

/** Whether something in a file that is called JavaScript is not understood. */
function isOfScript({ file, message }: SourceProblem): boolean {
  return SCRIPT.test(file) && !message.startsWith(CANNOT_IMPORT);
}

/** How far a source was understood. */
function firstLine({ problems }: Bundle & { kind: "refused" }): number {
  return problems[0]?.line ?? 0;
}

function refuse(problem: SourceProblem): Bundle & { kind: "refused" } {
  return { kind: "refused", problems: [problem] };
}

function findExcess(files: SourceFiles): SourceProblem | null {
  const paths = Object.keys(files);
  if (paths.length > MAX_FILES) {
    return { file: "", line: 0, column: 0, message: `more than ${MAX_FILES} files` };
  }
  let length = 0;
  for (const path of paths) {
    const text = files[path] ?? "";
    length += text.length;
    if (path.startsWith("/") || path.includes("\0") || plainPath(path) !== path) {
      return { file: path, line: 0, column: 0, message: "paths must be relative and plain" };
    }
    if (loaderOf(path) !== "text" && nestsTooDeep(text)) {
      return { file: path, line: 0, column: 0, message: `nested deeper than ${MAX_NESTING}` };
    }
    if (loaderOf(path) === "code" && countSteps(text) > MAX_STEPS) {
      const message = `more than ${MAX_STEPS} steps upwards in paths`;
      return { file: path, line: 0, column: 0, message };
    }
  }
  if (length <= MAX_SOURCE_LENGTH) return null;
  return { file: "", line: 0, column: 0, message: `more than ${MAX_SOURCE_LENGTH} characters` };
}

/** Counts brackets wherever they stand, in texts and comments as well: only vast counts matter. */
function nestsTooDeep(text: string): boolean {
  let depth = 0;
  let signs = 0;
  for (let index = 0; index < text.length; index += 1) {
    const code = text.charCodeAt(index);
    if (code === 40 || code === 91 || code === 123) depth += 1;
    else if (code === 41 || code === 93 || code === 125) depth = Math.max(0, depth - 1);
    // Runs of unary operators nest without brackets.
    if (code === 33 || code === 126 || code === 43 || code === 45) signs += 1;
    else if (code > 32) signs = 0;
    if (depth > MAX_NESTING || signs > MAX_NESTING) return true;
  }
  return false;
}

/** The only files there are: the bundler never reads the disk. */
function inMemory(
  files: SourceFiles,
  settings: CompilerSettings,
  main: string,
  library: string | null,
  scripts: "jsx" | "ts",
  format: "cjs" | "esm",
): Plugin {
  return {
    name: "in-memory",
    setup({ onResolve, onLoad }) {
      const imports = new ImportResolver(files, settings);
      onResolve({ filter: /.*/ }, ({ path, importer, kind, namespace }) => {
        if (kind === "entry-point" && format === "esm") return { path, namespace: WHOLE };
        if (kind === "entry-point" || namespace === WHOLE)
          return { path: main, namespace: SOURCES };
        const bare = path.replace(/^node:/, "");
        if (GUEST_MODULES.has(bare)) return { path: bare, namespace: MODULES };
        const found = imports.resolve(path, importer, kind);
        if (found.kind === "file") return { path: found.path, namespace: SOURCES };
        if (found.kind === "exhausted") return { errors: [{ text: TOO_MANY_IMPORTS }] };
        if (found.kind === "empty") return { path, namespace: EMPTY };
        if (GUEST_PACKAGES.has(bare)) return { path: bare, namespace: MODULES };
        if (isAbsent(bare)) return { path: `${ABSENT}${bare}`, namespace: MODULES };
        // Such code may never run, or expect to fail: it finds out when it runs.
        if (kind === "require-call" || kind === "dynamic-import") return { path, external: true };
        return {
          errors: [{ text: `${CANNOT_IMPORT}"${path}": there is no such file or module here` }],
        };
      });
      onLoad({ filter: /.*/, namespace: MODULES }, ({ path }) => ({
        contents: `module.exports = require_guest(${JSON.stringify(path)});`,
        loader: "js",
      }));
      onLoad({ filter: /.*/, namespace: EMPTY }, () => ({ contents: "", loader: "empty" }));
      // Code that awaits something cannot export anything by itself within a function.
      onLoad({ filter: /.*/, namespace: WHOLE }, () => ({
        contents: `import * as own from "main"; ${OFFER}(own);`,
        loader: "js",
      }));
      onLoad({ filter: /.*/, namespace: SOURCES }, ({ path }) => {
        const loader = loaderOf(path);
        if (loader === "text") {
          const isEmpty = /\.d\.[cm]?ts$/.test(path);
          return { contents: files[path] ?? "", loader: isEmpty ? "empty" : loader };
        }
        const text = textOf(files, path);
        if (loader === "json") return { contents: text, loader };
        const isMain = path === main;
        const before = library !== null && isMain ? `${textOf(files, library)}\n` : "";
        const after = isMain ? `\n;${exposure(text)}` : "";
        return {
          contents: before + text + after + NO_SOURCE_MAP,
          // One file with the library: both are TypeScript where that is.
          loader: languageOf(
            isMain && library !== null && TYPED.test(library) ? library : path,
            scripts,
          ),
          resolveDir: absentFolder(before + text),
        };
      });
      // Whatever else the bundler comes by lies on the disk.
      onLoad({ filter: /.*/ }, ({ path }) => ({ errors: [{ text: `${CANNOT_IMPORT}"${path}"` }] }));
    },
  };
}

/** Hands over what the main file defines under a meaningful name, whether or not it is exported. */
function exposure(main: string): string {
  const members = MEANINGFUL_NAMES.map(
    (name) => `${name}: typeof ${name} === "undefined" ? undefined : ${name}`,
  );
  const replaced = REPLACED_EXPORTS.test(main) ? ", exports" : "";
  return `${EXPOSE}({ ${members.join(", ")} }${replaced});`;
}

function languageOf(path: string, scripts: "jsx" | "ts"): "ts" | "tsx" | "jsx" {
  if (TYPED.test(path)) return "ts";
  if (path.endsWith(".tsx")) return "tsx";
  return SCRIPT.test(path) ? scripts : "jsx";
}

/** A package that is not here, or a path inside of it. */
function isAbsent(specifier: string): boolean {
  const [first = "", second = ""] = specifier.split("/");
  return ABSENT_PACKAGES.has(first.startsWith("@") ? `${first}/${second}` : first);
}

/** A file's text without what may stand before the code: a mark of its encoding, a first line `#!…`. */
function textOf(files: SourceFiles, path: string): string {
  const text = Object.hasOwn(files, path) ? (files[path] ?? "") : "";
  return text.replace(/^\uFEFF/, "").replace(/^#!.*/, "");
}

/** The same with the bundler's own functions mended, which stand before the first module. */
function withFixedHelpers(code: string): string {
  const end = Math.max(0, code.search(FIRST_MODULE));
  return fixHelpers(code.slice(0, end)) + code.slice(end);
}

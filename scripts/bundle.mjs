// Bundles the server into a few files: loading its 1,400 modules one by one takes a second of every
// start (ADR 0012). Run after the compiler, which is what checks the types.
import { fork } from "node:child_process";
import { createHash } from "node:crypto";
import {
  copyFileSync,
  existsSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { build } from "esbuild";
import { optimizedEngine } from "./optimize-engine.mjs";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const source = join(root, "packages/server/src");
const guest = join(source, "engines/quickjs-sandbox/guest");
const target = join(root, "packages/server/dist/bundle");
const draft = `${target}-${process.pid}`;

/** Packages that find native code or files of theirs next to their own modules. */
const EXTERNAL = ["libsql", "@duckdb/node-bindings", "esbuild"];

/** Ends a module's line of source maps: positions inside of packages help nobody. */
const NO_MAP = `\n//# sourceMappingURL=data:application/json;base64,${Buffer.from(
  JSON.stringify({ version: 3, sources: [""], mappings: "A" }),
).toString("base64")}`;

const unmappedPackages = {
  name: "unmapped-packages",
  setup({ onLoad }) {
    onLoad({ filter: /[\\/]node_modules[\\/].*\.[cm]?js$/ }, ({ path }) => ({
      contents: readFileSync(path, "utf8") + NO_MAP,
      loader: "js",
    }));
  },
};

const threads = readdirSync(source, { recursive: true })
  .filter((path) => path.endsWith("-thread.ts"))
  .map((path) => join(source, path));

const engine = optimizedEngine().catch((error) => {
  console.error(`bundle: transformations will run more slowly: ${error.message}`);
  return null;
});

const common = {
  bundle: true,
  platform: "node",
  target: "node20.19",
  conditions: ["source"],
  external: EXTERNAL,
  sourcemap: "external",
  sourcesContent: false,
  legalComments: "none",
  plugins: [unmappedPackages],
  logLevel: "warning",
};
await build({
  ...common,
  // Threads load their module by name, next to whoever starts them: all output lies in one folder.
  entryPoints: threads,
  entryNames: "[name]",
  chunkNames: "[name]-[hash]",
  outdir: draft,
  splitting: true,
  format: "esm",
  // CommonJS packages in the bundle ask for Node's modules, and for the external ones, by `require`.
  banner: {
    js: 'import { createRequire as requireFor } from "node:module"; const require = requireFor(import.meta.url);',
  },
});
// The program is one script, and no module: of scripts V8 takes back what it compiled earlier.
const script = join(draft, "program.cjs");
await build({
  ...common,
  entryPoints: [join(source, "main.ts")],
  outfile: script,
  format: "cjs",
  // Comments go, which stay in memory otherwise; lines stay short enough to find a place by.
  minifyWhitespace: true,
  lineLimit: 160,
  // Modules find files beside them by their address. What finds sources in development is not asked for.
  define: { "import.meta.url": "scriptUrl", "import.meta.resolve": "undefined" },
  banner: {
    js: '(function (require, __filename) { const scriptUrl = require("node:url").pathToFileURL(__filename).href; const module = { exports: {} }; const exports = module.exports;',
  },
  footer: { js: "})" },
});
// Texts of ASCII alone take one byte a character in memory; only patterns still hold others.
const text = readFileSync(script, "utf8").replace(
  /[^\0-\x7f]/g,
  (unit) => `\\u${unit.charCodeAt(0).toString(16).padStart(4, "0")}`,
);
writeFileSync(script, text);
const program = `program-${createHash("sha256").update(text).digest("hex").slice(0, 12)}`;
renameSync(script, join(draft, `${program}.cjs`));
renameSync(`${script}.map`, join(draft, `${program}.cjs.map`));
await build({
  ...common,
  entryPoints: [join(source, "bundled-main.ts")],
  outfile: join(draft, "main.js"),
  format: "esm",
  define: { PROGRAM: JSON.stringify(program) },
});
// What runs inside of the sandbox before transformations: scripts that are read as texts.
const texts = [
  ...["core", "inspect", "url", "web", "fetch", "crypto", "intl", "buffer", "node"],
  "jsonwebtoken",
];
await build({
  entryPoints: texts.map((name) => join(guest, `${name}.ts`)),
  outdir: join(draft, "guest"),
  bundle: true,
  format: "cjs",
  platform: "neutral",
  mainFields: ["main"],
  target: "es2023",
  minifySyntax: true,
  minifyWhitespace: true,
  logLevel: "warning",
});
// The transformations that come with the service, as one file (`transformations/catalogue.ts`).
const catalogue = join(root, "packages/server/dist/transformations/catalogue.js");
const { gatherCatalogue } = await import(pathToFileURL(catalogue).href);
const entries = await gatherCatalogue(join(source, "transformations/catalogue"));
writeFileSync(join(draft, "catalogue.json"), JSON.stringify(entries));

const engineFile = await engine;
if (engineFile !== null) copyFileSync(engineFile, join(draft, "engine.wasm"));

try {
  await writeCodeCache(join(draft, `${program}.cjs`), join(draft, `${program}.v8`));
} catch (error) {
  console.error(`bundle: the server will start more slowly: ${error.message}`);
}

// In one step, as far as there is one, so that a server that starts meanwhile finds one or the other.
const old = `${draft}-old`;
if (existsSync(target)) renameSync(target, old);
renameSync(draft, target);
rmSync(old, { recursive: true, force: true });

/** Starts the program once, and has what V8 compiled of it written when it is ready. */
async function writeCodeCache(program, cache) {
  const child = fork(join(root, "scripts/code-cache.mjs"), [program, cache], {
    env: { PATH: process.env.PATH },
    execArgv: [],
    stdio: ["ignore", "pipe", "pipe", "ipc"],
  });
  const timer = setTimeout(() => child.kill("SIGKILL"), 120_000);
  let output = "";
  let isReady = false;
  child.stderr.on("data", (chunk) => {
    output += chunk;
  });
  child.stdout.on("data", (chunk) => {
    output += chunk;
    if (isReady || !output.includes('"msg":"ready"')) return;
    isReady = true;
    child.send("write");
  });
  const code = await new Promise((resolve) => child.once("close", resolve));
  clearTimeout(timer);
  if (code !== 0 || !existsSync(cache)) throw new Error(`its code could not be kept: ${output}`);
}

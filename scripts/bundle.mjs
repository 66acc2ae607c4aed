// Bundles the server into a few files: loading its 1,400 modules one by one takes a second of every
// start (ADR 0012). Run after the compiler, which is what checks the types.
import { existsSync, readdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath, pathToFileURL } from "node:url";
import { build } from "esbuild";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const source = join(root, "packages/server/src");
const sandbox = join(source, "engines/quickjs-sandbox");
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

await build({
  // Threads load their module by name, next to whoever starts them: all output lies in one folder.
  entryPoints: [join(source, "main.ts"), ...threads],
  entryNames: "[name]",
  chunkNames: "[name]-[hash]",
  outdir: draft,
  bundle: true,
  splitting: true,
  format: "esm",
  platform: "node",
  target: "node20.19",
  conditions: ["source"],
  external: EXTERNAL,
  sourcemap: "external",
  sourcesContent: false,
  legalComments: "none",
  // CommonJS packages in the bundle ask for Node's modules, and for the external ones, by `require`.
  banner: {
    js: 'import { createRequire as requireFor } from "node:module"; const require = requireFor(import.meta.url);',
  },
  plugins: [unmappedPackages],
  logLevel: "warning",
});
// What runs inside of the sandbox before transformations: scripts that are read as texts.
await build({
  entryPoints: readdirSync(sandbox)
    .filter((path) => /^guest-(core|web|crypto|intl|buffer)\.ts$/.test(path))
    .map((path) => join(sandbox, path)),
  outdir: draft,
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

// In one step, as far as there is one, so that a server that starts meanwhile finds one or the other.
const old = `${draft}-old`;
if (existsSync(target)) renameSync(target, old);
renameSync(draft, target);
rmSync(old, { recursive: true, force: true });

import { describe, expect, it } from "vitest";
import { resolvePackage } from "./resolve-package.ts";

const MAIN = "node_modules/pack/main.js";
const MODULE = "node_modules/pack/module.mjs";
const WEB = "node_modules/pack/web.js";
const texts = (manifest: object) => ({
  [MAIN]: "",
  [MODULE]: "",
  [WEB]: "",
  "node_modules/pack/package.json": JSON.stringify(manifest),
});

/** The forms in which packages name one file for `import` and another for `require`. */
const FORMS: readonly (readonly [string, object, string, string])[] = [
  ["main and module", { main: "main.js", module: "module.mjs" }, MAIN, MODULE],
  ["module alone", { module: "module.mjs" }, MODULE, MODULE],
  [
    "exports for bundlers first",
    { exports: { ".": { module: "./module.mjs", require: "./main.js" } } },
    MAIN,
    MODULE,
  ],
  [
    "exports for the web first",
    { exports: { browser: "./web.js", require: "./main.js", import: "./module.mjs" } },
    WEB,
    WEB,
  ],
];

describe("a package that a source brings along", () => {
  it.each(FORMS)(
    "[TS-1] with %s has a file for require, without a module in its place, and one for import",
    (_name, manifest, required, imported) => {
      const files = texts(manifest);
      expect(resolvePackage(files, "pack", "require-call")).toBe(required);
      expect(resolvePackage(files, "pack", "import-statement")).toBe(imported);
    },
  );
});

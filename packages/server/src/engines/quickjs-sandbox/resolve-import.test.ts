import { describe, expect, it } from "vitest";
import { SourceBundler } from "./bundle-source.ts";
import { readCompilerSettings } from "./compiler-settings.ts";
import { ImportResolver } from "./resolve-import.ts";

const NO_SETTINGS = readCompilerSettings({});
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
      const imports = new ImportResolver(texts(manifest), NO_SETTINGS);
      const found = (kind: string) => imports.resolve("pack", "index.js", kind);
      expect(found("require-call")).toEqual({ kind: "file", path: required });
      expect(found("import-statement")).toEqual({ kind: "file", path: imported });
    },
  );

  const of = (files: Record<string, string | object>) => {
    const texts = Object.entries(files).map(([path, text]) => [
      path,
      typeof text === "string" ? text : JSON.stringify(text),
    ]);
    const imports = new ImportResolver(Object.fromEntries(texts), NO_SETTINGS);
    return (specifier: string, importer = "index.js") => {
      const found = imports.resolve(specifier, importer, "import-statement");
      return found.kind === "file" ? found.path : found.kind;
    };
  };

  it("[TS-1] is that of the nearest node_modules", () => {
    const find = of({
      "node_modules/a/index.js": "",
      "node_modules/b/index.js": "",
      "node_modules/a/node_modules/b/index.js": "",
      "packages/own/node_modules/@of/c/lib/d.js": "",
    });
    expect(find("b")).toBe("node_modules/b/index.js");
    expect(find("b", "node_modules/a/index.js")).toBe("node_modules/a/node_modules/b/index.js");
    expect(find("a", "node_modules/a/node_modules/b/index.js")).toBe("node_modules/a/index.js");
    expect(find("@of/c/lib/d", "packages/own/src/x.js")).toMatch(/^packages\/own\/node_modules/);
    expect(find("@of/c/lib/d")).toBe("missing");
  });

  it("[TS-1] exports what the most particular of its patterns and the first of its lists that is there name", () => {
    const find = of({
      "node_modules/p/package.json": {
        exports: {
          "./*": "./wrong/*.js",
          "./f/*": { node: "./wrong/*.js", default: "./right/*.js" },
          "./f/none": null,
          "./list": [{ node: "./wrong/a.js" }, "./absent.js", { default: "./right/a.js" }],
          "./aa*aa": "./right/*.js",
        },
      },
      "node_modules/p/wrong/f/a.js": "",
      "node_modules/p/wrong/a.js": "",
      "node_modules/p/right/a.js": "",
      "node_modules/p/right/none.js": "",
    });
    expect(find("p/f/a")).toBe("node_modules/p/right/a.js");
    expect(find("p/list")).toBe("node_modules/p/right/a.js");
    expect([find("p/f/none"), find("p/aaa"), find("p")]).toEqual(["missing", "missing", "missing"]);
  });

  it("[TS-1] finds its own entries by its name and by those that it gives them", () => {
    const find = of({
      "package.json": {
        name: "me",
        exports: { "./x": "./lib/x.js" },
        imports: { "#*": "./lib/*.js" },
      },
      "lib/x.js": "",
      "node_modules/p/package.json": { imports: { "#x": { default: "./y.js" } } },
      "node_modules/p/y.js": "",
    });
    expect(find("me/x", "lib/z.js")).toBe("lib/x.js");
    expect(find("#x")).toBe("lib/x.js");
    expect(find("#x", "node_modules/p/index.js")).toBe("node_modules/p/y.js");
    expect([find("#z"), find("me/z")]).toEqual(["missing", "missing"]);
  });

  it("[TS-1] has what its browser field puts in the place of its files and of modules", () => {
    const find = of({
      "node_modules/one/package.json": { main: "node.js", browser: "web.js" },
      "node_modules/one/node.js": "",
      "node_modules/one/web.js": "",
      "node_modules/map/package.json": {
        main: "./lib/node.js",
        browser: { "./lib/node.js": "./lib/web.js", "./lib/tty": false, fs: false, net: "one" },
      },
      "node_modules/map/lib/node.js": "",
      "node_modules/map/lib/web.js": "",
      "node_modules/map/lib/tty.js": "",
    });
    const inner = "node_modules/map/lib/web.js";
    expect([find("one"), find("map")]).toEqual(["node_modules/one/web.js", inner]);
    expect([find("./node", inner), find("./tty", inner)]).toEqual([inner, "empty"]);
    expect([find("fs", inner), find("net", inner)]).toEqual(["empty", "node_modules/one/web.js"]);
    expect([find("fs"), find("toString", inner)]).toEqual(["missing", "missing"]);
  });

  it("[TS-1] has paths in its browser field that begin at its top, whoever imports them", () => {
    const find = of({
      "node_modules/map/package.json": {
        browser: { os: "./shims/os.js", "./up.js": "./shims/os.js", "./gone.js": "./shims/os.js" },
      },
      "node_modules/map/shims/os.js": "",
      "node_modules/map/up.js": "",
      "node_modules/map/lib/up.js": "",
    });
    const [inner, shim] = ["node_modules/map/lib/index.js", "node_modules/map/shims/os.js"];
    expect([find("os", inner), find("os", "node_modules/map/index.js")]).toEqual([shim, shim]);
    expect([find("./up.js", inner), find("../up.js", inner), find("../up", inner)]).toEqual([
      "node_modules/map/lib/up.js",
      shim,
      shim,
    ]);
    expect([find("../gone.js", inner), find("../../up.js", inner)]).toEqual([shim, "missing"]);
  });

  it("[TS-1] may be a folder that is named as one beside a file of its name", () => {
    const find = of({ "lib.js": "", "lib/index.js": "", "lib/sub/a.js": "", "index.js": "" });
    expect([find("./lib"), find("./lib/")]).toEqual(["lib.js", "lib/index.js"]);
    expect([find("..", "lib/sub/a.js"), find(".", "lib/sub/a.js")]).toEqual([
      "lib/index.js",
      "missing",
    ]);
    expect([find("../..", "lib/sub/a.js"), find("../../../x", "index.js")]).toEqual([
      "index.js",
      "missing",
    ]);
  });

  it("[TS-7] may name no path that is longer than any file's, however often it repeats what is asked for", () => {
    const exports = { "./*": Array(200).fill(`./${"*".repeat(50_000)}`) };
    const find = of({ "node_modules/p/package.json": { exports } });
    expect(find(`p/${"a".repeat(50_000)}`)).toBe("missing");
    expect(find(`p/${"a".repeat(200)}`)).toBe("missing");
  });

  const many = Array.from({ length: 5_000 }, (_, at) => String(at));
  it.each<[string, Record<string, object>]>([
    ["patterns", { exports: Object.fromEntries(many.map((at) => [`./of${at}/*`, "./none.js"])) }],
    ["targets", { exports: { "./*": many.map((at) => `./${at}.js`) } }],
    ["long targets", { exports: { "./*": many.map((at) => `${at}/`.repeat(800)) } }],
  ])("[TS-7] ends the search of a source where many imports meet many %s", (_what, manifest) => {
    const find = of({ "index.js": "", "node_modules/p/package.json": manifest });
    expect(find("./index")).toBe("index.js");
    for (const at of many) find(`p/${at}`);
    expect(find("./index")).toBe("exhausted");
  });

  it("[TS-7] is refused where its aliases lead to so many places that imports take too long to find", async () => {
    const paths = { "*": Array.from({ length: 2_000 }, (_, at) => String(at)) };
    const imports = Array.from({ length: 300 }, (_, at) => `require("none${at}");\n`);
    const source = {
      "index.js": imports.join(""),
      "tsconfig.json": JSON.stringify({ compilerOptions: { paths } }),
    };
    const bundle = await new SourceBundler().bundle(source);
    const [first] = bundle.kind === "refused" ? bundle.problems : [];
    expect(first?.message).toBe("the imports of the source take too long to find");
  });
});

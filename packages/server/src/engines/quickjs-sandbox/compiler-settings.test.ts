import { describe, expect, it } from "vitest";
import { readCompilerSettings } from "./compiler-settings.ts";
import { resolveFile } from "./find-entry.ts";
import { aliasesOf, resolveAlias } from "./path-aliases.ts";

function find(files: Record<string, object>, name: string): string | null {
  const own = { "lib/a.ts": "", "conf/lib/a.ts": "", "top.ts": "" };
  const texts = Object.entries(files).map(([path, value]) => [path, JSON.stringify(value)]);
  const all = { ...own, ...Object.fromEntries(texts) };
  return resolveAlias((path) => resolveFile(all, path), aliasesOf(readCompilerSettings(all)), name);
}

const paths = { "@x/*": ["lib/*"] };

describe("the settings of a source's compiler", () => {
  it("[TS-1] take paths from what they extend, which lie where they are named", () => {
    const inFolder = {
      "tsconfig.json": { extends: "./conf/base" },
      "conf/base.json": { compilerOptions: { paths } },
    };
    expect(find(inFolder, "@x/a")).toBe("conf/lib/a.ts");
    const bySeveral = {
      "tsconfig.json": { extends: ["left/tsconfig.json", "./conf/base.json", "@of/absent"] },
      "node_modules/left/tsconfig.json": { compilerOptions: { baseUrl: "../..", paths } },
      "conf/base.json": { extends: "../tsconfig.json", compilerOptions: { strict: true } },
    };
    expect(find(bySeveral, "@x/a")).toBe("lib/a.ts");
    expect(find(bySeveral, "top")).toBe("top.ts");
  });

  it("[TS-1] count before what they extend", () => {
    const files = {
      "tsconfig.json": {
        extends: "./base.json",
        compilerOptions: { paths: { "@y/*": ["lib/*"] } },
      },
      "base.json": { compilerOptions: { paths, baseUrl: "conf" } },
    };
    expect([find(files, "@x/a"), find(files, "@y/a")]).toEqual([null, "conf/lib/a.ts"]);
    expect(find({ "tsconfig.json": {} }, "top")).toBeNull();
  });
});

import { expect, it } from "vitest";
import { readCompilerSettings } from "./compiler-settings.ts";
import { aliasesOf } from "./path-aliases.ts";

it("orders names of a source's own files by how particular they are, whole ones first", () => {
  const paths = { "@a/*": [], one: [], "@a/b/*": [], two: [], "*": [], three: [] };
  const config = JSON.stringify({ compilerOptions: { paths } });
  expect(
    aliasesOf(readCompilerSettings({ "tsconfig.json": config })).targets.map(
      ([pattern]) => pattern,
    ),
  ).toEqual(["one", "two", "three", "@a/b/*", "@a/*", "*"]);
});

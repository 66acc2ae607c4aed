import { readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { filesBelow } from "./source-files.ts";

const RULE_IN_SPEC = /^- \*\*([A-Z]{2}-\d+)\*\*/gm;
/** Titles are the texts that begin with ids; nothing else in a test begins so. */
const RULE_IN_TITLE = /["'`]((?:\[[A-Z]{2}-\d+\]\s*)+)/g;

const inSpec = [...readFileSync("SPEC.md", "utf8").matchAll(RULE_IN_SPEC)].map((match) => match[1]);
const inTitles = new Set(
  filesBelow("packages", /\.(test|contract)\.ts$/).flatMap((path) =>
    [...readFileSync(path, "utf8").matchAll(RULE_IN_TITLE)].flatMap(
      (match) => match[1]?.match(/[A-Z]{2}-\d+/g) ?? [],
    ),
  ),
);

describe("SPEC.md", () => {
  it("states each rule once", () => {
    expect(inSpec.filter((id, index) => inSpec.indexOf(id) !== index)).toEqual([]);
  });

  it("has every rule shown by some test", () => {
    expect(inSpec.filter((id) => id !== undefined && !inTitles.has(id))).toEqual([]);
  });

  it("has every rule that a test title names", () => {
    expect([...inTitles].filter((id) => !inSpec.includes(id))).toEqual([]);
  });
});

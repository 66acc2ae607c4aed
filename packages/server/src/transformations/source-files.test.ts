import { expect, test } from "vitest";
import { differences } from "./source-files.ts";

const lines = (count: number, text: string) =>
  Array.from({ length: count }, (_, at) => `${text} ${at}\n`).join("");

test("[TM-36] files that differ in many lines are compared in turns with others", async () => {
  let turns = 0;
  let isCompared = false;
  const others = (async () => {
    while (!isCompared) {
      turns += 1;
      await new Promise((resolve) => setImmediate(resolve));
    }
  })();
  const [found] = await differences({ "a.ts": lines(300, "old") }, { "a.ts": lines(300, "new") });
  isCompared = true;
  await others;
  expect(found?.patch).toContain("-old 299\n+new 0\n");
  // One for each further line that differs.
  expect(turns).toBeGreaterThan(500);
});

test.each([
  ["characters", "a".repeat(500_001)],
  ["lines", "\n".repeat(20_001)],
])("[TM-36] a file of many %s is told to differ, and not how", async (_, text) => {
  const short = "export const a = 1;\n";
  expect(
    await differences({ "a.js": text, "b.ts": short }, { "a.js": short, "b.ts": "", "c.js": text }),
  ).toEqual([
    { file: "a.js", status: "changed", patch: null },
    { file: "b.ts", status: "changed", patch: expect.stringContaining("-export const a = 1;") },
    { file: "c.js", status: "added", patch: null },
  ]);
});

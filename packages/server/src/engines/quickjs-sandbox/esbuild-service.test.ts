import { build } from "esbuild";
import { expect, it } from "vitest";
import { esbuildService, TakesTooMuch } from "./esbuild-service.ts";

function buildOne(n: number): Promise<string> {
  return buildText(`export const answer = ${n};`);
}

function buildText(contents: string): Promise<string> {
  const stdin = { contents, loader: "ts" as const };
  return esbuildService.run(async () => {
    const { outputFiles } = await build({ stdin, write: false, logLevel: "silent" });
    return outputFiles?.[0]?.text ?? "";
  });
}

it("answers builds that are under way when another one wants the bundler to rest", async () => {
  const builds = Array.from({ length: 8 }, (_, n) => buildOne(n));
  esbuildService.rest();
  const texts = await Promise.all(builds);
  expect(texts.map((text) => /\d/.exec(text)?.[0])).toEqual([..."01234567"]);
  esbuildService.rest();
  expect(await buildOne(9)).toContain("9");
  esbuildService.rest();
});

it("repeats a build whose process ended, and no other", async () => {
  let tries = 0;
  const answer = await esbuildService.run(async () => {
    tries += 1;
    if (tries === 1) throw new Error("The service was stopped: killed");
    return tries;
  });
  expect(answer).toBe(2);
  const wrong = esbuildService.run(async () => {
    tries += 1;
    throw new Error("wrong");
  });
  await expect(wrong).rejects.toThrow("wrong");
  expect(tries).toBe(3);
  esbuildService.rest();
});

const members = Array.from({ length: 60 }, (_, n) => `a${n + 1} = a${n} + a${n}`);
const arrows = 40;
it.runIf(process.platform === "linux").each([
  ["memory", `enum Doubling { a0 = "some text to begin with", ${members.join(", ")} }`],
  [
    "time",
    `const a = ${"b ? (c) : d => (".repeat(arrows)}e${")".repeat(arrows)}${" : f".repeat(arrows)}`,
  ],
])(
  "[TS-7] gives up the one that takes more %s than it may, and answers those beside it (on Linux, which tells what a process takes)",
  async (resource, greedy) => {
    const outcomes = await Promise.allSettled([buildOne(1), buildText(greedy), buildOne(2)]);
    expect(outcomes).toMatchObject([
      { status: "fulfilled", value: expect.stringContaining("1") },
      { status: "rejected", reason: expect.any(TakesTooMuch) },
      { status: "fulfilled", value: expect.stringContaining("2") },
    ]);
    expect(outcomes[1]).toMatchObject({ reason: { resource } });
    expect(await buildOne(3)).toContain("3");
    esbuildService.rest();
  },
);

import { build } from "esbuild";
import { expect, it } from "vitest";
import { esbuildService } from "./esbuild-service.ts";

function buildOne(n: number): Promise<string> {
  const stdin = { contents: `export const answer = ${n};` };
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

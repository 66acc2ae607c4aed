import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { type Sent, sourceRunner } from "./run-source.setup.ts";

const guide = readFileSync(
  fileURLToPath(new URL("../../../../docs/writing-transformations.md", import.meta.url)),
  "utf8",
);

/** Its blocks of code by what stands behind their language, example by example: each begins with a source. */
function examplesOf(text: string): readonly Record<string, string>[] {
  const examples: Record<string, string>[] = [];
  for (const [, name = "", block = ""] of text.matchAll(/^```\w+ ([\w.]+)\n(.*?)^```$/gms)) {
    if (name === "index.ts") examples.push({});
    const example = examples.at(-1);
    if (example) example[name] = block;
  }
  return examples;
}

let runner: Awaited<ReturnType<typeof sourceRunner>>;
beforeAll(async () => {
  runner = await sourceRunner();
});
afterAll(() => runner.close());

describe("the guide to writing transformations", () => {
  const examples = examplesOf(guide);

  it("has examples", () => expect(examples.length).toBeGreaterThan(3));

  it.each(
    examples.map(({ "index.ts": source = "", event = "", becomes = "", ...rest }) => ({
      ...{ source, event, becomes, ...rest },
    })),
  )("[TS-1] says what comes of $event", async ({ source, event, becomes, ...rest }) => {
    const { config = "{}", "plugin.json": manifest = "{}" } = rest as Record<string, string>;
    const files = { "index.ts": source, "plugin.json": manifest };
    const sent: Sent = JSON.parse(event);
    const [result] = await runner.run(files, JSON.parse(config), [sent]);
    const expected: unknown = JSON.parse(becomes);
    expect(result).toEqual(expected === null ? null : expect.objectContaining(expected));
  });
});

import { afterAll, describe, expect, it } from "vitest";
import { QuickJsSandbox } from "../engines/quickjs-sandbox/quickjs-sandbox.ts";
import { createTryTransformation, type Trial } from "./try-transformation.ts";

const sandbox = new QuickJsSandbox({ threads: 1 });
afterAll(() => sandbox.close());

const trialOf = (source: string): Trial => ({
  projectId: 1,
  configId: 0,
  name: "tried",
  files: { "index.js": source },
  config: {},
  attachments: [],
  allowedHosts: [],
  events: [],
});

describe("trials of transformations", () => {
  it("compile two sources at a time, and go on behind one that is refused", async () => {
    let compiling = 0;
    let most = 0;
    const tryTransformation = createTryTransformation({
      sandbox: {
        compile: async (files) => {
          compiling += 1;
          most = Math.max(most, compiling);
          try {
            return await sandbox.compile(files);
          } finally {
            compiling -= 1;
          }
        },
        start: (settings) => sandbox.start(settings),
      },
      locate: async () => null,
      siteUrl: "http://localhost",
    });
    const outcomes = await Promise.allSettled(
      ["(", "(", ...Array(4).fill("export function processEvent(event) { return event }")].map(
        (source) => tryTransformation(trialOf(source)),
      ),
    );
    expect(outcomes.map(({ status }) => status)).toEqual([
      ...Array(2).fill("rejected"),
      ...Array(4).fill("fulfilled"),
    ]);
    expect(most).toBe(2);
  });
});

import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { expect, it } from "vitest";
import { TRACE, withOwnTraces } from "./engine-traces.ts";

const { resolve } = createRequire(import.meta.url);

it("[TS-17] renames nothing else of the engine than what it calls the traces of errors", async () => {
  const engine = await readFile(resolve("@jitl/quickjs-wasmfile-release-sync/wasm"));
  const renamed = withOwnTraces(engine);
  const changed = [...engine.keys()].filter((at) => engine[at] !== renamed[at]);
  const [first = 0] = changed;
  const last = changed.at(-1) ?? 0;
  expect(engine.subarray(first, last + 1).toString("latin1")).toBe(
    "stack".slice(0, last + 1 - first),
  );
  expect(Buffer.from(renamed).indexOf(`\0${TRACE}\0`, 0, "latin1")).toBeGreaterThan(0);
  expect(WebAssembly.validate(renamed)).toBe(true);
});

it("refuses an engine that keeps its names in another way", () => {
  const names = "\0errors\0stack\0name\0";
  expect(() => withOwnTraces(Buffer.from("\0stack\0"))).toThrow("keeps its names elsewhere");
  expect(() => withOwnTraces(Buffer.from(names + names))).toThrow("keeps its names elsewhere");
});

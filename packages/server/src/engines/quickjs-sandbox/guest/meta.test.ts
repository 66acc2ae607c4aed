import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { QuickJsSandbox } from "../quickjs-sandbox.ts";
import { propertiesAfter, recordHost } from "../sandbox.setup.ts";

let sandbox: QuickJsSandbox;
beforeAll(() => {
  sandbox = new QuickJsSandbox({ threads: 1 });
});
afterAll(() => sandbox.close());

describe("storage", () => {
  it("[TS-12] tells what was stored as null from what is absent, and drops what is set to undefined", async () => {
    const { host, stored } = recordHost();
    const source = `
      export async function processEvent(event, { storage }) {
        await storage.set("next page", null);
        await storage.set("gone", 1);
        const set = await storage.set("gone", undefined);
        event.properties = {
          set: String(set),
          nothing: await storage.get("next page", "first"),
          gone: await storage.get("gone", "first"),
          never: await storage.get("never", "first"),
        };
        return event;
      }`;
    expect(await propertiesAfter(sandbox, source, { host })).toEqual({
      set: "undefined",
      nothing: null,
      gone: "first",
      never: "first",
    });
    expect([...stored]).toEqual([["next page", null]]);
  });
});

describe("posthog.capture", () => {
  it.each([
    ["{ distinct_id: 7, a: 1 }", { distinctId: "7", timestamp: null }],
    ["{ distinct_id: null, a: 1 }", { distinctId: null, timestamp: null }],
    [
      "{ a: 1, timestamp: new Date(0) }",
      { distinctId: null, timestamp: "1970-01-01T00:00:00.000Z" },
    ],
    ["{ a: 1, timestamp: 1e12 }", { distinctId: null, timestamp: "2001-09-09T01:46:40.000Z" }],
    ["{ a: 1, timestamp: 1e300 }", { distinctId: null, timestamp: null }],
    ["{ a: 1, timestamp: true }", { distinctId: null, timestamp: null }],
  ])(
    "[TP-57] reads who and when of %s, however written, and keeps the time out of the properties",
    async (properties, told) => {
      const captured: unknown[] = [];
      const host = {
        ...recordHost().host,
        capture: async (event: unknown) => captured.push(event),
      };
      const source = `export async function processEvent(event) {
      await posthog.capture("made", ${properties}); return event }`;
      await propertiesAfter(sandbox, source, { host: host as never });
      expect(captured).toMatchObject([{ event: "made", ...told }]);
      expect((captured as { properties: object }[])[0]?.properties).not.toHaveProperty("timestamp");
    },
  );
});

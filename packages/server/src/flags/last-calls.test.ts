import { describe, expect, test } from "vitest";
import type { VersionedDefinitions } from "./flag-store.ts";
import { startLastCalls } from "./last-calls.ts";

const now = new Date("2026-03-01T10:00:00Z");

/** A place to write to that can be out of order. */
function keep(earlier: readonly { projectId: number; flagKey: string; at: Date }[] = []) {
  const written: [number, [string, Date][]][] = [];
  const faults: string[] = [];
  let isDown = false;
  const flags = [{ key: "known" }, { key: "constructor" }];
  const lastCalls = startLastCalls({
    flagStore: {
      recordCalls: async (projectId, calls) => {
        if (isDown) throw new Error("down");
        written.push([projectId, [...calls]]);
      },
    },
    flagCalls: { lastCalls: async () => earlier },
    compiledFlags: {
      get: async () => ({ definitions: { flags } as unknown as VersionedDefinitions }) as never,
    },
    clock: () => now,
    reportFault: (_, context) => faults.push(context),
  });
  const note = (key: unknown, at: string, event = "$feature_flag_called") =>
    lastCalls.note([
      {
        position: 1,
        event: {
          projectId: 1,
          event,
          properties: { $feature_flag: key as string },
          receivedAt: now,
          timestamp: new Date(at),
        },
      },
    ]);
  return {
    lastCalls,
    written,
    faults,
    note,
    setDown: (down: boolean) => {
      isDown = down;
    },
  };
}

describe("keeping the last calls of flags", () => {
  test("[FM-29] writes the newest call of each known flag, none that lies ahead", async () => {
    const { lastCalls, written, note } = keep();
    note("known", "2026-02-02T00:00:00Z");
    note("known", "2026-02-01T00:00:00Z");
    note("constructor", "2036-01-01T00:00:00Z");
    note("unknown", "2026-02-03T00:00:00Z");
    note("known", "2026-02-28T00:00:00Z", "$pageview");
    note(5, "2026-02-28T00:00:00Z");
    await lastCalls.flush();
    expect(written).toEqual([
      [
        1,
        [
          ["known", new Date("2026-02-02T00:00:00Z")],
          ["constructor", now],
        ],
      ],
    ]);
    await lastCalls.close();
    expect(written).toHaveLength(1);
  });

  test("[FM-29] writes what an earlier process stored and did not write", async () => {
    const at = new Date("2026-02-20T00:00:00Z");
    const { lastCalls, written } = keep([{ projectId: 1, flagKey: "known", at }]);
    await lastCalls.close();
    expect(written).toEqual([[1, [["known", at]]]]);
  });

  test("[FM-29] writes later what could not be written", async () => {
    const { lastCalls, written, faults, note, setDown } = keep();
    setDown(true);
    note("known", "2026-02-02T00:00:00Z");
    await lastCalls.flush();
    expect(faults).toHaveLength(1);
    setDown(false);
    await lastCalls.close();
    expect(written).toEqual([[1, [["known", new Date("2026-02-02T00:00:00Z")]]]]);
  });
});

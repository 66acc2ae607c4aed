import { afterEach, beforeEach, describe, expect, it, vi } from "vitest";
import { limitFaults } from "./limit-faults.ts";

describe("a log of faults", () => {
  let lines: string[];
  let log: ReturnType<typeof limitFaults>;
  beforeEach(() => {
    vi.useFakeTimers();
    lines = [];
    log = limitFaults({ error: (_fields, message) => lines.push(message) });
  });
  afterEach(() => {
    vi.useRealTimers();
  });

  const thrownHere = (text: string) => new Error(text);

  it("[ER-4] tells the first of a kind, then how many more there were in the minute", () => {
    for (let n = 0; n < 1000; n++) log.error({ err: thrownHere(`row ${n}`) }, "read failed");
    expect(lines).toEqual(Array(5).fill("read failed"));
    vi.advanceTimersByTime(60_000);
    expect(lines.slice(5)).toEqual(["read failed (995 more like this in the last minute)"]);
    log.error({ err: thrownHere("again") }, "read failed");
    expect(lines.slice(6)).toEqual(["read failed"]);
    vi.advanceTimersByTime(60_000);
    expect(lines).toHaveLength(7);
  });

  it("[ER-4] tells faults apart by message, sort and place", () => {
    for (let n = 0; n < 20; n++) {
      log.error({ err: thrownHere("a") }, "read failed");
      log.error({ err: new Error("a") }, "read failed");
      log.error({ err: new TypeError("a") }, "read failed");
      log.error({ err: "no error at all" }, "read failed");
      log.error({ err: thrownHere("a") }, "write failed");
    }
    expect(lines).toHaveLength(25);
  });

  it("[ER-4] is bounded for however many kinds, and takes new ones again later", () => {
    for (let n = 0; n < 5000; n++) log.error({ err: thrownHere("a") }, `flag ${n} failed`);
    expect(lines).toHaveLength(200 + 5);
    vi.advanceTimersByTime(60_000);
    expect(lines).toHaveLength(200 + 5 + 1);
    log.error({ err: thrownHere("a") }, "something new");
    expect(lines.at(-1)).toBe("something new");
  });
});

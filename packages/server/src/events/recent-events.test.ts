import { describe, expect, it } from "vitest";
import { sampleEvent } from "./event-log.contract.ts";
import { createRecentEvents } from "./recent-events.ts";

describe("recent events", () => {
  it("[CA-60] tell the same event from another one with its uuid, per project", () => {
    const recent = createRecentEvents();
    const event = sampleEvent({ event: "paid", distinctId: "ann" });
    recent.add(1, event);
    expect(recent.compare(1, event)).toBe("duplicate");
    expect(recent.compare(2, event)).toBeUndefined();
    expect(recent.compare(1, { ...event, event: "pai", distinctId: "dann" })).toBe("conflict");
    expect(recent.compare(1, { ...event, clientTimestamp: new Date(1) })).toBe("conflict");
    // What was derived from the arrival differs between two sendings of one event.
    expect(recent.compare(1, { ...event, timestamp: new Date(1) })).toBe("duplicate");
  });

  it("[CA-60] know the last sixteen thousand at least, and not many more", () => {
    const recent = createRecentEvents();
    const events = Array.from({ length: 40_000 }, () => sampleEvent());
    for (const event of events) recent.add(1, event);
    const known = events.filter((event) => recent.compare(1, event) === "duplicate");
    expect(known.length).toBeGreaterThanOrEqual(16_384);
    expect(known.length).toBeLessThanOrEqual(32_768);
    expect(known.at(-1)).toBe(events.at(-1));
  });
});

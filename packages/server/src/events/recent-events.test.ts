import { describe, expect, it } from "vitest";
import { sampleEvent } from "./event-log.contract.ts";
import { createRecentEvents, MOST_RECENT } from "./recent-events.ts";

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

  it("[CA-60] tell uuids apart that differ in a single digit", () => {
    const recent = createRecentEvents();
    const uuid = "01234567-89ab-4def-8123-456789abcdef";
    const digits = Array.from(uuid, (_, at) => at).filter((at) => uuid[at] !== "-");
    const others = digits.flatMap((at) =>
      [..."0123456789abcdef"]
        .filter((digit) => digit !== uuid[at])
        .map((digit) => `${uuid.slice(0, at)}${digit}${uuid.slice(at + 1)}`),
    );
    recent.add(1, sampleEvent({ uuid }));
    for (const other of others) {
      expect(recent.compare(1, sampleEvent({ uuid: other }))).toBeUndefined();
    }
    for (const other of others) recent.add(1, sampleEvent({ uuid: other }));
    for (const one of [uuid, ...others]) {
      expect(recent.compare(1, sampleEvent({ uuid: one }))).toBe("duplicate");
      expect(recent.compare(1, sampleEvent({ uuid: one, event: "other" }))).toBe("conflict");
    }
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

describe("events that are about to become durable", () => {
  it("[CA-60] are known at once, and forgotten where they do not", async () => {
    const recent = createRecentEvents();
    const [kept, lost] = [sampleEvent(), sampleEvent()];
    expect(recent.underWay(1)).toBeUndefined();
    for (const event of [kept, lost]) expect(recent.add(1, event)).toBeUndefined();
    expect(recent.add(1, { ...lost, event: "another" })).toBe("conflict");
    recent.addedWith(Promise.resolve(), 1, [kept]);
    recent.addedWith(Promise.reject(new Error("the disk is full")), 1, [lost]);
    expect(recent.underWay(2)).toBeUndefined();
    expect(await recent.underWay(1)).toEqual(new Set([lost.uuid]));
    expect(recent.underWay(1)).toBeUndefined();
    expect(recent.compare(1, kept)).toBe("duplicate");
    expect(recent.compare(1, lost)).toBeUndefined();
    expect([kept, lost].map((event) => recent.isForgotten(1, event))).toEqual([false, true]);
    // What comes then is the first.
    expect(recent.add(1, { ...lost, event: "another" })).toBeUndefined();
    expect(recent.isForgotten(1, lost)).toBe(false);
    expect(recent.compare(1, lost)).toBe("conflict");
  });

  it("[CA-60] are told to be lost also where so many came since that they are not remembered", async () => {
    const recent = createRecentEvents();
    const events = Array.from({ length: MOST_RECENT + 1 }, () => sampleEvent());
    for (const event of events) recent.add(1, event);
    recent.addedWith(Promise.reject(new Error("the disk is full")), 1, events);
    expect(await recent.underWay(1)).toEqual(new Set(events.map(({ uuid }) => uuid)));
  });
});

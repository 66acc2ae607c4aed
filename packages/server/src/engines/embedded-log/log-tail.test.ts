import { describe, expect, it } from "vitest";
import { sampleEvent } from "../../events/event-log.contract.ts";
import { createLogTail } from "./log-tail.ts";

const positions = (read: { entries: readonly { position: number }[] } | undefined) =>
  read?.entries.map(({ position }) => position);
const ALL = { limit: 100, maxChars: 1000 };

describe("LogTail", () => {
  it("[PI-53] has the newest entries within its bound, and says when it lacks the first asked for", () => {
    const tail = createLogTail(() => 30);
    for (let position = 5; position <= 9; position++) {
      tail.add({ position, event: sampleEvent() }, 10);
    }
    expect(tail.read(5, ALL)).toBeUndefined();
    expect(positions(tail.read(6, ALL))).toEqual([7, 8, 9]);
    expect(positions(tail.read(7, { limit: 1, maxChars: 1000 }))).toEqual([8]);
    expect(positions(tail.read(6, { limit: 100, maxChars: 15 }))).toEqual([7, 8]);
    expect(tail.read(9, ALL)).toBeUndefined();
  });

  it("[PI-53] forgets what is released, and everything before a gap", () => {
    const tail = createLogTail(() => 1000);
    for (const position of [1, 2, 3]) tail.add({ position, event: sampleEvent() }, 1);
    tail.forget(2);
    expect(tail.read(1, ALL)).toBeUndefined();
    expect(positions(tail.read(2, ALL))).toEqual([3]);
    tail.add({ position: 7, event: sampleEvent() }, 1);
    expect(tail.read(2, ALL)).toBeUndefined();
    expect(positions(tail.read(6, ALL))).toEqual([7]);
    tail.forget(100);
    expect(tail.read(6, ALL)).toBeUndefined();
    for (const position of [8, 9, 20]) {
      tail.add({ position, event: sampleEvent() }, 1);
      expect(positions(tail.read(position - 1, ALL))).toEqual([position]);
      expect(tail.read(position, ALL)).toBeUndefined();
    }
  });

  it("[PI-53] takes entries longer than its bound without keeping them", () => {
    const tail = createLogTail(() => 10);
    tail.add({ position: 1, event: sampleEvent() }, 11);
    expect(tail.read(0, ALL)).toBeUndefined();
    tail.add({ position: 2, event: sampleEvent() }, 5);
    expect(positions(tail.read(1, ALL))).toEqual([2]);
  });
});

import { expect, it } from "vitest";
import { AttendedTime } from "./attended-time.ts";

it("passes as on the wall while both threads have their turns", () => {
  let signs = 0;
  const time = new AttendedTime(() => signs, 0);
  for (let nowMs = 100; nowMs <= 10_000; nowMs += 100) {
    if (nowMs % 200 === 0) signs += 1;
    expect(time.read(nowMs)).toBe(nowMs);
  }
});

it("stands still while either thread has none", () => {
  let signs = 0;
  const time = new AttendedTime(() => signs, 0);
  signs += 1;
  expect(time.read(100)).toBe(100);
  // This thread is away for a minute.
  signs += 240;
  expect(time.read(60_100)).toBe(300);
  // The main thread is away for a minute.
  for (let nowMs = 60_200; nowMs <= 120_000; nowMs += 100) time.read(nowMs);
  expect(time.read(120_000)).toBeLessThanOrEqual(300 + 1_000);
  signs += 1;
  const before = time.read(120_100);
  expect(time.read(120_200)).toBe(before + 100);
});

import { expect, test } from "vitest";
import { Refusal } from "./errors.ts";
import { readInstant, wireInstant, wireInstantOrNull } from "./wire-instant.ts";

test.each([
  ["2020-01-01T00:00:00.000Z", "2020-01-01T00:00:00Z"],
  ["2024-02-29T23:59:12.252Z", "2024-02-29T23:59:12.252000Z"],
  ["2024-02-29T23:59:12.200Z", "2024-02-29T23:59:12.200000Z"],
  ["2024-02-29T23:59:10.001Z", "2024-02-29T23:59:10.001000Z"],
])("[AC-40] %s is written as %s", (instant, wire) => {
  expect(wireInstant(new Date(instant))).toBe(wire);
});

test("[AC-40] an instant that has not come is null", () => {
  expect(wireInstantOrNull(null)).toBeNull();
});

test.each(["2026-02-30T00:00:00Z", "2025-02-29T12:00:00+05:00", "2026-04-31T00:00Z"])(
  "%s is no instant: no calendar has that day",
  (text) => {
    expect(() => readInstant(text, "start_date")).toThrow(Refusal);
  },
);

test.each([
  ["2024-02-29T23:59:00-11:00", "2024-03-01T10:59:00.000Z"],
  ["0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000Z"],
  ["2026-03-01 04:05:06.123456+0200", "2026-03-01T02:05:06.123Z"],
])("%s is %s", (text, instant) => {
  expect(readInstant<never>(text, "start_date").toISOString()).toBe(instant);
});

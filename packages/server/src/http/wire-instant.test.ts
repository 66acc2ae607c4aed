import { expect, test } from "vitest";
import { wireInstant, wireInstantOrNull } from "./wire-instant.ts";

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

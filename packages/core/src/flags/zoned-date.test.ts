import { describe, expect, it } from "vitest";
import {
  createTimeZone,
  parseDecimal,
  readDateExpression,
  readPropertyInstant,
  resolveDate,
} from "./zoned-date.ts";

function instantOf(text: string, zoneName: string, now = "2025-06-15T12:00:00Z"): string | null {
  const zone = createTimeZone(zoneName);
  const expression = readDateExpression(text, zone);
  if (expression === null) return null;
  const ms = resolveDate(expression, new Date(now).getTime(), zone);
  return ms === null ? null : new Date(ms).toISOString();
}

describe("dates in filters", () => {
  it.each([
    ["2024-06-01", "America/Los_Angeles", "2024-06-01T07:00:00.000Z"],
    ["2024-01-01", "America/Los_Angeles", "2024-01-01T08:00:00.000Z"],
    ["2024-06-01 08:30", "Asia/Kolkata", "2024-06-01T03:00:00.000Z"],
    ["2024-06-01T08:30:15.25", "Europe/Amsterdam", "2024-06-01T06:30:15.250Z"],
    ["2024-06-01T08:30:15Z", "Europe/Amsterdam", "2024-06-01T08:30:15.000Z"],
    ["2024-06-01T08:30:15+02:30", "Asia/Tokyo", "2024-06-01T06:00:15.000Z"],
    ["2024-06-01 08:30:15 GMT", "Asia/Tokyo", "2024-06-01T08:30:15.000Z"],
    ["2024-06-01 08:30:15 -01:00", "Asia/Tokyo", "2024-06-01T09:30:15.000Z"],
    ["Sat, 01 Jun 2024 08:30:15 +0000", "Asia/Tokyo", "2024-06-01T08:30:15.000Z"],
    ["2024-6-1", "UTC", "2024-06-01T00:00:00.000Z"],
    ["2024-02-29", "UTC", "2024-02-29T00:00:00.000Z"],
  ])("[FE-12] reads %s in %s", (text, zone, expected) => {
    expect(instantOf(text, zone)).toBe(expected);
  });

  it.each(["2024-02-30", "2024-13-01", "2023-02-29", "1.0.0", "soon", "", "10000d", "1.5d", "d"])(
    "[FE-12] takes %j for no date",
    (text) => {
      expect(instantOf(text, "UTC")).toBeNull();
    },
  );

  it("[FE-12] matches no time that a clock change skips", () => {
    expect(instantOf("2024-03-10 02:30:00", "America/New_York")).toBeNull();
    expect(instantOf("2024-03-10 03:00:00", "America/New_York")).toBe("2024-03-10T07:00:00.000Z");
    expect(instantOf("2024-03-31 02:00:00", "Europe/Berlin")).toBeNull();
  });

  it("[FE-12] takes the earlier of two times with the same name", () => {
    expect(instantOf("2024-11-03 01:30:00", "America/New_York")).toBe("2024-11-03T05:30:00.000Z");
    expect(instantOf("2024-10-27 02:30:00", "Europe/Berlin")).toBe("2024-10-27T00:30:00.000Z");
    expect(instantOf("2024-04-07 02:30:00", "Australia/Sydney")).toBe("2024-04-06T15:30:00.000Z");
  });

  it.each([
    ["-3h", "UTC", "2025-06-15T12:00:00Z", "2025-06-15T09:00:00.000Z"],
    ["3h", "UTC", "2025-06-15T12:00:00Z", "2025-06-15T09:00:00.000Z"],
    ["-02w", "UTC", "2025-06-15T12:00:00Z", "2025-06-01T12:00:00.000Z"],
    // 31 March less two months, one at a time: 28 February, then 28 January.
    ["2m", "UTC", "2025-03-31T12:00:00Z", "2025-01-28T12:00:00.000Z"],
    ["1y", "UTC", "2024-02-29T12:00:00Z", "2023-02-28T12:00:00.000Z"],
    ["4y", "UTC", "2024-02-29T12:00:00Z", "2020-02-28T12:00:00.000Z"],
    ["13m", "UTC", "2025-01-15T00:00:00Z", "2023-12-15T00:00:00.000Z"],
    // The wall clock is stepped back: a day over a clock change is 23 or 25 hours.
    ["1d", "America/New_York", "2024-03-11T03:30:00Z", "2024-03-10T04:30:00.000Z"],
    ["1d", "America/New_York", "2024-03-10T16:00:00Z", "2024-03-09T17:00:00.000Z"],
    ["9999d", "UTC", "2025-06-15T12:00:00Z", "1998-01-29T12:00:00.000Z"],
  ])("[FE-12] steps %s back in %s from %s", (text, zone, now, expected) => {
    expect(instantOf(text, zone, now)).toBe(expected);
  });

  it("[FE-12] reads numbers of a person as Unix seconds", () => {
    const zone = createTimeZone("America/Los_Angeles");
    expect(readPropertyInstant(1717225200, 0, zone)).toBe(1717225200000);
    expect(readPropertyInstant("1717225200.5", 0, zone)).toBe(1717225200500);
    expect(readPropertyInstant(62802180000012344, 0, zone)).toBeNull();
    expect(readPropertyInstant(true, 0, zone)).toBeNull();
    expect(readPropertyInstant(null, 0, zone)).toBeNull();
  });

  it("[FE-11] parses numbers strictly", () => {
    expect(["1", "-1.5", "+.5", "1.", "1e3", "INF", "-Infinity"].map(parseDecimal)).toEqual([
      1,
      -1.5,
      0.5,
      1,
      1000,
      Number.POSITIVE_INFINITY,
      Number.NEGATIVE_INFINITY,
    ]);
    expect(parseDecimal("nan")).toBeNaN();
    expect(["", " 1", "1 ", "0x10", "12abc", "1,5", "--1", ".", "e5"].map(parseDecimal)).toEqual(
      new Array(9).fill(null),
    );
  });

  it("reads an unknown zone as UTC", () => {
    expect(instantOf("2024-06-01", "Nowhere/Land")).toBe("2024-06-01T00:00:00.000Z");
  });
});

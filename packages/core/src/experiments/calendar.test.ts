import { describe, expect, it } from "vitest";
import { createTimeZone } from "../flags/zoned-date.ts";
import { calendarDays } from "./calendar.ts";

const days = (from: string, to: string, zone: string, most = 100) =>
  calendarDays({ fromMs: Date.parse(from), toMs: Date.parse(to) }, createTimeZone(zone), most).map(
    ({ day, fromMs }) => `${day} ${new Date(fromMs).toISOString()}`,
  );

describe("days of a calendar", () => {
  it("begin at midnight of the zone, whatever its clocks did the day before", () => {
    expect(days("2026-03-28T22:59:00Z", "2026-03-30T00:00:00Z", "Europe/Berlin")).toEqual([
      "2026-03-28 2026-03-27T23:00:00.000Z",
      "2026-03-29 2026-03-28T23:00:00.000Z",
      "2026-03-30 2026-03-29T22:00:00.000Z",
    ]);
    expect(days("2026-03-01T12:00:00Z", "2026-03-02T00:00:00Z", "UTC")).toEqual([
      "2026-03-01 2026-03-01T00:00:00.000Z",
    ]);
  });

  it("begin when clocks are set forward where that skips midnight", () => {
    expect(days("2018-11-04T02:59:00Z", "2018-11-04T03:01:00Z", "America/Sao_Paulo")).toEqual([
      "2018-11-03 2018-11-03T03:00:00.000Z",
      "2018-11-04 2018-11-04T03:00:00.000Z",
    ]);
  });

  it("are none of an empty interval, and the last of a long one", () => {
    expect(days("2026-03-01T00:00:00Z", "2026-03-01T00:00:00Z", "UTC")).toEqual([]);
    expect(days("2026-03-01T00:00:00Z", "2026-03-09T00:00:00Z", "UTC", 2)).toEqual([
      "2026-03-07 2026-03-07T00:00:00.000Z",
      "2026-03-08 2026-03-08T00:00:00.000Z",
    ]);
  });
});

import { describe, expect, it } from "vitest";
import type { Json, JsonObject } from "../json.ts";
import { readBehavior, resolvePeriod } from "./behavior.ts";

const now = Date.parse("2026-03-31T12:00:00Z");
const leaf = (parts: JsonObject): JsonObject => ({
  type: "behavioral",
  key: "bought",
  value: "performed_event",
  event_type: "events",
  ...parts,
});
function read(parts: JsonObject) {
  const behavior = readBehavior(leaf(parts), "Europe/Berlin");
  if (typeof behavior === "string") throw new Error(behavior);
  return behavior;
}
function periodOf(parts: JsonObject) {
  const { afterMs, beforeMs } = resolvePeriod(read(parts).period, now);
  return [afterMs, beforeMs].map((ms) => (ms === null ? null : new Date(ms).toISOString()));
}

describe("what a behavioral leaf asks for", () => {
  it.each([
    [{ time_value: 30, time_interval: "minute" }, "2026-03-31T11:30:00.000Z", null],
    [{ time_value: "2", time_interval: "hour" }, "2026-03-31T10:00:00.000Z", null],
    [{ time_value: 7, time_interval: "day" }, "2026-03-24T12:00:00.000Z", null],
    [{ time_value: 7 }, "2026-03-24T12:00:00.000Z", null],
    [{ time_value: 2, time_interval: "week" }, "2026-03-17T12:00:00.000Z", null],
    [{ time_value: 1, time_interval: "month" }, "2026-02-28T12:00:00.000Z", null],
    [{ time_value: 1, time_interval: "year" }, "2025-03-31T12:00:00.000Z", null],
    [{ explicit_datetime: "-3d" }, "2026-03-28T12:00:00.000Z", null],
    [{ explicit_datetime: "2026-01-01" }, "2025-12-31T23:00:00.000Z", null],
    [
      { explicit_datetime: "2026-01-01T00:00:00Z", explicit_datetime_to: "-1d", time_value: 5 },
      "2026-01-01T00:00:00.000Z",
      "2026-03-30T12:00:00.000Z",
    ],
    [{}, null, null],
  ] as [JsonObject, string | null, string | null][])(
    "[CO-11] the period of %j is after %s and before %s",
    (parts, after, before) => {
      expect(periodOf(parts)).toEqual([after, before]);
    },
  );

  it.each([
    ["gte", 3, 3, null],
    ["gt", 3, 4, null],
    ["lte", "3", 1, 3],
    ["lt", 3, 1, 2],
    ["eq", 3, 3, 3],
    ["exact", 3, 3, 3],
    [null, 3, 3, 3],
  ] as [Json, Json, number, number | null][])(
    "[CO-11] %s %s times is at least %s and at most %s, and never none",
    (operator, operator_value, least, most) => {
      const parts = { value: "performed_event_multiple", operator, operator_value };
      expect(read(parts)).toMatchObject({ least, most, isFirstTime: false });
    },
  );

  it("[CO-11] knows the event, what is asked of its properties, and whether it is the first", () => {
    const event_filters = [{ key: "price", operator: "gt", value: 10, type: "event" }];
    expect(read({ event_filters, value: "performed_event_first_time" })).toMatchObject({
      event: "bought",
      eventFilters: [{ key: "price", operator: "gt", value: 10 }],
      least: 1,
      most: null,
      isFirstTime: true,
    });
  });
});

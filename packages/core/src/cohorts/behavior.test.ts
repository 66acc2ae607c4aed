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
  const behavior = read(parts);
  if (!("period" in behavior)) throw new Error(behavior.kind);
  const { afterMs, beforeMs } = resolvePeriod(behavior.period, now);
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
      expect(read(parts)).toMatchObject({ kind: "times", least, most });
    },
  );

  it("[CO-11] knows the event, what is asked of its properties, and whether it is the first", () => {
    const event_filters = [{ key: "price", operator: "gt", value: 10, type: "event" }];
    expect(read({ event_filters, value: "performed_event_first_time" })).toMatchObject({
      event: "bought",
      eventFilters: [{ key: "price", operator: "gt", value: 10 }],
      kind: "first",
    });
  });

  it("[CO-31] knows the steps of a sequence, and how soon the second has to follow", () => {
    const parts = {
      value: "performed_event_sequence",
      seq_event: "paid",
      seq_event_type: "events",
    };
    const span = { time_value: 7, time_interval: "day", seq_time_value: "30" };
    expect(read({ ...parts, ...span, seq_time_interval: "minute" })).toMatchObject({
      kind: "sequence",
      event: "bought",
      period: { from: { kind: "relative", count: 7, unit: "d" }, to: null },
      next: "paid",
      within: { kind: "minutes", count: 30 },
    });
  });

  it.each([
    ["gte", 2, null],
    ["lte", 0, 2],
    ["lt", 0, 1],
    ["eq", 2, 2],
  ] as [string, number, number | null][])(
    "[CO-32] regularly with %s is at least %s and at most %s times a span",
    (operator, least, most) => {
      const parts = { operator, operator_value: 2, time_value: 2, time_interval: "week" };
      const value = "performed_event_regularly";
      expect(read({ value, ...parts, min_periods: 3, total_periods: "4" })).toMatchObject({
        kind: "regularly",
        span: { kind: "relative", count: 2, unit: "w" },
        least,
        most,
        minPeriods: 3,
        totalPeriods: 4,
      });
    },
  );

  it("[CO-33] knows both spans of what stopped and of what started again", () => {
    const parts = {
      time_value: 4,
      time_interval: "week",
      seq_time_value: 7,
      seq_time_interval: "day",
    };
    const spans = {
      since: { kind: "relative", count: 4, unit: "w" },
      recent: { kind: "relative", count: 7, unit: "d" },
    };
    for (const kind of ["stopped", "restarted"]) {
      expect(read({ value: `${kind}_performing_event`, ...parts })).toMatchObject({
        kind,
        ...spans,
      });
    }
  });

  const seq = { seq_event: "paid", seq_time_value: 1, seq_time_interval: "day" };
  const spans = { time_value: 7, time_interval: "day" };
  const often = { operator: "gte", operator_value: 1, min_periods: 2, total_periods: 3 };
  it.each([
    ["performed_event_sequence", { ...seq, ...spans, seq_event: "" }, "seq_event"],
    ["performed_event_sequence", { ...seq, ...spans, seq_event: 5 }, "seq_event"],
    ["performed_event_sequence", { ...seq, ...spans, seq_event_type: "actions" }, "seq_event_type"],
    ["performed_event_sequence", { ...spans, seq_event: "paid" }, "seq_time_value"],
    [
      "performed_event_sequence",
      { ...seq, ...spans, seq_time_interval: "eon" },
      "seq_time_interval",
    ],
    ["performed_event_sequence", { ...seq, time_value: -1 }, "time_value"],
    ["performed_event_regularly", { ...often, min_periods: 4, ...spans }, "min_periods"],
    ["performed_event_regularly", { ...often, min_periods: 0, ...spans }, "min_periods"],
    ["performed_event_regularly", { ...often, total_periods: 101, ...spans }, "total_periods"],
    ["performed_event_regularly", { ...often, total_periods: 1.5, ...spans }, "total_periods"],
    ["performed_event_regularly", { ...often, operator_value: 0, ...spans }, "operator_value"],
    [
      "performed_event_regularly",
      { ...often, time_value: 9_000, time_interval: "year" },
      "time_value",
    ],
    ["performed_event_regularly", often, "time_value"],
    ["stopped_performing_event", { ...seq, time_value: 24, time_interval: "hour" }, "shorter"],
    ["restarted_performing_event", { ...seq, ...spans, seq_time_value: 1.5 }, "seq_time_value"],
    ["restarted_performing_event", spans, "seq_time_value"],
    ["performed_event_backwards", spans, "performed_event_backwards"],
  ] as [string, JsonObject, string][])(
    "[CO-9] %s with %j is refused, naming %s",
    (value, parts, named) => {
      expect(readBehavior(leaf({ value, ...parts }), "UTC")).toEqual(
        expect.stringContaining(named),
      );
    },
  );
});

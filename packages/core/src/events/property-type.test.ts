import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { detectPropertyType, PROPERTY_TYPES, type PropertyType } from "./property-type.ts";

const typesOf = (cases: readonly (readonly [string, unknown, PropertyType | null])[]) => {
  for (const [name, value, type] of cases) {
    expect([name, value, detectPropertyType(name, value)]).toEqual([name, value, type]);
  }
};

describe("detectPropertyType", () => {
  it("[PD-1] tells texts, numbers and booleans apart, and gives no type to anything else", () => {
    typesOf([
      ["plan", "pro", "String"],
      ["plan", "", "String"],
      ["plan", "12", "String"],
      ["price", 12.5, "Numeric"],
      ["price", -1, "Numeric"],
      ["id", 12345678901234567890n, "Numeric"],
      ["paid", true, "Boolean"],
      ["paid", " FALSE ", "Boolean"],
      ["paid", "True", "Boolean"],
      ["paid", "truely", "String"],
      ["list", [1], null],
      ["object", { a: 1 }, null],
      ["nothing", null, null],
      ["nothing", undefined, null],
    ]);
  });

  it("[PD-2] takes texts that are written as dates for instants, whatever the name", () => {
    typesOf([
      ["x", "2026-03-01", "DateTime"],
      ["x", "2026/03/01", "DateTime"],
      ["x", "01-03-2026", "DateTime"],
      ["x", "2026-03-01T10:00:00Z", "DateTime"],
      ["x", "2026-03-01T10:00:00.123+02:00", "DateTime"],
      ["x", "2026-03-01 10:00:00", "DateTime"],
      ["x", "03/01/2026 10:00:00", "DateTime"],
      ["x", "Tue, 01 Jul 2003 10:52:37 +0200", "DateTime"],
      ["x", "2026-03-01 and more", "String"],
      ["created_at", "yesterday", "String"],
      ["x", "2026", "String"],
      ["x", `2026-03-01 10:00:00${" ".repeat(1000)}x`, "String"],
    ]);
  });

  it("[PD-2] takes unix seconds and milliseconds for instants where the name speaks of time", () => {
    typesOf([
      ["timestamp", 1641477529, "DateTime"],
      ["Time", 1641477529.234715, "DateTime"],
      ["created_at", 1641477753371, "DateTime"],
      ["createdAt", 1641477753371, "DateTime"],
      ["signup-date", 1641477753371, "DateTime"],
      ["created_at", 164147775337, "Numeric"],
      ["created_at", 1641477753371.5, "Numeric"],
      ["load_time", 12, "Numeric"],
      ["order", 1641477753371, "Numeric"],
    ]);
  });

  it("[PD-3] takes campaign parameters, flag values and answers to surveys for texts", () => {
    typesOf([
      ["utm_source", 12, "String"],
      ["UTM_term", true, "String"],
      ["$initial_utm_source", 12, "String"],
      ["$feature/new-ui", true, "String"],
      ["$feature_flag_response", false, "String"],
      ["$survey_response_2", 5, "String"],
      ["$feature_flag_response_time", 5, "Numeric"],
    ]);
  });

  it("answers for every name and value at once", () => {
    fc.assert(
      fc.property(fc.string({ unit: "binary" }), fc.jsonValue(), (name, value) => {
        const type = detectPropertyType(name, value);
        return type === null || PROPERTY_TYPES.includes(type);
      }),
    );
    const before = process.cpuUsage();
    detectPropertyType("x".repeat(200_000), "2026-03-01 10:00:00".padEnd(1_000_000, " "));
    // One that tried every length would take minutes.
    expect(process.cpuUsage(before).user / 1_000).toBeLessThan(2_000);
  });
});

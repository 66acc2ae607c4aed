import { afterEach, expect, it } from "vitest";
import { readDate } from "./read-date.ts";

const { TZ: zone } = process.env;
afterEach(() => {
  if (zone === undefined) delete process.env["TZ"];
  else process.env["TZ"] = zone;
});

it.each(["UTC", "America/New_York", "Asia/Kolkata"])(
  "[TS-17] local time is universal time, where that of the machine is that of %s",
  (machine) => {
    process.env["TZ"] = machine;
    const read = (text: string) => {
      const instant = readDate(text);
      return instant === null ? null : new Date(instant).toISOString();
    };
    expect(read("Jan 2 2024")).toBe("2024-01-02T00:00:00.000Z");
    expect(read("1/2/2024, 3:04:05\u202fPM")).toBe("2024-01-02T15:04:05.000Z");
    expect(read("2024-01-02t03:04")).toBe("2024-01-02T03:04:00.000Z");
    expect(read("Sun Mar 10 2024 02:30 (in the night (of New York))")).toBe(
      "2024-03-10T02:30:00.000Z",
    );
    expect(read("12:30 2024-03-10")).toBe("2024-03-10T12:30:00.000Z");
    expect(read("2024")).toBe("2024-01-01T00:00:00.000Z");
    expect(read("GMT Jan 2 2024")).toBe("2024-01-02T00:00:00.000Z");
    // With a zone of their own.
    expect(read("Tue, 02 Jan 2024 03:04:05 GMT")).toBe("2024-01-02T03:04:05.000Z");
    expect(read("2024-01-02 03:04:05+0230")).toBe("2024-01-02T00:34:05.000Z");
    expect(read("2024-01-02 03:04:05 -08:00")).toBe("2024-01-02T11:04:05.000Z");
    expect(read("1/2/2024 03:04 PM+0530")).toBe("2024-01-02T09:34:00.000Z");
    expect(read("Jan 2 2024 03:04 est")).toBe("2024-01-02T08:04:00.000Z");
    expect(read("Jan 2 2024 03:04:05z (noted)")).toBe("2024-01-02T03:04:05.000Z");
    expect(read("tomorrow")).toBeNull();
    expect(read(" ".repeat(2_000))).toBeNull();
  },
);

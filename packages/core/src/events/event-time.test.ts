import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { eventTimes, readEpochMs, readMoment } from "./event-time.ts";

describe("readMoment", () => {
  it.each([
    ["2024-02-29T12:30:45.678Z", "2024-02-29T12:30:45.678Z"],
    ["2024-02-29T12:30:45.678901Z", "2024-02-29T12:30:45.678Z"],
    ["2024-02-29T12:30:45,5Z", "2024-02-29T12:30:45.500Z"],
    ["2024-02-29T12:30:45+0530", "2024-02-29T07:00:45.000Z"],
    ["2024-02-29T12:30:45-08", "2024-02-29T20:30:45.000Z"],
    ["2024-02-29T12:30:45 +01:00", "2024-02-29T11:30:45.000Z"],
    ["2024-02-29T12:30Z", "2024-02-29T12:30:00.000Z"],
    ["2024-02-29 12:30:45", "2024-02-29T12:30:45.000Z"],
    ["2024-02-29 12:30:45 UTC", "2024-02-29T12:30:45.000Z"],
    [" 2024-02-29t12:30:45z ", "2024-02-29T12:30:45.000Z"],
    ["2024-02-29", "2024-02-29T00:00:00.000Z"],
    ["2024-2-9", "2024-02-09T00:00:00.000Z"],
    ["2024-02", "2024-02-01T00:00:00.000Z"],
    ["20240229T123045Z", "2024-02-29T12:30:45.000Z"],
    ["20240229", "2024-02-29T00:00:00.000Z"],
    ["2024-12-31T24:00:00Z", "2025-01-01T00:00:00.000Z"],
    ["2016-12-31T23:59:60Z", "2016-12-31T23:59:59.000Z"],
    ["0001-01-01T00:00:00Z", "0001-01-01T00:00:00.000Z"],
    ["Thu, 29 Feb 2024 12:30:45 GMT", "2024-02-29T12:30:45.000Z"],
    ["29 Feb 2024 12:30:45 +0100", "2024-02-29T11:30:45.000Z"],
    [
      "Thu Feb 29 2024 12:30:45 GMT+0100 (Central European Standard Time)",
      "2024-02-29T11:30:45.000Z",
    ],
    ["+12024-02-29T00:00:00Z", "1970-01-01T00:00:00.000Z"],
    ["-0044-03-15T00:00:00Z", "1970-01-01T00:00:00.000Z"],
  ])("[CA-20] reads %s", (text, expected) => {
    expect(readMoment(text)?.toISOString()).toBe(expected);
  });

  it.each([
    "",
    "now",
    "1714557600",
    "2024",
    "2023-02-29T00:00:00Z",
    "2024-13-01",
    "2024-00-10",
    "2024-02-29T25:00:00Z",
    "2024-02-29T24:00:01Z",
    "2024-02-29T12:60:00Z",
    "2024-02-29T12:30:61Z",
    "2024-02-29T12:30:45+19:00",
    "2024-02-29T12:30:45+01:75",
    "2024-02-29T12:30:45 Nowhere/Town",
    "Thu, 29 Foo 2024 12:30:45 GMT",
    "31 Feb 2024 12:30:45",
  ])("[CA-20] does not read %j", (text) => {
    expect(readMoment(text)).toBeNull();
  });

  it("[CA-20] reads the form that JavaScript writes as every other form, right or wrong", () => {
    const digits = (places: number) => fc.stringMatching(new RegExp(`^\\d{${places}}$`));
    const parts = [digits(4), digits(2), digits(2), digits(2), digits(2), digits(2), digits(3)];
    const near = (from: number, to: number) =>
      fc.integer({ min: from, max: to }).map((number) => String(number).padStart(2, "0"));
    const almost = [digits(4), near(0, 13), near(0, 32), near(0, 25), near(0, 61), near(0, 61)];
    fc.assert(
      fc.property(
        fc.oneof(fc.tuple(...parts), fc.tuple(...almost, digits(3))),
        ([year, month, day, hour, minute, second, ms]) => {
          const date = `${year}-${month}-${day}`;
          const time = `${hour}:${minute}:${second}.${ms}`;
          expect(readMoment(`${date}T${time}Z`)).toEqual(readMoment(`${date} ${time}+00:00`));
        },
      ),
      { numRuns: 2000 },
    );
  });

  it("[CA-20] reads back every moment that JavaScript writes", () => {
    const dates = fc.date({
      min: new Date("0000-01-01T00:00:00Z"),
      max: new Date("9999-12-31T23:59:59Z"),
      noInvalidDate: true,
    });
    fc.assert(
      fc.property(dates, (date) => {
        expect(readMoment(date.toISOString())).toEqual(date);
        const seconds = Math.floor(date.getTime() / 1000) * 1000;
        expect(readMoment(date.toUTCString())?.getTime()).toBe(seconds);
      }),
    );
  });

  it("[CA-20] answers any text, at once", () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.stringMatching(/^[0-9T:Z+ -]{0,40}$/)), (text) => {
        const moment = readMoment(text);
        expect(moment === null || !Number.isNaN(moment.getTime())).toBe(true);
      }),
      { numRuns: 2000 },
    );
    const before = process.cpuUsage();
    readMoment(`2024-02-29${" ".repeat(100_000)}x`);
    readMoment("1".repeat(100_000));
    // One that tried every length would take many times as long.
    expect(process.cpuUsage(before).user / 1_000).toBeLessThan(1_000);
  });
});

describe("readEpochMs", () => {
  it("[CA-21] reads milliseconds of a present clock, in digits or as a number", () => {
    expect(readEpochMs("1714557600123")?.getTime()).toBe(1714557600123);
    expect(readEpochMs("1714557600123.7")?.getTime()).toBe(1714557600123);
    expect(readEpochMs(1714557600123)?.getTime()).toBe(1714557600123);
  });

  it.each([["17"], ["1714557600"], [""], ["abc"], ["99999999999999"], [Number.NaN], [null], [{}]])(
    "[CA-21] does not take %j for one",
    (value) => {
      expect(readEpochMs(value)).toBeNull();
    },
  );
});

describe("eventTimes", () => {
  const instants = fc.date({
    min: new Date("1980-01-01T00:00:00Z"),
    max: new Date("2200-01-01T00:00:00Z"),
    noInvalidDate: true,
  });
  it("[CA-17] never lies more than 23 hours ahead, and keeps the order of one client's events", () => {
    fc.assert(
      fc.property(
        instants,
        instants,
        instants,
        fc.option(instants),
        (first, second, receivedAt, sentAt) => {
          const at = (clientTimestamp: Date) =>
            eventTimes({ clientTimestamp, offsetMs: null, sentAt, receivedAt });
          const [earlier, later] = [first, second].toSorted((a, b) => a.getTime() - b.getTime());
          const times = [at(earlier ?? first), at(later ?? second)];
          for (const { timestamp, clientTimestamp } of times) {
            expect(timestamp.getTime()).toBeLessThanOrEqual(receivedAt.getTime() + 23 * 3_600_000);
            expect(clientTimestamp).not.toBeNull();
          }
          const [one, other] = times;
          if (one?.correction === "too-far-ahead" || other?.correction === "too-far-ahead") return;
          expect(one?.timestamp.getTime()).toBeLessThanOrEqual(
            other?.timestamp.getTime() ?? Number.NaN,
          );
        },
      ),
    );
  });

  it("[CA-17] puts events that would lie before year 0 at the epoch", () => {
    const times = eventTimes({
      clientTimestamp: new Date("0000-01-02T00:00:00Z"),
      offsetMs: null,
      sentAt: new Date("2100-01-01T00:00:00Z"),
      receivedAt: new Date("2000-01-01T00:00:00Z"),
    });
    expect(times.timestamp).toEqual(new Date(0));
  });
});

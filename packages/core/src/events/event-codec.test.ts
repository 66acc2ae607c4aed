import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { JsonObject } from "../json.ts";
import type { CapturedEvent } from "./event.ts";
import { decodeEvent, encodeEvent, encodeWithText, propertiesTextOf } from "./event-codec.ts";

const text = fc.string({ unit: "binary" });
const instant = fc.date({
  min: new Date("0000-01-01T00:00:00Z"),
  max: new Date("9999-12-31T23:59:59.999Z"),
  noInvalidDate: true,
});
/** As they come off the wire: whatever a name is, it is an own key. */
const properties = fc
  .dictionary(fc.oneof(text, fc.constantFrom("__proto__", "constructor", "")), fc.jsonValue())
  .map((object) => JSON.parse(JSON.stringify(object)) as JsonObject);
const event: fc.Arbitrary<CapturedEvent> = fc.record({
  uuid: fc.uuid(),
  projectId: fc.nat(),
  event: text,
  distinctId: text,
  properties,
  timestamp: instant,
  clientTimestamp: fc.option(instant),
  receivedAt: instant,
});

describe("the encoding of events", () => {
  it("[PI-1] is one line that reads back as the same event", () => {
    fc.assert(
      fc.property(event, (captured) => {
        const { line, propertiesText } = encodeWithText(captured);
        expect(propertiesText).toBe(JSON.stringify(captured.properties));
        expect(propertiesTextOf(line, captured)).toBe(propertiesText);
        expect(line).not.toMatch(/[\n\r]/);
        const decoded = decodeEvent(line);
        expect(decoded).toEqual(captured);
        expect(Object.keys(decoded.properties)).toEqual(Object.keys(captured.properties));
      }),
      { numRuns: 500 },
    );
  });

  it("[CA-50] keeps integers that no number holds, in lines of their own kind", () => {
    const [captured] = fc.sample(event, 1);
    if (!captured) throw new Error("no sample");
    const large = { id: 12345678901234567890n, list: [{ n: -(10n ** 40n) }], small: 1 };
    const { line, propertiesText } = encodeWithText({ ...captured, properties: large });
    expect(propertiesTextOf(line, captured)).toBe(propertiesText);
    expect(line).not.toMatch(/[\n\r]/);
    expect(decodeEvent(line)).toEqual({ ...captured, properties: large });
  });

  it("[PI-1] gives no text of properties from a line that is another event's", () => {
    const [one, other] = fc.sample(event, 2);
    if (!one || !other) throw new Error("no samples");
    const line = encodeEvent({ ...one, projectId: 1 });
    expect(propertiesTextOf(line, { ...other, projectId: 2 })).toBeUndefined();
  });

  it.each(["", "!", "!{}", "{}", "[]", "[1,2]", "not JSON", "[1,2,3,4,5,6,7,8,9]"])(
    "[PI-1] refuses to read %j",
    (line) => {
      expect(() => decodeEvent(line)).toThrow(SyntaxError);
    },
  );

  const whole = [1, "01890000-0000-7000-8000-000000000001", "e", "d", 5, null, 7, {}];
  const damages: [string, number, unknown][] = [
    ["a project that is no whole number", 0, 1.5],
    ["a project beyond every id", 0, 2 ** 31],
    ["a text as project", 0, "1"],
    ["a uuid with a letter that is none of its digits", 1, "01890000-0000-7000-8000-00000000000g"],
    ["a uuid that is too short", 1, "01890000-0000-7000-8000-00000000000"],
    ["a number as name", 2, 5],
    ["no distinct id", 3, null],
    ["a time that is no date", 4, 1e16],
    ["a text as time", 4, "5"],
    ["a text as time of the client", 5, "5"],
    ["no time of receipt", 6, null],
    ["a list as properties", 7, []],
    ["no properties", 7, null],
  ];
  it.each(damages)("[PI-58] refuses to read a line with %s", (_title, field, value) => {
    expect(decodeEvent(JSON.stringify(whole))).toMatchObject({ uuid: whole[1] });
    const line = JSON.stringify(whole.with(field, value as string));
    expect(() => decodeEvent(line)).toThrow(SyntaxError);
    expect(() => decodeEvent(`!${line}`)).toThrow(SyntaxError);
  });
});

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { encodeJson, holdsBigInt, parseExactJson } from "./exact-json.ts";

/** JavaScript puts keys that are small integers first, whatever is done. */
const keyText = fc
  .oneof(
    fc.string({ unit: "binary" }),
    fc.constantFrom("__proto__", "constructor", "\u0000123", "12345678901234567890"),
  )
  .filter((key) => !/^\d{1,10}$/.test(key))
  .map((key) => JSON.stringify(key));

/** Texts of compact JSON as other languages write it: integers of every length, keys in any order. */
const jsonText: fc.Arbitrary<string> = fc.letrec<{ value: string }>((tie) => ({
  value: fc.oneof(
    { depthSize: "small", withCrossShrink: true },
    fc.bigInt({ min: -(10n ** 60n), max: 10n ** 60n }).map(String),
    fc.bigInt({ min: 2n ** 53n - 5n, max: 2n ** 53n + 5n }).map(String),
    fc.maxSafeInteger().map((number) => JSON.stringify(number)),
    fc.double({ noDefaultInfinity: true, noNaN: true }).map((number) => JSON.stringify(number)),
    fc.string({ unit: "binary" }).map((text) => JSON.stringify(text)),
    fc
      .tuple(fc.constantFrom("\0", "\0\0", '"', '\\"', ""), fc.bigInt())
      .map(([start, digits]) => JSON.stringify(`${start}${digits}`)),
    fc.constantFrom("true", "false", "null"),
    fc.array(tie("value"), { maxLength: 4 }).map((members) => `[${members.join(",")}]`),
    fc
      .uniqueArray(fc.tuple(keyText, tie("value")), { selector: ([key]) => key, maxLength: 4 })
      .map((members) => `{${members.map(([key, value]) => `${key}:${value}`).join(",")}}`),
  ),
})).value;

describe("parseExactJson and encodeJson", () => {
  it("[CA-50] write back every integer in its own digits, and everything else as JSON does", () => {
    fc.assert(
      fc.property(jsonText, (text) => {
        expect(encodeJson(parseExactJson(text))).toBe(text);
      }),
      { numRuns: 2000 },
    );
  });

  it("[CA-50] give numbers where a number is exact, and bigints only where it is not", () => {
    expect(parseExactJson("[9007199254740991,9007199254740992,9007199254740993]")).toEqual([
      9007199254740991,
      9007199254740992,
      9007199254740993n,
    ]);
    expect(parseExactJson("-12345678901234567890")).toBe(-12345678901234567890n);
    expect(parseExactJson("[1e30,1234567890123456789.5,0.1234567890123456]")).toEqual([
      1e30,
      Number("1234567890123456789.5"),
      0.1234567890123456,
    ]);
    expect(parseExactJson('{"a": 12345678901234567890 , "b":\n[12345678901234567891\t]}')).toEqual({
      a: 12345678901234567890n,
      b: [12345678901234567891n],
    });
  });

  it("[CA-50] leave texts of digits, keys of digits and what looks like their own marks alone", () => {
    const text =
      '{"12345678901234567890":"12345678901234567890","a\\"":"\\",12345678901234567890,\\"","\\u00001":"\\u000012345678901234567890","n":12345678901234567890}';
    const value = parseExactJson(text);
    expect(value).toEqual({
      "12345678901234567890": "12345678901234567890",
      'a"': '",12345678901234567890,"',
      "\u00001": "\u000012345678901234567890",
      n: 12345678901234567890n,
    });
    expect(encodeJson(value)).toBe(text);
  });

  it("find a long integer wherever it stands", () => {
    for (let before = 0; before < 40; before++) {
      const text = `["${"x".repeat(before)}",12345678901234567]`;
      expect(parseExactJson(text)).toEqual(["x".repeat(before), 12345678901234567n]);
    }
  });

  it.each([
    "{12345678901234567890:1}",
    '{"a":1, 12345678901234567890 :1}',
    "[012345678901234567890]",
    "[12345678901234567890x]",
    "[--12345678901234567890]",
    "[12345678901234567890 12345678901234567890]",
    '["12345678901234567890',
    "12345678901234567890]",
  ])("refuse %s as JSON does", (text) => {
    expect(() => JSON.parse(text)).toThrow(SyntaxError);
    expect(() => parseExactJson(text)).toThrow(SyntaxError);
  });

  it("reads integers of more than a thousand digits as JSON does, in bounded time", () => {
    expect(parseExactJson(`[${"9".repeat(1001)}]`)).toEqual([Number.POSITIVE_INFINITY]);
    expect(parseExactJson(`[${"9".repeat(1000)}]`)).toEqual([BigInt("9".repeat(1000))]);
    const digits = "7".repeat(10_000_000);
    expect(parseExactJson(`[${digits}]`)).toEqual([Number.POSITIVE_INFINITY]);
  });
});

describe("parseExactJson", () => {
  it("refuses more large integers than it could read in bounded time", () => {
    const list = (count: number) => `[${Array(count).fill("12345678901234567").join(",")}]`;
    expect(parseExactJson(list(200_000))).toHaveLength(200_000);
    expect(() => parseExactJson(list(200_001))).toThrow(/more than 200000 integers/);
  });
});

describe("encodeJson", () => {
  it("throws for what JSON cannot hold at all", () => {
    const circle: Record<string, unknown> = {};
    circle.self = circle;
    expect(() => encodeJson(circle)).toThrow();
  });

  it("[CA-50] takes a key named toJSON for a key, beside a bigint too", () => {
    const text = '{"toJSON":1,"n":12345678901234567891}';
    expect(encodeJson(parseExactJson(text))).toBe(text);
  });

  it("leaves out what JSON leaves out, beside a bigint too", () => {
    const value = { a: undefined, at: new Date(0), list: [undefined, 10n ** 20n] };
    expect(encodeJson(value)).toBe(
      '{"at":"1970-01-01T00:00:00.000Z","list":[null,100000000000000000000]}',
    );
  });
});

describe("holdsBigInt", () => {
  it("looks into lists and objects", () => {
    expect(holdsBigInt({ a: [{ b: 1n }] })).toBe(true);
    expect(holdsBigInt({ a: [{ b: 1, c: "1" }, null] })).toBe(false);
  });
});

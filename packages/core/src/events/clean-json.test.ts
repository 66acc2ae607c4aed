import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { cleanJson, cleanText, mayNeedCleaning } from "./clean-json.ts";

describe("cleanText", () => {
  it("[DE-5] replaces NUL characters and lone surrogates, and nothing else", () => {
    expect(cleanText("a\0b")).toBe("a\uFFFDb");
    expect(cleanText("\uD83E")).toBe("\uFFFD");
    expect(cleanText("\uDD94\uD83E")).toBe("\uFFFD\uFFFD");
    const long = "é".repeat(150);
    expect(cleanText(`${long}\0`)).toBe(`${long}\uFFFD`);
    expect(cleanText("🦔 ß \u2028\uFFFF")).toBe("🦔 ß \u2028\uFFFF");
  });
});

describe("cleanJson", () => {
  it("[DE-5] cleans names and values at every depth, and numbers that JSON cannot hold", () => {
    expect(cleanJson({ "a\0": [{ b: "\uD800" }, Number.NaN, -Infinity, true, null, 1.5] })).toEqual(
      { "a\uFFFD": [{ b: "\uFFFD" }, null, null, true, null, 1.5] },
    );
  });

  it("[DE-6] keeps __proto__ an own name", () => {
    const cleaned = cleanJson(JSON.parse('{"__proto__":{"x":"\\u0000"}}'));
    expect(Object.entries(cleaned as object)).toEqual([["__proto__", { x: "\uFFFD" }]]);
  });

  it("[DE-5] leaves nothing to clean, and clean values as they are", () => {
    const value = fc.jsonValue({ stringUnit: "binary" });
    fc.assert(
      fc.property(value, (given) => {
        const once = cleanJson(given);
        expect(cleanJson(once)).toEqual(once);
        expect(JSON.stringify(once)).not.toMatch(/\\u0000|\\ud[89a-f]/);
      }),
      { numRuns: 500 },
    );
  });

  it("[DE-5] is asked for wherever a text may hold such characters", () => {
    const code = fc.oneof(fc.nat(0xffff), fc.integer({ min: 0xd800, max: 0xdfff }), fc.constant(0));
    const json = fc.array(code).map((codes) => JSON.stringify(String.fromCharCode(...codes)));
    fc.assert(
      fc.property(json, (document) => {
        const value = JSON.parse(document) as string;
        if (cleanText(value) !== value) expect(mayNeedCleaning(document)).toBe(true);
      }),
      { numRuns: 500 },
    );
  });
});

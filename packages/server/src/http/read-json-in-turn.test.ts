import { describe, expect, it } from "vitest";
import { parseStrictJson } from "./parse-json.ts";
import { createJsonReader, MEMBER_BOUNDS } from "./read-json-in-turn.ts";

const reader = createJsonReader();
const list = (items: number) => JSON.stringify(Array(items).fill(1));
const object = (fields: number) =>
  JSON.stringify(Object.fromEntries(Array.from({ length: fields }, (_, at) => [`f${at}`, at])));

describe("JSON of management requests", () => {
  it.each([
    ["short", '{"a":[1,"é"]}'],
    ["long", JSON.stringify({ list: Array(50_000).fill("é😀"), text: "漢".repeat(300_000) })],
    ["marked as UTF-8", `\ufeff${object(5_000)}`],
  ])("[AC-71] is the same value as when it is read at once: %s", async (_, text) => {
    const expected = parseStrictJson(text.replace("\ufeff", ""));
    expect(await reader.ofBytes(Buffer.from(text))).toEqual(expected);
    expect(await reader.ofText(text.replace("\ufeff", ""))).toEqual(expected);
  });

  it.each([
    ["NaN, as nowhere in JSON", Buffer.from(`{"a":[${"1,".repeat(20_000)}NaN]}`)],
    ["a list without its end", Buffer.from(`[${"1,".repeat(20_000)}`)],
    [
      "bytes that are not UTF-8",
      Buffer.concat([Buffer.from(`"${"a".repeat(400_000)}`), Buffer.of(0xc3, 0x28)]),
    ],
  ])("[AC-55] is refused where it is long and has %s", async (_, bytes) => {
    await expect(reader.ofBytes(bytes)).rejects.toThrow();
  });

  it("[AC-71] lets others have their turn while it is decoded and parsed, and one be read at a time", async () => {
    /** Of which text each turn interrupted the reading. */
    const turns: number[] = [];
    let texts = 0;
    const slowly = createJsonReader(() => {
      const text = texts++;
      return {
        isOver: () => true,
        next: async () => {
          turns.push(text);
          await new Promise((resolve) => setImmediate(resolve));
        },
      };
    });
    const bytes = Buffer.from(JSON.stringify({ texts: Array(3_000).fill("a".repeat(1_000)) }));
    await Promise.all([slowly.ofBytes(bytes), slowly.ofBytes(bytes), slowly.ofBytes(bytes)]);
    expect(turns).toEqual(turns.toSorted());
    // Three megabytes each, in pieces of a quarter of one to decode and a sixteenth to parse.
    for (const text of [0, 1, 2]) {
      expect(turns.filter((turn) => turn === text).length).toBeGreaterThan(12 + 45);
    }
  });

  it.each([
    ["values", `{"few":[1,2],"many":${list(MEMBER_BOUNDS.inAll)}}`, "many"],
    ["values in a list without names", list(MEMBER_BOUNDS.inAll + 1), null],
    [
      "fields of an object",
      `{"few":[1,2],"many":{"inner":${object(MEMBER_BOUNDS.ofObject + 1)}}}`,
      "many",
    ],
    ["fields of its own", object(MEMBER_BOUNDS.ofObject + 1), null],
  ])("[AC-70] is refused by the name of the field with too many %s", async (_, text, attr) => {
    for (const reading of [reader.ofText(text), reader.ofBytes(Buffer.from(text))]) {
      await expect(reading).rejects.toMatchObject({ status: 400, code: "invalid_input", attr });
    }
  });

  it("[AC-70] may have 100,000 values, and 10,000 fields in one object", async () => {
    const most = `{"a":${object(MEMBER_BOUNDS.ofObject)},"b":${list(MEMBER_BOUNDS.inAll - MEMBER_BOUNDS.ofObject - 2)}}`;
    expect(await reader.ofText(most)).toEqual(JSON.parse(most));
    expect(MEMBER_BOUNDS).toEqual({ inAll: 100_000, ofObject: 10_000 });
  });

  it("[AC-71] is refused for now where too much waits to be read", async () => {
    const bytes = Buffer.from(`"${"a".repeat(20 * 2 ** 20)}"`);
    const readings = await Promise.allSettled(
      Array.from({ length: 5 }, () => reader.ofBytes(bytes)),
    );
    expect(readings.map(({ status }) => status)).toEqual([
      ...["fulfilled", "fulfilled", "fulfilled", "rejected", "rejected"],
    ]);
    expect(readings.at(-1)).toMatchObject({ reason: { status: 503, code: "unavailable" } });
  });
});

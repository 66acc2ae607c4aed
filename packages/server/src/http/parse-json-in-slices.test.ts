import { encodeJson } from "@hedgerow/core/exact-json";
import type { Json } from "@hedgerow/core/json";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createSlices } from "../platform/slices.ts";
import { parseShaped, parseStrictJson } from "./parse-json.ts";
import { parseJsonInSlices, TooManyMembers } from "./parse-json-in-slices.ts";

const inSlices = async (text: string) =>
  (await parseJsonInSlices(text, createSlices(), { pieceChars: 8 })).value;

/** Values as JSON text, with white space and with keys of any name. */
const values = fc.letrec<{ value: string }>((tie) => ({
  value: fc.oneof(
    { maxDepth: 3 },
    fc.constantFrom("1", "-2.5e3", "12345678901234567890", "true", "null", '"\\"],{"', '"\\u0000"'),
    fc.string({ maxLength: 5 }).map((text) => JSON.stringify(text)),
    fc.array(tie("value"), { maxLength: 4 }).map((items) => `[${items.join(" ,\n")}]`),
    fc
      .array(fc.tuple(fc.constantFrom("a", "batch", "__proto__", "b"), tie("value")), {
        maxLength: 4,
      })
      .map((members) => `{${members.map(([key, value]) => `"${key}" :${value}`).join(", ")}}`),
  ),
})).value;

/** Longer than a piece, and shorter. */
const spaces = fc.constantFrom("", " ", "\n ", " ".repeat(8), "\t".repeat(20));

const batches = fc
  .array(
    fc.tuple(
      fc.constantFrom("batch", "batch", "api_key", "b\\u0061tch", "__proto__"),
      fc.oneof(
        values,
        fc.tuple(spaces, fc.array(values, { maxLength: 12 })).map(([space, items]) => {
          return `[${space}${items.join(`${space},`)}${space}]`;
        }),
      ),
    ),
    { maxLength: 4 },
  )
  .map((members) => `{${members.map(([key, value]) => `"${key}":${value}`).join(",")}}`);
const lists = fc
  .tuple(spaces, fc.array(values, { maxLength: 12 }))
  .map(([space, items]) => ` [${space}${items.join(`,${space}`)}]`);

/** Long values in long values, with short ones beside them. */
const nests = fc
  .tuple(
    fc.array(fc.tuple(spaces, values, fc.constantFrom("[", "{"), spaces), { maxLength: 4 }),
    values,
  )
  .map(([levels, inmost]) =>
    levels.reduce(
      (inner, [space, beside, bracket, more]) =>
        bracket === "["
          ? `[${space}${beside},${more}${inner}${space},${beside}]`
          : `{"a"${space}:${beside},"b" : ${inner}${more},${space}"__proto__":${inner}, "a":${beside}}`,
      inmost,
    ),
  );

describe("JSON parsed in slices", () => {
  it("[CA-67] is the same value as when it is parsed at once", async () => {
    await fc.assert(
      fc.asyncProperty(fc.oneof(batches, lists, nests), async (text) => {
        const value = await inSlices(text);
        const expected = parseStrictJson(text);
        expect(value).toEqual(expected);
        // The names in their order, on every level.
        expect(encodeJson(value)).toBe(encodeJson(expected));
      }),
      { numRuns: 500 },
    );
  });

  it("[CA-67] is refused where any part of it is no JSON", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.oneof(batches, lists, nests),
        fc.nat(),
        fc.constantFrom("", ",", "]", "}", "[", "{", '"', "1", " ", ":", "\\"),
        async (text, place, put) => {
          const at = place % text.length;
          const broken = text.slice(0, at) + put + text.slice(at + 1);
          const outcomeOf = async (parse: () => unknown) => {
            try {
              return { value: await parse() };
            } catch (error) {
              return { error: (error as Error).name };
            }
          };
          expect(await outcomeOf(() => inSlices(broken))).toEqual(
            await outcomeOf(() => parseShaped(broken)),
          );
        },
      ),
      { numRuns: 2000 },
    );
  });

  it("[CA-67] is refused where a value is missing, however much white space is in its place", async () => {
    for (const space of ["", " ", " ".repeat(8), " ".repeat(20)]) {
      for (const text of [`[${space},1]`, `[1,${space},2]`, `[1,${space}]`, `[${space},]`]) {
        await expect(inSlices(text)).rejects.toBeInstanceOf(SyntaxError);
        await expect(inSlices(`{"batch":${text}}`)).rejects.toBeInstanceOf(SyntaxError);
      }
      expect(await inSlices(`[${space}]`)).toEqual([]);
    }
  });

  const events = Array.from({ length: 5000 }, (_, n) => ({ event: `event ${n}`, n }));
  const members = Object.fromEntries(events.map((event, n) => [`name ${n}`, event]));
  it.each([
    ["a batch", { api_key: "phc_key", batch: events, sent_at: 1 }],
    ["a list", events],
    ["one event", { api_key: "phc_key", event: "visit", properties: { first: 1, members } }],
    ["a batch of one event", { batch: [{ event: "visit", properties: { events, last: 1 } }] }],
  ])(
    "[CA-67] lets others have their turn, between values and while it looks for them: %s",
    async (_, whole) => {
      const turns: number[] = [];
      let looks = 0;
      const slices = {
        isOver: () => ++looks % 2 === 0,
        next: async () => {
          turns.push(looks);
        },
      };
      const text = JSON.stringify(whole);
      expect((await parseJsonInSlices(text, slices)).value).toEqual(whole);
      const scanned = (text.match(/[^"]"/g)?.length ?? 0) / 2000;
      const piecesOf64k = Math.floor(text.length / 2 ** 16);
      expect(turns.length).toBeGreaterThan((scanned + piecesOf64k) / 2);
    },
  );

  it("[CA-67] tells where its long objects and lists stand", async () => {
    const inner = JSON.stringify(events);
    const text = ` {"short": [1, 2], "events" : ${inner} , "more": {"events":${inner}}}`;
    const { value, stretches } = await parseJsonInSlices(text, createSlices());
    const whole = value as { events: []; more: { events: [] }; short: [] };
    const textOf = (part: Json) => {
      const stretch = stretches.get(part);
      return stretch && text.slice(stretch.start, stretch.end);
    };
    expect(textOf(whole)).toBe(text.slice(1));
    expect(textOf(whole.events)).toBe(inner);
    expect(textOf(whole.more)).toBe(`{"events":${inner}}`);
    expect(textOf(whole.short)).toBe(undefined);
  });

  it("[CA-67] is bounded in depth and in the number of objects and lists", async () => {
    const deep = `{"batch":[${"[".repeat(200)}${"]".repeat(200)}]}`;
    await expect(inSlices(deep)).rejects.toThrow("nested deeper");
    const many = `[${"[],".repeat(2_000_000)}[]]`;
    await expect(parseJsonInSlices(many, createSlices())).rejects.toThrow("objects and arrays");
  });

  it("[AC-70] is bounded in members where that is asked for, which count on every level", async () => {
    const bounds = { inAll: 10, ofObject: 4 };
    const read = (text: string) =>
      parseJsonInSlices(text, createSlices(), { pieceChars: 8, bounds });
    for (const text of ["[1,2,3,4,5,6,7,8,9,10]", '{"a":{"b":1,"c":2,"d":3,"e":4},"f":[5,6,7]}']) {
      expect((await read(text)).value).toEqual(JSON.parse(text));
    }
    for (const [text, field] of [
      ["[1,2,3,4,5,6,7,8,9,10,11]", null],
      ['{"a":[1,2,3],"b":[1,2,3,4,5,[6]]}', "b"],
      ['{"a":1, "b\\u0021" :[{"b":1,"c":2,"d":3,"e":4,"f":5}]}', "b!"],
      ['{"b":1,"c":2,"d":3,"e":4,"f":5}', null],
    ] as const) {
      const reading = read(text);
      await expect(reading).rejects.toBeInstanceOf(TooManyMembers);
      await expect(reading).rejects.toMatchObject({ field });
    }
  });
});

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { createSlices } from "../platform/slices.ts";
import { parseShaped, parseStrictJson } from "./parse-json.ts";
import { parseJsonInSlices } from "./parse-json-in-slices.ts";

const inSlices = (text: string) => parseJsonInSlices(text, createSlices(), 8);

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

describe("JSON parsed in slices", () => {
  it("[CA-67] is the same value as when it is parsed at once", async () => {
    await fc.assert(
      fc.asyncProperty(fc.oneof(batches, lists, values), async (text) => {
        const value = await inSlices(text);
        const expected = parseStrictJson(text);
        expect(value).toEqual(expected);
        if (!/"batch"/.test(text))
          expect(Object.keys(value ?? {})).toEqual(Object.keys(expected ?? {}));
      }),
      { numRuns: 500 },
    );
  });

  it("[CA-67] is refused where any part of it is no JSON", async () => {
    await fc.assert(
      fc.asyncProperty(
        fc.oneof(batches, lists),
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

  it("[CA-67] lets others have their turn, between the values and while it looks for them", async () => {
    const turns: number[] = [];
    let looks = 0;
    const slices = {
      isOver: () => ++looks % 2 === 0,
      next: async () => {
        turns.push(looks);
      },
    };
    const batch = Array.from({ length: 5000 }, (_, index) => ({
      event: `event ${index}`,
      n: index,
    }));
    const text = JSON.stringify({ api_key: "phc_key", batch, sent_at: 1 });
    expect(await parseJsonInSlices(text, slices)).toEqual({
      api_key: "phc_key",
      batch,
      sent_at: 1,
    });
    const piecesOf64k = Math.floor(text.length / 2 ** 16);
    expect(turns.length).toBeGreaterThan(piecesOf64k / 2);
  });

  it("[CA-67] is bounded in depth and in the number of objects and lists", async () => {
    const deep = `{"batch":[${"[".repeat(200)}${"]".repeat(200)}]}`;
    await expect(inSlices(deep)).rejects.toThrow("nested deeper");
    const many = `[${"[],".repeat(2_000_000)}[]]`;
    await expect(parseJsonInSlices(many, createSlices())).rejects.toThrow("objects and arrays");
  });
});

import fc from "fast-check";
import { expect, test } from "vitest";
import type { Slices } from "../platform/slices.ts";
import { createCsvReader } from "./read-csv.ts";

async function rowsOf(text: string, slices?: Slices): Promise<(readonly string[])[]> {
  return await rowsOfParts([text], slices);
}

async function rowsOfParts(texts: readonly string[], slices?: Slices) {
  const rows: (readonly string[])[] = [];
  const reader = createCsvReader((row) => rows.push(row), slices);
  for (const text of texts) await reader.push(text);
  await reader.end();
  return rows;
}

test("[CO-13] whatever fields are written by the rules of CSV are read back", async () => {
  const field = fc.string({ unit: fc.constantFrom("a", "ß", " ", ",", '"', "\n", "\r", "🦔") });
  const rows = fc.array(fc.array(field, { minLength: 1, maxLength: 4 }), { maxLength: 20 });
  const quote = (text: string) => `"${text.replaceAll('"', '""')}"`;
  const lineEnds = fc.constantFrom("\n", "\r\n");
  await fc.assert(
    fc.asyncProperty(rows, lineEnds, fc.boolean(), async (written, lineEnd, ends) => {
      const text = written.map((row) => row.map(quote).join(",")).join(lineEnd);
      const read = await rowsOf(ends ? text + lineEnd : text);
      const kept = written.filter((row) => row.length > 1 || row[0] !== "");
      expect(read).toEqual(kept);
    }),
  );
});

test.each([
  ["a\nb\r\nc", [["a"], ["b"], ["c"]]],
  [
    "\uFEFFdistinct_id,x\r\nann,1\r\n\r\n",
    [
      ["distinct_id", "x"],
      ["ann", "1"],
    ],
  ],
  [
    "a,\n,b",
    [
      ["a", ""],
      ["", "b"],
    ],
  ],
  ["a,", [["a", ""]]],
  ['"",""', [["", ""]]],
  [
    'a,""\n,',
    [
      ["a", ""],
      ["", ""],
    ],
  ],
  ['"a"b,c', [["ab", "c"]]],
  ["", []],
  ["\n\n", []],
])("[CO-13] %j is read as %j", async (text, rows) => {
  expect(await rowsOf(text)).toEqual(rows);
});

test.each([
  ["a row of 101 fields", `a\n${",".repeat(100)}`, "Row 2 of the file has more than 100 columns."],
  ["a row that never ends", ",".repeat(100_000), "Row 1 of the file has more than 100 columns."],
  ["a field of 1,001 characters", `a\nb\n${"c".repeat(1001)}`, "Row 3 of the file has a field of"],
  ["a quoted field of as many", `"${'""'.repeat(1001)}"`, "Row 1 of the file has a field of"],
  [
    "one of two parts",
    `"${"a".repeat(600)}"${"b".repeat(401)}`,
    "Row 1 of the file has a field of",
  ],
  ["a quote that is never closed", 'a\n"b\nc', "A quote in row 2 of the file is never closed."],
  ["a quote at the end", 'a\n"', "A quote in row 2 of the file is never closed."],
  ["text in UTF-16", Buffer.from("a\nb", "utf16le").toString(), "The file holds NUL characters."],
])("[CO-13] %s is refused", async (_title, text, detail) => {
  await expect(rowsOf(text)).rejects.toMatchObject({
    code: "invalid_input",
    attr: "csv",
    message: expect.stringContaining(detail),
  });
});

test("[CO-13] what comes in parts is read as a whole, wherever it is cut, mistakes too", async () => {
  const unit = fc.constantFrom("a", "🦔", ",", '"', "\n", "\r", "\uFEFF", "b".repeat(600));
  const parts = fc.array(fc.string({ unit, maxLength: 12 }), { maxLength: 8 });
  const outcome = (reading: Promise<(readonly string[])[]>) =>
    reading.catch((error: Error) => error.message);
  await fc.assert(
    fc.asyncProperty(parts, async (texts) => {
      const whole = await outcome(rowsOf(texts.join("")));
      expect(await outcome(rowsOfParts(texts))).toEqual(whole);
    }),
  );
});

test("[CO-13] the largest row and field are read", async () => {
  const text = 'x"'.repeat(500);
  const row = [text, ...Array.from({ length: 99 }, () => "")];
  expect(await rowsOf(`"${text.replaceAll('"', '""')}"${",".repeat(99)}`)).toEqual([row]);
});

test.each([
  ["rows", "a\n"],
  ["empty lines", "\n"],
  ["wide rows", `${"a,".repeat(99)}\n`],
  ["quoted fields", '"",\n'],
])("[CO-13] a long file of %s is read in slices", async (_title, line) => {
  let turns = 0;
  const slices: Slices = {
    isOver: () => true,
    async next() {
      turns += 1;
    },
  };
  await rowsOf(line.repeat(64_000 / line.length), slices);
  expect(turns).toBeGreaterThan(50);
});

import fc from "fast-check";
import { expect, test } from "vitest";
import { readCsv } from "./read-csv.ts";

test("[CO-13] whatever fields are written by the rules of CSV are read back", () => {
  const field = fc.string({ unit: fc.constantFrom("a", "ß", " ", ",", '"', "\n", "\r", "🦔") });
  const rows = fc.array(fc.array(field, { minLength: 1, maxLength: 4 }), { maxLength: 20 });
  const quote = (text: string) => `"${text.replaceAll('"', '""')}"`;
  fc.assert(
    fc.property(rows, fc.constantFrom("\n", "\r\n"), fc.boolean(), (written, lineEnd, ends) => {
      const text = written.map((row) => row.map(quote).join(",")).join(lineEnd);
      const read = [...readCsv(ends ? text + lineEnd : text)];
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
  ['"never closed', [["never closed"]]],
  ['"a"b,c', [["ab", "c"]]],
  ["", []],
  ["\n\n", []],
])("[CO-13] %j is read as %j", (text, rows) => {
  expect([...readCsv(text)]).toEqual(rows);
});

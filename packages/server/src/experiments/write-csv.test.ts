import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { writeCsv } from "./write-csv.ts";

/** Reads what RFC 4180 says. */
function readCsv(text: string): string[][] {
  const rows: string[][] = [];
  let row: string[] = [];
  let cell = "";
  let isQuoted = false;
  for (let at = 0; at < text.length; at += 1) {
    const char = text[at] ?? "";
    if (isQuoted && char === '"' && text[at + 1] === '"') {
      cell += '"';
      at += 1;
    } else if (char === '"') isQuoted = !isQuoted;
    else if (!isQuoted && char === ",") {
      row.push(cell);
      cell = "";
    } else if (!isQuoted && char === "\r" && text[at + 1] === "\n") {
      rows.push([...row, cell]);
      row = [];
      cell = "";
      at += 1;
    } else cell += char;
  }
  return rows;
}

describe("[XR-21] writing tables", () => {
  it("brings every text back, whatever is in it, and every number to its last digit", () => {
    fc.assert(
      fc.property(
        fc.array(
          fc.tuple(
            fc.string({ unit: "binary" }),
            fc.double({ noDefaultInfinity: true, noNaN: true }),
          ),
          {
            minLength: 1,
          },
        ),
        (rows) => {
          const read = readCsv(writeCsv(["text", "number"], rows));
          expect(read).toHaveLength(rows.length + 1);
          rows.forEach(([text, number], index) => {
            const [cell = "", digits] = read[index + 1] ?? [];
            expect([text, `'${text}`]).toContain(cell);
            expect(Number(digits)).toBe(number === 0 ? 0 : number);
          });
        },
      ),
    );
  });

  it("lets no text be a formula", () => {
    for (const text of [
      "=1+1",
      "+1",
      "-1",
      "@SUM(A1)",
      "\t=1",
      "\r=1",
      "  =1",
      "＝1",
      "|cmd",
      "%0A",
    ])
      expect(readCsv(writeCsv(["x"], [[text]]))[1]).toEqual([`'${text}`]);
    for (const text of ["a=1", "1-1", "e@x"])
      expect(readCsv(writeCsv(["x"], [[text]]))[1]).toEqual([text]);
    expect(writeCsv(["x"], [[-1], [null], [true], [Number.NaN]])).toBe(
      "x\r\n-1\r\n\r\ntrue\r\n\r\n",
    );
  });
});

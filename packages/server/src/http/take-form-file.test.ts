import { Readable } from "node:stream";
import { buffer } from "node:stream/consumers";
import fc from "fast-check";
import type { FastifyRequest } from "fastify";
import { describe, expect, test } from "vitest";
import { readForm } from "./read-form.ts";
import { takeFormFile } from "./take-form-file.ts";

const TYPE = "multipart/form-data; boundary=xxBOUNDARYxx";
const headers = { "content-type": TYPE, authorization: "Bearer phx_someone" };
const part = (name: string, value: string) =>
  `--xxBOUNDARYxx\r\nContent-Disposition: form-data; name="${name}"; filename="f.csv"\r\n\r\n${value}\r\n`;
const END = "--xxBOUNDARYxx--\r\n";

async function take(form: string, cutEvery: number, sent: Record<string, string> = headers) {
  const bytes = Buffer.from(form);
  const chunks: Buffer[] = [];
  for (let at = 0; at < bytes.length; at += cutEvery)
    chunks.push(bytes.subarray(at, at + cutEvery));
  const taken: Buffer[] = [];
  let begun = 0;
  const file = {
    field: "csv",
    begin: () => {
      begun += 1;
      return async (some: Buffer) => {
        taken.push(Buffer.from(some));
      };
    },
  };
  const request = { headers: sent } as unknown as FastifyRequest;
  const body = await takeFormFile(file, request, Readable.from(chunks));
  const rest = await buffer(body);
  const fields = readForm(rest, TYPE);
  return {
    begun,
    file: Buffer.concat(taken).toString(),
    largest: Math.max(0, ...taken.map(({ length }) => length)),
    fields: Object.fromEntries(
      [...(fields ?? [])].map(([name, value]) => [name, value.toString()]),
    ),
    received: body.receivedEncodedLength,
  };
}

describe("a file in a form", () => {
  test("[CO-25] is handed on as it comes, the other fields stay, wherever chunks end", async () => {
    const text = fc.string({
      unit: fc.constantFrom("a", "\r\n", "-", "--xxBOUNDARY", "\r\n--", "ß", 'name="csv"'),
      maxLength: 20,
    });
    await fc.assert(
      fc.asyncProperty(
        text,
        text,
        text,
        fc.integer({ min: 1, max: 90 }),
        async (a, csv, b, cut) => {
          const form = part("name", a) + part("csv", csv) + part("description", b) + END;
          const found = await take(form, cut);
          expect(found.file).toBe(csv);
          expect(found.fields).toEqual({ name: a, description: b });
          expect(found.received).toBe(Buffer.byteLength(form));
        },
      ),
    );
  });

  test("[CO-25] is never held: what is handed on is no more than what has come", async () => {
    const found = await take(part("csv", "0123456789".repeat(100_000)) + END, 1_000);
    expect(found.file).toHaveLength(1_000_000);
    expect(found.largest).toBeLessThan(2_000);
  });

  test("[CO-25] is the first of its name; a form without it stays as it is", async () => {
    const twice = await take(part("csv", "first") + part("csv", "second") + END, 7);
    expect([twice.file, twice.begun, twice.fields]).toEqual(["first", 1, { csv: "second" }]);
    const none = await take(part("name", "x") + END, 7);
    expect([none.begun, none.fields]).toEqual([0, { name: "x" }]);
  });

  test("[CO-25] that is cut off is no form, and one of an unknown caller is left alone", async () => {
    await expect(take(part("csv", "a,b"), 5)).rejects.toMatchObject({ code: "parse_error" });
    const stranger = await take(part("csv", "a") + END, 5, { "content-type": TYPE });
    expect([stranger.begun, stranger.fields]).toEqual([0, { csv: "a" }]);
  });
});

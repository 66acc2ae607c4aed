import { brotliCompressSync, constants, deflateRawSync, deflateSync, gzipSync } from "node:zlib";
import fc from "fast-check";
import lzString from "lz-string";
import { afterAll, describe, expect, it } from "vitest";
import { createSlices } from "../platform/slices.ts";
import { createBodyOpener } from "./body-opener.ts";
import { decodeLargeBody, decodeSmallBody, MAX_DECODED_BYTES } from "./decode-body.ts";
import { Refusal } from "./errors.ts";
import type { EncodedBody } from "./open-body.ts";
import { zstdBomb, zstdClaim, zstdOfEmptyBlocks, zstdRaw } from "./zstd.setup.ts";

const event = {
  event: "visit",
  distinct_id: "ß→🦔",
  properties: { price: 4.5, tags: ["a", "+/="] },
};
const json = JSON.stringify(event);
const base64 = Buffer.from(json).toString("base64");
const FORM = "application/x-www-form-urlencoded";

function bodyOf(bytes: Buffer | string, rest: Partial<EncodedBody> = {}): EncodedBody {
  const labels = { contentType: undefined, contentEncoding: undefined, query: {} };
  return { bytes: Buffer.from(bytes), ...labels, ...rest };
}

function decode(bytes: Buffer | string, rest?: Partial<EncodedBody>) {
  const decoded = decodeSmallBody(bodyOf(bytes, rest), "malformed_data");
  if (decoded === "large") throw new Error("the body is large");
  return decoded;
}

const opener = createBodyOpener();
afterAll(() => opener.close());

/** Decodes a body that is large in some layer. */
function decodeLarge(bytes: Buffer | string, rest?: Partial<EncodedBody>) {
  const body = bodyOf(bytes, rest);
  expect(decodeSmallBody(body, "malformed_data")).toBe("large");
  return decodeLargeBody(body, { slices: createSlices(), opener }, "malformed_data");
}

/** What a body of any size is refused with. */
async function refusalOfAny(bytes: Buffer | string, rest?: Partial<EncodedBody>) {
  const body = bodyOf(bytes, rest);
  try {
    const tools = { slices: createSlices(), opener };
    if (decodeSmallBody(body, "malformed_data") === "large") {
      await decodeLargeBody(body, tools, "malformed_data");
    }
  } catch (error) {
    if (error instanceof Refusal) return error;
    throw error;
  }
  throw new Error("nothing was refused");
}

function refusalOf(run: () => unknown): Refusal {
  try {
    run();
  } catch (error) {
    if (error instanceof Refusal) return error;
    throw error;
  }
  throw new Error("nothing was refused");
}

/** The lz-string stream of 1 + 2 + … + `phrases` spaces: what the library would write, in no time. */
function lzOfSpaces(phrases: number): string {
  const bits: number[] = [];
  const write = (code: number, width: number) => {
    for (let bit = 0; bit < width; bit++) bits.push(Math.floor(code / 2 ** bit) % 2);
  };
  write(0, 2);
  write(32, 8);
  for (let code = 4; code < phrases + 3; code++) write(code, code.toString(2).length);
  write(2, (phrases + 3).toString(2).length);
  while (bits.length % 24 !== 0) bits.push(0);
  const bytes = Buffer.alloc(bits.length / 8);
  bits.forEach((bit, at) => {
    bytes.writeUInt8(bytes.readUInt8(at >> 3) | (bit << (7 - (at % 8))), at >> 3);
  });
  return bytes.toString("base64");
}

describe("decodeBody", () => {
  it("[DE-2] writes the same lz-string streams as the library, for the tests below", () => {
    const spaces = " ".repeat((300 * 301) / 2);
    expect(lzString.decompressFromBase64(lzOfSpaces(300))).toBe(spaces);
    const quoted = lzString.compressToBase64(`{"a":"${spaces}"}`);
    expect(decode(quoted, { query: { compression: "lz64" } }).value).toEqual({ a: spaces });
  });

  it.each([
    undefined,
    "application/json",
    "text/plain;charset=UTF-8",
    FORM,
    "application/octet-stream",
  ])("[DE-1] reads plain JSON under content type %s", (contentType) => {
    expect(decode(json, { contentType }).value).toEqual(event);
  });

  it("[DE-1] reads plain JSON after a byte order mark and white space", () => {
    expect(decode(`\uFEFF \n${json}`).value).toEqual(event);
  });

  const lz = lzString.compressToBase64(json);
  const encodings: [string, Buffer | string, Partial<EncodedBody>][] = [
    ["gzip by query", gzipSync(json), { query: { compression: "gzip" } }],
    ["gzip-js by query", gzipSync(json), { query: { compression: "gzip-js" } }],
    ["gzip by header", gzipSync(json), { contentEncoding: "gzip" }],
    ["gzip without any label", gzipSync(json), { contentType: "text/plain" }],
    ["gzip inside gzip", gzipSync(gzipSync(json)), { contentEncoding: "gzip, gzip" }],
    ["deflate with zlib header", deflateSync(json), { contentEncoding: "deflate" }],
    ["deflate, raw", deflateRawSync(json), { contentEncoding: "deflate" }],
    ["br", brotliCompressSync(json), { contentEncoding: "br" }],
    ["zstd by header", zstdRaw(json), { contentEncoding: "zstd" }],
    ["zstd without any label", zstdRaw(json), {}],
    ["base64 of zstd", zstdRaw(json).toString("base64"), { query: { compression: "zstd" } }],
    ["lz64 by query", lz, { query: { compression: "lz64" } }],
    ["lz-string by query", lz, { query: { compression: "lz-string" } }],
    ["lz64 in a form", `data=${encodeURIComponent(lz)}&compression=lz64`, { contentType: FORM }],
    ["base64 by query", base64, { query: { compression: "base64" } }],
    ["b64 by query", base64, { query: { compression: "b64" } }],
    ["base64 without any label", base64, { contentType: "text/plain" }],
    ["base64 without padding", base64.replaceAll("=", ""), {}],
    ["base64, URL-safe", Buffer.from(json).toString("base64url"), {}],
    ["base64 with + turned to spaces", base64.replaceAll("+", " "), {}],
    ["base64 of base64", Buffer.from(base64).toString("base64"), {}],
    ["base64 of gzip", gzipSync(json).toString("base64"), { query: { compression: "gzip-js" } }],
    ["gzip of base64", gzipSync(base64), { query: { compression: "gzip-js" } }],
    ["a form", `data=${encodeURIComponent(json)}`, { contentType: FORM }],
    [
      "a form sent as plain text",
      `data=${encodeURIComponent(json)}`,
      { contentType: "text/plain" },
    ],
    [
      "a form of base64",
      `data=${encodeURIComponent(base64)}&compression=base64`,
      { contentType: FORM },
    ],
    ["a form of raw base64", `ip=1&data=${base64}&compression=base64`, { contentType: FORM }],
    ["a compressed form", gzipSync(`data=${encodeURIComponent(json)}`), { contentType: FORM }],
    [
      "a form of base64 of gzip",
      `data=${encodeURIComponent(gzipSync(json).toString("base64"))}`,
      {},
    ],
    [
      "plain JSON labelled gzip",
      json,
      { query: { compression: "gzip-js" }, contentEncoding: "gzip" },
    ],
    ["plain JSON labelled lz64", json, { query: { compression: "lz64" } }],
    ["plain JSON labelled br", json, { contentEncoding: "br" }],
    ["base64 labelled lz64", base64, { query: { compression: "lz64" } }],
    ["JSON that was serialized twice", JSON.stringify(json), {}],
    ["base64 in a JSON string", JSON.stringify(base64), {}],
    ["percent-encoded JSON", encodeURIComponent(json), {}],
    ["query parameter data", "", { query: { data: json } }],
    ["query parameter data, base64", "", { query: { data: base64.replaceAll("+", " ") } }],
    ["query parameter data, twice: the last", "", { query: { data: ["{}", base64] } }],
  ];
  it.each(encodings)("[DE-2] reads %s", (_title, bytes, rest) => {
    expect(decode(bytes, rest).value).toEqual(event);
  });

  it("[DE-2] reads what is compressed to bytes that begin like JSON", () => {
    const events = Array.from({ length: 900 }, (_, index) => ({ ...event, index }));
    const bytes = brotliCompressSync(JSON.stringify(events));
    expect(bytes.toString("latin1", 0, 1)).toBe("[");
    expect(decode(bytes, { contentEncoding: "br" }).value).toEqual(events);
    const inBase64 = bytes.toString("base64");
    expect(decode(inBase64, { query: { compression: "br" } }).value).toEqual(events);
  });

  it.each(["br", "deflate"])("[DE-1] reads plain JSON that is labelled %s", (contentEncoding) => {
    for (const text of [
      json,
      `[${json}]`,
      "[]",
      "{}",
      `[${json.repeat(2).replace("}{", "},{")}]`,
    ]) {
      expect(decode(text, { contentEncoding }).value).toEqual(JSON.parse(text));
    }
  });

  const halves = [json.slice(0, 20), json.slice(20)].map((half) => gzipSync(half));
  it.each([
    ["two members, as RFC 1952 has it", Buffer.concat(halves)],
    ["zeros behind it, as padding", Buffer.concat([gzipSync(json), Buffer.alloc(512)])],
    ["both", Buffer.concat([...halves, Buffer.alloc(3)])],
    ["an empty member behind it", Buffer.concat([gzipSync(json), gzipSync("")])],
  ])("[DE-2] reads gzip with %s", (_title, bytes) => {
    expect(decode(bytes).value).toEqual(event);
  });

  it("[DE-2] reads multipart forms, their other fields included", () => {
    const body = [
      '--xx\r\nContent-Disposition: form-data; name="api_key"\r\n\r\nphc_1\r\n',
      '--xx\r\nContent-Disposition: form-data; name="data"; filename="blob"\r\n',
      `Content-Type: text/plain\r\n\r\n${json}\r\n--xx--\r\n`,
    ].join("");
    const decoded = decode(body, { contentType: "multipart/form-data; boundary=xx" });
    expect(decoded.value).toEqual(event);
    expect(decoded.form.get("api_key")).toBe("phc_1");
  });

  it("[DE-2] reads what a Zstandard compressor wrote", () => {
    const bytes = Buffer.from(
      "KLUv/QRovQEAIkMLEbDrZxKZJoKiZVg1ZBl0TK4CMRrpMeVkiOD0vq9hul2XfSm2DGxUOL3p7oYBAQDfm/alDB40D4s=",
      "base64",
    );
    expect(decode(bytes).value).toEqual({
      event: "big",
      properties: { text: "abcdefghij".repeat(500) },
    });
  });

  it("[DE-2] hands over the other fields of a form", () => {
    const { form } = decode(`data=${base64}&api_key=phc_1&sent_at=12&__proto__=x`);
    expect([...form]).toEqual([
      ["api_key", "phc_1"],
      ["sent_at", "12"],
      ["__proto__", "x"],
    ]);
  });

  it("[DE-3] tells no data from bad data", () => {
    expect(decode("").value).toBeUndefined();
    expect(decode("data=", { contentType: FORM }).value).toBeUndefined();
    expect(decode("", { query: { data: "" } }).value).toBeUndefined();
  });

  it("[DE-4] turns NaN and infinities into null and leaves strings that say so alone", () => {
    expect(decode('{"a":NaN,"b":[-Infinity,Infinity],"NaN":"\\"NaN, Infinity"}').value).toEqual({
      a: null,
      b: [null, null],
      NaN: '"NaN, Infinity',
    });
  });

  it("[DE-4] reads JSON5 as a last resort", () => {
    expect(decode("{event:'visit', n: +NaN, list:[1,2,],}").value).toEqual({
      event: "visit",
      n: null,
      list: [1, 2],
    });
  });

  it("[DE-4] spends no time on long texts that are no JSON", () => {
    const long = (count: number) => `{list:[${"{a:1},".repeat(count)}]}`;
    expect(decode(long(16_000)).value).toMatchObject({ list: { length: 16_000 } });
    expect(refusalOf(() => decode(long(17_000))).body.code).toBe("malformed_data");
  });

  it("[DE-5] replaces invalid UTF-8, lone surrogates and NUL characters", () => {
    const bytes = Buffer.concat([Buffer.from('{"a":"'), Buffer.from([0xff]), Buffer.from('"}')]);
    expect(decode(bytes).value).toEqual({ a: "\uFFFD" });
    expect(decode('{"\\ud800k":"x\\uDC00","b":["\\u0000"],"ok":"\\ud83e\\udd94"}').value).toEqual({
      "\uFFFDk": "x\uFFFD",
      b: ["\uFFFD"],
      ok: "🦔",
    });
  });

  it("[DE-6] keeps __proto__ and constructor as plain keys in strict and lenient texts", () => {
    for (const text of [
      '{"__proto__":{"x":1},"constructor":"\\u0000"}',
      "{__proto__:{x:1},constructor:'a'}",
    ]) {
      const value = decode(text).value as object;
      expect(Object.keys(value)).toEqual(["__proto__", "constructor"]);
      expect(Object.getPrototypeOf(value)).toBe(Object.prototype);
      expect("x" in value).toBe(false);
    }
  });

  it.each([
    ["text", "hello"],
    ["half a document", '{"event":"x"'],
    ["a form without JSON", "data=%7Bx"],
    ["bad percent-encoding", "%7B%zz"],
    ["cut-off gzip", gzipSync(json).subarray(0, -20)],
    ["gzip with other bytes behind it", Buffer.concat([gzipSync(json), Buffer.from([9, 9, 0, 0])])],
    ["gzip with a cut-off member", Buffer.concat([gzipSync(json), gzipSync(json).subarray(0, 9)])],
    ["cut-off zstd", zstdRaw(json).subarray(0, -20)],
    ["a broken zstd frame", Buffer.concat([zstdRaw("").subarray(0, 6), Buffer.alloc(40, 0xff)])],
    ["the word undefined", "undefined"],
    ["white space", "  "],
  ])("[DE-7] refuses %s with 400 malformed_data", async (_title, bytes) => {
    const refusal = await refusalOfAny(bytes, { query: { compression: "gzip-js" } });
    expect(refusal.status).toBe(400);
    expect(refusal.body).toMatchObject({
      type: "validation_error",
      code: "malformed_data",
      attr: null,
    });
    expect(refusal.message).toMatch(/^Malformed request data: ./);
  });

  it("[DE-7] refuses what holds nothing under the label of another encoding, with a reason of its own", async () => {
    const refusal = await refusalOfAny(gzipSync(""), { contentEncoding: "deflate" });
    expect(refusal.status).toBe(400);
    expect(refusal.message).not.toMatch(/memory|buffer/i);
  });

  it("[DE-7] refuses with the code the route asked for", () => {
    const body = { bytes: Buffer.from("{"), contentType: "", contentEncoding: "", query: {} };
    expect(refusalOf(() => decodeSmallBody(body, "invalid_payload")).code).toBe("invalid_payload");
  });

  describe("[DE-8] bounds", () => {
    const bomb = Buffer.alloc(MAX_DECODED_BYTES + 1, " ");
    it.each([
      ["gzip", gzipSync(bomb), {}],
      ["gzip in base64", gzipSync(bomb).toString("base64"), {}],
      ["deflate", deflateSync(bomb), { contentEncoding: "deflate" }],
      ["raw deflate", deflateRawSync(bomb), { contentEncoding: "deflate" }],
      [
        "br",
        brotliCompressSync(bomb, { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } }),
        { contentEncoding: "br" },
      ],
      ["zstd", zstdBomb(21), { contentEncoding: "zstd" }],
      ["zstd, a thousand times as large", zstdBomb(20_000), {}],
      ["zstd that claims a gigabyte", zstdClaim(1e9), {}],
      ["many frames of zstd that claim much", Buffer.concat(Array(200).fill(zstdClaim(19e6))), {}],
      ["zstd of many blocks that hold nothing", zstdOfEmptyBlocks(200_000), {}],
      ["lz64", lzOfSpaces(7000), { query: { compression: "lz64" } }],
    ])("the decoded size of %s, naming the limit", async (_title, bytes, rest) => {
      const before = process.cpuUsage();
      const refusal = await refusalOfAny(bytes, rest);
      expect(refusal.body).toMatchObject({ type: "client_error", code: "request_too_large" });
      expect(refusal.status).toBe(413);
      expect(refusal.message).toContain(String(MAX_DECODED_BYTES));
      expect(process.cpuUsage(before).user / 1_000).toBeLessThan(4_000);
    });

    it("the nesting depth, in strict and lenient texts", () => {
      const deep = `${"[".repeat(201)}${"]".repeat(201)}`;
      expect(refusalOf(() => decode(deep)).message).toContain("nested deeper than 200 levels");
      expect(refusalOf(() => decode(`{a:']]]]',b:${deep}}`)).message).toContain("nested deeper");
      const closers = `'${"]".repeat(300)}'`;
      expect(refusalOf(() => decode(`{a:${closers},b:${deep}}`)).message).toContain(
        "nested deeper",
      );
      expect(decode(`${"[".repeat(200)}${"]".repeat(200)}`).value).toBeInstanceOf(Array);
      expect(
        decode(JSON.stringify({ a: "[".repeat(500), 'b\\"': "{".repeat(500) })).value,
      ).toBeTruthy();
    });

    it("the number of fields of a form", () => {
      expect(refusalOf(() => decode(`data=1&${"a&".repeat(2000)}`)).message).toContain(
        "form fields",
      );
    });

    it("the number of layers", () => {
      let layers = json;
      for (let count = 0; count < 8; count++) layers = Buffer.from(layers).toString("base64");
      expect(refusalOf(() => decode(layers)).message).toContain("encoded more than");
    });
  });

  describe("[DE-9] bodies that are long in some layer", () => {
    const batch = Array.from({ length: 5000 }, (_, index) => ({ ...event, index }));
    const long = JSON.stringify({ batch });
    const inForm = `compression=base64&api_key=phc_1&data=${Buffer.from(long).toString("base64")}`;
    const lies = Buffer.concat([gzipSync(long), gzipSync("")]);
    it.each([
      ["gzip", gzipSync(long), {}],
      ["gzip that tells of less", lies, {}],
      ["gzip with zeros behind it", Buffer.concat([gzipSync(long), Buffer.alloc(9)]), {}],
      ["gzip in gzip", gzipSync(gzipSync(long)), {}],
      ["deflate", deflateSync(long), { contentEncoding: "deflate" }],
      ["raw deflate", deflateRawSync(long), { contentEncoding: "deflate" }],
      ["br", brotliCompressSync(long), { contentEncoding: "br" }],
      ["zstd", zstdRaw(long), { contentEncoding: "zstd" }],
      ["lz64", lzString.compressToBase64(long), { query: { compression: "lz64" } }],
      ["base64", Buffer.from(long).toString("base64"), {}],
      ["base64 of gzip", gzipSync(long).toString("base64"), { query: { compression: "gzip-js" } }],
      ["gzip of base64", gzipSync(Buffer.from(long).toString("base64")), {}],
      ["a form", inForm, { contentType: FORM }],
      ["a compressed form", gzipSync(inForm), { contentType: FORM }],
      ["JSON that was serialized twice", JSON.stringify(long), {}],
    ])("are read in another thread, to the same value: %s", async (_title, bytes, rest) => {
      const decoded = await decodeLarge(bytes, rest);
      expect(decoded.value).toEqual({ batch });
      expect(decoded.sizes.chars).toBe(long.length);
      if (bytes === inForm) expect(decoded.form.get("api_key")).toBe("phc_1");
    });

    it.each([
      ["cut-off br", brotliCompressSync(long).subarray(0, -50), { contentEncoding: "br" }],
      ["base64 of cut-off gzip", gzipSync(lies).subarray(0, -50).toString("base64"), {}],
      ["half a document", deflateSync(long.slice(0, -9)), { contentEncoding: "deflate" }],
      ["a long word", "x".repeat(300_000), {}],
    ])("are refused like short ones: %s", async (_title, bytes, rest) => {
      const refusal = await refusalOfAny(bytes, rest);
      expect(refusal).toMatchObject({ status: 400, code: "malformed_data" });
      expect(refusal.message).toMatch(/^Malformed request data: ./);
    });

    it("leave others their turns while they are opened", async () => {
      const blanks = Buffer.alloc(MAX_DECODED_BYTES, " ");
      const bytes = brotliCompressSync(blanks, { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } });
      let turns = 0;
      let isOver = false;
      const count = () => {
        turns++;
        if (!isOver) setTimeout(count, 1);
      };
      const reading = refusalOfAny(gzipSync(bytes), { contentEncoding: "br" });
      count();
      expect((await reading).code).toBe("malformed_data");
      isOver = true;
      expect(turns).toBeGreaterThan(10);
    });
  });

  it("[DE-2] reads any JSON document back from every encoding", () => {
    const document = fc.oneof(
      fc.dictionary(fc.string({ unit: "grapheme" }), fc.jsonValue()),
      fc.array(fc.jsonValue()),
    );
    fc.assert(
      fc.property(document, (value) => {
        const text = JSON.stringify(value);
        if (text.includes("\\u0000")) return;
        const plain = JSON.parse(text);
        const base64Text = Buffer.from(text).toString("base64");
        expect(decode(text).value).toEqual(plain);
        expect(decode(gzipSync(text)).value).toEqual(plain);
        expect(decode(`data=${encodeURIComponent(text)}`).value).toEqual(plain);
        expect(decode(`data=${base64Text}`).value).toEqual(plain);
        expect(decode(base64Text).value).toEqual(plain);
        const lzText = lzString.compressToBase64(text);
        expect(decode(lzText, { query: { compression: "lz64" } }).value).toEqual(plain);
      }),
      { numRuns: 300 },
    );
  });

  it("[DE-7] answers any bytes under any label with a value or a refusal", () => {
    const label = fc.constantFrom(undefined, "gzip", "deflate", "br", "lz64", "base64", "nonsense");
    const type = fc.constantFrom(undefined, FORM, "multipart/form-data; boundary=x", "text/plain");
    const bytes = fc.oneof(
      fc.uint8Array({ maxLength: 60 }).map((array) => Buffer.from(array)),
      fc.string().map((text) => Buffer.from(text)),
    );
    fc.assert(
      fc.property(bytes, label, type, (body, compression, contentType) => {
        try {
          decode(body, { query: { compression }, contentEncoding: compression, contentType });
        } catch (error) {
          if (!(error instanceof Refusal)) throw error;
        }
      }),
      { numRuns: 2000 },
    );
  });
});

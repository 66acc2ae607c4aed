import { brotliCompressSync, deflateSync, gzipSync } from "node:zlib";
import lzString from "lz-string";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { zstdBomb, zstdRaw } from "../http/zstd.setup.ts";
import { openCaptureApi, TOKEN } from "./capture-api.setup.ts";

const MEBIBYTE = 1024 * 1024;

describe("bodies that break things", () => {
  let api: Awaited<ReturnType<typeof openCaptureApi>>;
  beforeAll(async () => {
    api = await openCaptureApi();
  });
  afterAll(() => api.close());
  beforeEach(async () => {
    await api.captured();
  });

  const json = JSON.stringify({ api_key: TOKEN, event: "visit", distinct_id: "ann" });
  const send = (payload: string | Buffer, query = "", headers: Record<string, string> = {}) =>
    api.send({ method: "POST", url: `/e/${query}`, payload, headers });
  const encoded = (encoding: string) => ({ "content-encoding": encoding });
  const blanks = Buffer.alloc(21 * MEBIBYTE, 0x20);

  it.each<[string, string | Buffer, string, Record<string, string>]>([
    ["gzip", gzipSync(json), "", {}],
    ["deflate", deflateSync(json), "", encoded("deflate")],
    ["br", brotliCompressSync(json), "", encoded("br")],
    ["zstd", zstdRaw(json), "", encoded("zstd")],
    ["zstd without a label", zstdRaw(json), "", {}],
    ["lz64", lzString.compressToBase64(json), "?compression=lz64", {}],
    ["base64", Buffer.from(json).toString("base64"), "?compression=base64", {}],
  ])(
    "[CA-41] %s is read whole, and refused when it is cut off",
    async (_title, body, query, headers) => {
      expect((await send(body, query, headers)).status).toBe(200);
      expect(await api.captured()).toHaveLength(1);
      const cut = await send(body.slice(0, -20), query, headers);
      expect([cut.status, cut.body.code]).toEqual([400, "invalid_payload"]);
      expect(await api.captured()).toEqual([]);
    },
  );

  it.each<[string, string | Buffer, string, Record<string, string>]>([
    ["gzip", gzipSync(blanks), "", {}],
    ["gzip in gzip", gzipSync(gzipSync(blanks)), "", {}],
    ["deflate", deflateSync(blanks), "", encoded("deflate")],
    ["br", brotliCompressSync(blanks), "", encoded("br")],
    ["zstd", zstdBomb(100_000), "", encoded("zstd")],
    ["gzip in base64", gzipSync(blanks).toString("base64"), "?compression=base64", {}],
  ])(
    "[CA-38] a bomb in %s is refused while it is decoded",
    async (_title, body, query, headers) => {
      const started = process.cpuUsage();
      const { status, body: answer } = await send(body, query, headers);
      const { user, system } = process.cpuUsage(started);
      expect([status, answer.code]).toEqual([413, "request_too_large"]);
      expect(user + system).toBeLessThan(4_000_000);
      expect(await api.captured()).toEqual([]);
    },
  );

  it("[CA-35] base64 within base64 ends somewhere", async () => {
    let nested = json;
    for (let layer = 0; layer < 10; layer++) nested = Buffer.from(nested).toString("base64");
    const { status, body } = await send(nested, "?compression=base64");
    expect([status, body.code]).toEqual([400, "invalid_payload"]);
  });

  it("[CA-45] of keys that come twice the last counts, and NUL becomes a character", async () => {
    const text = `{"api_key":"${TOKEN}","event":"no","event":"visit","distinct_id":"a\\u0000b","properties":{"k":1,"k":"\\u0000"}}`;
    expect((await send(text)).status).toBe(200);
    expect(await api.captured()).toMatchObject([
      { event: "visit", distinctId: "a\uFFFDb", properties: { k: "\uFFFD" } },
    ]);
  });

  it("[CA-35] nesting is bounded", async () => {
    const nested = (levels: number) =>
      `{"api_key":"${TOKEN}","event":"visit","distinct_id":"a","properties":{"k":${"[".repeat(levels)}${"]".repeat(levels)}}}`;
    expect((await send(nested(150))).status).toBe(200);
    const { status, body } = await send(nested(500));
    expect([status, body.code]).toEqual([400, "invalid_payload"]);
  });

  it("[CA-49] a batch of 100,000 events lets other requests through while it is taken", async () => {
    const batch = Array.from({ length: 100_000 }, (_, index) => ({
      event: "visit",
      distinct_id: `user ${index % 1000}`,
    }));
    const payload = JSON.stringify({ api_key: TOKEN, batch });
    // In time of computing, which a machine that runs much else does not stretch.
    const computedMs = () => process.cpuUsage().user / 1_000;
    let longest = 0;
    let last = computedMs();
    const clock = setInterval(() => {
      longest = Math.max(longest, computedMs() - last);
      last = computedMs();
    }, 1);
    const { status, body } = await send(payload);
    clearInterval(clock);
    expect([status, body]).toEqual([200, { status: 1 }]);
    expect(longest).toBeLessThan(2500);
    expect(await api.captured()).toHaveLength(100_000);
  });
});

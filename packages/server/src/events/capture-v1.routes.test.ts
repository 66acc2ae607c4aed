import { randomUUID } from "node:crypto";
import { brotliCompressSync, deflateSync, gzipSync } from "node:zlib";
import type { InjectOptions } from "fastify";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { zstdRaw } from "../http/zstd.setup.ts";
import { ARRIVAL, openCaptureApi, TOKEN } from "./capture-api.setup.ts";

const URL = "/i/v1/analytics/events";

describe("capture v1 over HTTP", () => {
  let api: Awaited<ReturnType<typeof openCaptureApi>>;
  beforeAll(async () => {
    api = await openCaptureApi();
  });
  afterAll(() => api.close());
  beforeEach(async () => {
    await api.captured();
  });

  const event = (fields: object = {}) => ({
    event: "paid",
    uuid: randomUUID(),
    distinct_id: "ann",
    timestamp: "2026-01-15T11:59:00.000Z",
    properties: {},
    ...fields,
  });
  const send = (
    batch: unknown,
    headers: Record<string, string> = {},
    encode: (json: string) => string | Buffer = (json) => json,
  ) =>
    api.send({
      method: "POST",
      url: URL,
      headers: {
        "content-type": "application/json",
        authorization: `Bearer ${TOKEN}`,
        "posthog-sdk-info": "posthog-node/5.70.0",
        "posthog-attempt": "1",
        "posthog-request-id": "0199a5f0-0000-7000-8000-000000000001",
        "posthog-request-timestamp": ARRIVAL.toISOString(),
        ...headers,
      },
      payload: encode(JSON.stringify({ created_at: ARRIVAL.toISOString(), batch })),
    } satisfies InjectOptions);

  it("[CA-61] answers the result of each event, the request's id and the date", async () => {
    const [good, long, unnamed, kindless] = [
      event(),
      event({ distinct_id: "x".repeat(201) }),
      event({ event: "" }),
      event({ event: "$snapshot" }),
    ];
    const answer = await send([good, long, unnamed, kindless, 5, event({ uuid: undefined })]);
    expect(answer.status).toBe(200);
    expect(answer.body).toEqual({
      results: {
        [good.uuid]: { result: "ok" },
        [long.uuid]: { result: "warning", details: "distinct_id_truncated" },
        [unnamed.uuid]: { result: "drop", details: expect.stringMatching(/^invalid_event: /) },
        [kindless.uuid]: { result: "drop", details: expect.stringMatching(/^not_kept: /) },
        "#4": { result: "drop", details: expect.stringMatching(/^not_an_object: /) },
        "#5": { result: "drop", details: expect.stringMatching(/^invalid_uuid: /) },
      },
    });
    expect(answer.headers["posthog-request-id"]).toBe("0199a5f0-0000-7000-8000-000000000001");
    expect(answer.headers.date).toBeDefined();
    expect(answer.headers["retry-after"]).toBeUndefined();
    expect((await api.captured()).map(({ uuid }) => uuid)).toEqual([good.uuid, long.uuid]);
  });

  it("[CA-61] an event sent again is ok, another one with its uuid is dropped", async () => {
    const first = event();
    await send([first]);
    const again = await send([first], { "posthog-attempt": "2" });
    expect(again.body.results[first.uuid]).toEqual({
      result: "ok",
      details: expect.stringMatching(/^duplicate: /),
    });
    const other = await send([{ ...first, event: "refunded" }]);
    expect(other.body.results[first.uuid]).toEqual({
      result: "drop",
      details: expect.stringMatching(/^conflict: /),
    });
    expect(await api.captured()).toHaveLength(1);
  });

  it("[CA-62] the time of the attempt corrects the client's clock, unless the event says no", async () => {
    const sent = new Date(ARRIVAL.getTime() - 3_600_000).toISOString();
    const late = { timestamp: new Date(ARRIVAL.getTime() - 3_660_000).toISOString() };
    await send([event(late), event({ ...late, options: { disable_skew_correction: true } })], {
      "posthog-request-timestamp": sent,
    });
    expect((await api.captured()).map(({ timestamp }) => timestamp.toISOString())).toEqual([
      new Date(ARRIVAL.getTime() - 60_000).toISOString(),
      late.timestamp,
    ]);
  });

  it.each<[string, (json: string) => Buffer]>([
    ["gzip", gzipSync],
    ["deflate", deflateSync],
    ["br", brotliCompressSync],
    ["zstd", zstdRaw],
  ])("[CA-63] reads %s", async (encoding, encode) => {
    const answer = await send([event()], { "content-encoding": encoding }, encode);
    expect([answer.status, await api.captured()]).toEqual([200, [expect.anything()]]);
  });

  it.each<[string, number, unknown, Record<string, string>, ((json: string) => string | Buffer)?]>([
    ["no key", 401, [event()], { authorization: "" }],
    ["an unknown key", 401, [event()], { authorization: "Bearer phc_unknown" }],
    ["a personal key", 401, [event()], { authorization: "Bearer phx_1" }],
    ["no list", 400, { a: 1 }, {}],
    ["an empty list", 400, [], {}],
    ["an unreadable time", 400, [event()], { "posthog-request-timestamp": "yesterday" }],
    ["no JSON", 400, [event()], {}, () => "nonsense"],
    [
      "a cut-off body",
      400,
      [event()],
      { "content-encoding": "gzip" },
      (json) => gzipSync(json).subarray(0, -20),
    ],
    ["an unknown encoding", 415, [event()], { "content-encoding": "compress" }],
    [
      "too much",
      413,
      [event()],
      { "content-encoding": "br" },
      () => brotliCompressSync(Buffer.alloc(21 * 1024 * 1024, 32)),
    ],
  ])("[CA-63] refuses %s with %i for good", async (_title, status, batch, headers, encode) => {
    const answer = await send(batch, headers, encode);
    expect([answer.status, Object.keys(answer.body).toSorted()]).toEqual([
      status,
      ["attr", "code", "detail", "type"],
    ]);
    expect(answer.headers["retry-after"]).toBeUndefined();
    expect(await api.captured()).toEqual([]);
  });

  it("[CA-61] says retry, and when, while events cannot be stored", async () => {
    const full = await openCaptureApi({ maxLogBytes: 256 * 1024 });
    try {
      let answer: Awaited<ReturnType<typeof full.send>>;
      const [good, bad] = [
        event({ properties: { text: "x".repeat(60_000) } }),
        event({ event: 1 }),
      ];
      do {
        good.uuid = randomUUID();
        answer = await full.send({
          method: "POST",
          url: URL,
          headers: { authorization: `Bearer ${TOKEN}` },
          payload: { batch: [good, bad] },
        });
      } while (answer.body.results[good.uuid].result === "ok");
      expect(answer.status).toBe(200);
      expect(answer.body.results).toEqual({
        [good.uuid]: { result: "retry", details: expect.any(String) },
        [bad.uuid]: { result: "drop", details: expect.any(String) },
      });
      expect(Number(answer.headers["retry-after"])).toBeGreaterThan(0);
    } finally {
      await full.close();
    }
  });
});

import { brotliCompressSync } from "node:zlib";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { tellAll } from "./capture.ts";
import { openCaptureApi, TOKEN } from "./capture-api.setup.ts";

it("[CA-49] of many events it is told in turns with requests what became of them, of few at once", async () => {
  const told: number[] = [];
  const events = Array.from({ length: 2500 }, (_, index) => index);
  expect(tellAll(events.slice(0, 1000), (event) => told.push(event))).toBeUndefined();
  expect(told).toEqual(events.splice(0, 1000));
  const telling = tellAll(events, (event) => told.push(event));
  expect(told).toHaveLength(2000);
  await telling;
  expect(told).toHaveLength(2500);
});

describe("bounds of what a capture request may hold", () => {
  let api: Awaited<ReturnType<typeof openCaptureApi>>;
  beforeAll(async () => {
    api = await openCaptureApi();
  });
  afterAll(() => api.close());

  const event = JSON.stringify({ event: "visit", distinct_id: "ann", token: TOKEN });
  const many = (one: string, count: number) => Array(count).fill(one).join(",");
  const send = (url: string, payload: string | Buffer, encoding = "identity") =>
    api.send({
      method: "POST",
      url,
      headers: {
        "content-type": "application/json",
        "content-encoding": encoding,
        authorization: `Bearer ${TOKEN}`,
      },
      payload,
    });

  it.each([
    ["a batch", "/batch/", `{"api_key":"${TOKEN}","batch":[${many(event, 100_001)}]}`],
    ["a list", "/e/", `[${many(event, 100_001)}]`],
    ["a list of what is no event", "/e/", `[${event},${many("1", 2_000_000)}]`],
    ["capture v1", "/i/v1/analytics/events", `{"batch":[${many("{}", 100_001)}]}`],
  ])(
    "[CA-68] more than 100,000 events are refused by 413, which names the number: %s",
    async (_, url, text) => {
      const { status, body } = await send(url, brotliCompressSync(text), "br");
      expect([status, body.type, body.code]).toEqual([413, "client_error", "request_too_large"]);
      expect(body.detail).toContain("100000");
      expect(await api.captured()).toEqual([]);
    },
  );

  it("[CA-69] an answer lists ten thousand events of a kind, and says how many more there were", async () => {
    const uuid = "0199a5f0-0000-7000-8000-000000000001";
    const same = event.replace("{", `{"uuid":"${uuid}",`);
    const all = await send("/e/", `[${event},${many("{}", 10_000)}]`);
    expect(all.body.rejected).toHaveLength(10_000);
    expect(all.body).not.toHaveProperty("unlisted");
    const more = await send("/e/", `[${many(same, 10_004)},${many("{}", 10_002)}]`);
    expect(more.status).toBe(200);
    expect(more.body.duplicates).toHaveLength(10_000);
    expect(more.body.rejected).toHaveLength(10_000);
    expect(more.body.unlisted).toBe(3 + 2);
    expect(await api.captured()).toHaveLength(2);
  });

  it("[CA-38] the size of an event is that of its JSON as it was sent", async () => {
    const spaced = event.replace(":", `:${" ".repeat(2 * 1024 * 1024)}`);
    const { status, body } = await send("/e/", `[${spaced},${event}]`);
    expect(status).toBe(200);
    expect(body.rejected).toMatchObject([{ index: 0, code: "event_too_large" }]);
    expect(await api.captured()).toHaveLength(1);
    const alone = await send("/e/", spaced);
    expect([alone.status, alone.body.code]).toEqual([413, "request_too_large"]);
  });

  it("[CA-38] of an event of hundreds of thousands of names nothing is taken, whatever it is sent in", async () => {
    const names = Array.from({ length: 300_000 }, (_, n) => `"name ${n}":${n}`).join(",");
    const large = `${event.slice(0, -1)},"properties":{${names}}}`;
    const inList = await send("/e/", `[${event},${large}]`);
    expect(inList.body.rejected).toMatchObject([{ index: 1, code: "event_too_large" }]);
    expect(await api.captured()).toHaveLength(1);
    for (const [url, text] of [
      ["/e/", large],
      ["/batch/", `{"api_key":"${TOKEN}","batch":[${large}]}`],
    ] as const) {
      const { status, body } = await send(url, text);
      expect([status, body.code]).toEqual([413, "request_too_large"]);
    }
    expect(await api.captured()).toEqual([]);
  });
});

import { randomUUID } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { get, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { gzipSync } from "node:zlib";
import fc from "fast-check";
import type { InjectOptions } from "fastify";
import { pino } from "pino";
import { afterAll, afterEach, beforeAll, describe, expect, it } from "vitest";
import { composeService, type Service } from "../compose.ts";
import { readConfig } from "../config.ts";
import { MAX_READERS } from "./live-events.ts";

const data = mkdtempSync(join(tmpdir(), "hedgerow-ingestion-"));
const config = readConfig(["--data", data, "--port", "0"], {});
let service: Service;
let projectId: number;
let token: string;
let key: string;

beforeAll(async () => {
  service = await composeService(config, pino({ level: "silent" }));
  if (!service.firstBoot) throw new Error("a new folder has a first boot");
  const { project, personalKey } = service.firstBoot;
  [projectId, token, key] = [project.id, project.apiToken, personalKey];
  await service.app.listen({ port: 0, host: "127.0.0.1" });
});
afterAll(async () => {
  await service.close();
  rmSync(data, { recursive: true, force: true });
});

async function send(request: InjectOptions) {
  const { statusCode, payload } = await service.app.inject(request);
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape
  return { status: statusCode, text: payload, body: JSON.parse(payload) as any };
}
const post = (batch: readonly object[], headers: Record<string, string> = {}) =>
  send({ method: "POST", url: "/batch/", payload: { api_key: token, batch }, headers });
const read = (path: string) =>
  send({
    method: "GET",
    url: `/api/projects/${projectId}/${path}`,
    headers: { authorization: `Bearer ${key}` },
  });
const receipt = (uuid: string) => read(`event_receipts/${uuid}`);
const visit = (fields: object = {}) => ({
  event: "visit",
  distinct_id: "ann",
  uuid: randomUUID(),
  properties: { $lib: "posthog-python", $lib_version: "6.7.0" },
  ...fields,
});

describe("receipts", () => {
  it("[RC-1] tell of a stored event when, where, and how often it came again", async () => {
    const event = visit();
    await post([event]);
    const { status, body } = await receipt(event.uuid.toUpperCase());
    expect(status).toBe(200);
    expect(body).toMatchObject({
      uuid: event.uuid,
      outcome: "stored",
      at: expect.any(String),
      position: expect.any(Number),
      changed_by: [],
      duplicates: 0,
      conflicts: 0,
      attempts: [],
    });
    const again = await post([event, { ...event, event: "other" }, event]);
    expect(again.body.duplicates.map(({ code }: { code: string }) => code)).toEqual([
      "duplicate",
      "conflict",
      "duplicate",
    ]);
    expect((await receipt(event.uuid)).body).toMatchObject({
      outcome: "stored",
      duplicates: 2,
      conflicts: 1,
    });
  });

  it("[RC-1] tell of a refused event why, until it is taken", async () => {
    const event = visit({ event: "" });
    const answer = await post([event, visit()]);
    const [{ code, detail }] = answer.body.rejected;
    expect((await receipt(event.uuid)).body).toMatchObject({
      outcome: "refused",
      code,
      reason: detail,
      at: expect.any(String),
    });
    await post([{ ...event, event: "visit" }]);
    expect((await receipt(event.uuid)).body).toMatchObject({
      outcome: "stored",
      attempts: [{ code, count: 1 }],
    });
  });

  it("[RC-1] know nothing of uuids that never came", async () => {
    expect((await receipt(randomUUID())).status).toBe(404);
    expect((await receipt("nonsense")).status).toBe(404);
  });
});

describe("ingestion warnings", () => {
  const warnings = async (query = "") => (await read(`ingestion_warnings?${query}`)).body;
  // biome-ignore lint/suspicious/noExplicitAny: see send
  const ofType = async (type: string): Promise<any[]> => (await warnings(`type=${type}`)).results;

  it("[IW-3] count cut-off bodies by SDK and version, where the request tells its project (UR-52)", async () => {
    const cut = gzipSync(JSON.stringify({ api_key: token, batch: [visit()] })).subarray(0, -20);
    for (const url of [`/e/?compression=gzip-js&ver=1.57.2&api_key=${token}`, "/e/?ver=1.57.2"]) {
      const { status, body } = await send({ method: "POST", url, payload: cut });
      expect([status, body.code]).toEqual([400, "invalid_payload"]);
    }
    expect(await ofType("undecodable_body")).toEqual([
      {
        type: "undecodable_body",
        sdk: "web",
        sdk_version: "1.57.2",
        count: 1,
        first_seen: expect.any(String),
        last_seen: expect.any(String),
        samples: [{ at: expect.any(String), detail: expect.stringContaining("decompress") }],
      },
    ]);
    const metrics = (await service.app.inject({ method: "GET", url: "/metrics" })).payload;
    expect(metrics).toContain('hedgerow_undecodable_bodies_total{sdk="web"} 2');
  });

  it("[IW-3] tell what was changed, with samples, by the SDK that the events name", async () => {
    const long = visit({ distinct_id: "x".repeat(250) });
    await post([
      long,
      visit({ distinct_id: "y".repeat(250) }),
      visit({ distinct_id: "z".repeat(300) }),
    ]);
    const [warning, ...more] = await ofType("distinct_id_truncated");
    expect(more).toEqual([]);
    expect(warning).toMatchObject({ sdk: "posthog-python", sdk_version: "6.7.0", count: 3 });
    expect(warning.samples).toHaveLength(2);
    expect(warning.samples[0]).toMatchObject({
      uuid: long.uuid,
      event: "visit",
      distinct_id: "x".repeat(200),
    });
  });

  it("[IW-3] tell times that were corrected (UR-71)", async () => {
    const ahead = new Date(Date.now() + 30 * 86_400_000).toISOString();
    const late = visit({ timestamp: ahead });
    await post([late]);
    const skewed = visit({ timestamp: ahead });
    const sent = { api_key: token, sent_at: ahead, batch: [skewed] };
    await send({ method: "POST", url: "/batch/", payload: sent });
    const future = await ofType("timestamp_in_future");
    expect(future).toMatchObject([{ count: 1, samples: [{ uuid: late.uuid }] }]);
    const corrected = await ofType("clock_skew_corrected");
    expect(corrected).toMatchObject([{ count: 1, samples: [{ uuid: skewed.uuid }] }]);
  });

  it("[IW-3] tell refused events by code, by the SDK that the request names", async () => {
    await post([visit(), visit({ uuid: "nonsense" })], { "user-agent": "posthog-node/4.2.0" });
    expect(await ofType("refused_invalid_uuid")).toMatchObject([
      { sdk: "posthog-node", sdk_version: "4.2.0", count: 1 },
    ]);
  });

  it("[IW-3] tell merges that were refused", async () => {
    await post([{ ...visit({ event: "$create_alias" }), properties: { alias: "anonymous" } }]);
    await expect
      .poll(async () =>
        (await warnings()).results.flatMap((one: { type: string; samples: { event: string }[] }) =>
          one.samples.some(({ event }) => event === "$create_alias") ? [one.type] : [],
        ),
      )
      .toHaveLength(1);
  });

  it("[IW-3] are listed by page, type and time", async () => {
    const all = await warnings();
    expect(all.count).toBeGreaterThan(2);
    expect(all.count).toBe(all.results.length);
    const page = await warnings("limit=1&offset=1");
    expect(page.results).toEqual([all.results[1]]);
    expect((await warnings("before=2001-01-01")).count).toBe(0);
    expect((await read("ingestion_warnings?after=soon")).body.attr).toBe("after");
  });
});

describe("exact numbers", () => {
  it("[CA-50] come back in their own digits from events and persons", async () => {
    const uuid = randomUUID();
    const properties =
      '{"z":12345678901234567890,"a":[-98765432109876543210,{"n":9007199254740993}],"d":0.1,"$set":{"big":9007199254740993}}';
    const payload = `{"api_key":"${token}","event":"paid","distinct_id":12345678901234567890,"uuid":"${uuid}","properties":${properties}}`;
    await send({ method: "POST", url: "/e/", payload });
    const { text, body } = await read(`events/${uuid}`);
    expect(body.distinct_id).toBe("12345678901234567890");
    expect(text).toContain(properties.slice(0, -1));
    expect(text).toMatch(/"person":\{.*"properties":\{"big":9007199254740993\}/);
  });

  it("[CA-50] come back beside a key toJSON, which is one as any other", async () => {
    const uuid = randomUUID();
    const odd = '{"toJSON":1,"big":12345678901234567890}';
    const properties = `{"toJSON":"j","a":[${odd}],"big":9007199254740993,"$set":${odd}}`;
    const payload = `{"api_key":"${token}","event":"odd","distinct_id":"odd","uuid":"${uuid}","properties":${properties}}`;
    await send({ method: "POST", url: "/e/", payload });
    expect((await read(`events/${uuid}`)).text).toContain(properties.slice(0, -1));
    expect((await read("events?distinct_id=odd")).text).toContain(properties.slice(0, -1));
    expect((await read("persons?distinct_id=odd")).text).toContain(odd.slice(1, -1));
  });

  it("[CA-50] come through in any document, with the order of its keys", async () => {
    const number = fc.oneof(
      fc.bigInt({ min: -(10n ** 40n), max: 10n ** 40n }).map(String),
      fc.double({ noNaN: true, noDefaultInfinity: true }).map((one) => JSON.stringify(one)),
    );
    const key = fc.string({ unit: "grapheme", minLength: 1 }).map((text) => `k${text}`);
    const { value } = fc.letrec<{ value: string }>((tie) => ({
      value: fc.oneof(
        { depthSize: "small" },
        number,
        fc.string({ unit: "grapheme" }).map((text) => JSON.stringify(text)),
        fc.array(tie("value"), { maxLength: 4 }).map((list) => `[${list}]`),
        fc
          .uniqueArray(fc.tuple(key, tie("value")), { selector: ([name]) => name, maxLength: 4 })
          .map((list) => `{${list.map(([name, text]) => `${JSON.stringify(name)}:${text}`)}}`),
      ),
    }));
    const documents = fc.sample(value, 60).map((text) => ({ uuid: randomUUID(), text }));
    const events = documents.map(
      ({ uuid, text }) =>
        `{"event":"any","distinct_id":"ann","uuid":"${uuid}","properties":{"$ip":"","k":${text},"z":1}}`,
    );
    await send({
      method: "POST",
      url: "/e/",
      payload: `{"api_key":"${token}","batch":[${events}]}`,
    });
    for (const { uuid, text } of documents) {
      expect((await read(`events/${uuid}`)).text).toContain(
        `"properties":{"$ip":"","k":${text},"z":1`,
      );
    }
  });

  it("[CA-50] can be searched for by all their digits", async () => {
    const send20 = (last: number) =>
      `{"event":"order","distinct_id":"ann","properties":{"order":1234567890123456789${last}}}`;
    const payload = `{"api_key":"${token}","batch":[${[1, 2, 3].map(send20)}]}`;
    await send({ method: "POST", url: "/e/", payload });
    const count = async (operator: string, value: string) => {
      const filter = `[{"key":"order","operator":"${operator}","value":${value}}]`;
      return (await read(`events?event=order&properties=${encodeURIComponent(filter)}`)).body
        .results.length;
    };
    expect(await count("exact", "12345678901234567892")).toBe(1);
    expect(await count("exact", '"12345678901234567892"')).toBe(1);
    expect(await count("is_not", "12345678901234567892")).toBe(2);
    expect(await count("gt", "12345678901234500000")).toBe(3);
    expect(await count("gt", "12345678901234600000")).toBe(0);
  });
});

/** A reader of live events over a real connection. */
async function follow(query = "") {
  const { port } = service.app.server.address() as AddressInfo;
  const response = await new Promise<IncomingMessage>((resolve, reject) => {
    const request = get(
      {
        port,
        host: "127.0.0.1",
        path: `/api/projects/${projectId}/live_events?${query}`,
        headers: { authorization: `Bearer ${key}` },
        agent: false,
      },
      resolve,
    );
    request.on("error", reject);
  });
  let text = "";
  response.setEncoding("utf8");
  const ended = new Promise<void>((resolve) => {
    response.on("close", resolve);
    response.on("error", () => resolve());
  });
  const reader = {
    response,
    ended,
    read: () => {
      response.on("data", (chunk: string) => {
        text += chunk;
      });
      response.resume();
    },
    text: () => text,
    events: () =>
      [...text.matchAll(/^data: (\{"uuid".*\})$/gm)].map(([, json]) => JSON.parse(json ?? "")),
  };
  followed.push(reader);
  return reader;
}
const followed: { response: IncomingMessage; ended: Promise<void> }[] = [];

describe("live events", () => {
  afterEach(async () => {
    for (const { response, ended } of followed.splice(0)) {
      response.destroy();
      await ended;
    }
  });

  it("[LV-1] come as they are stored, by event and distinct id where asked", async () => {
    const [all, some] = [await follow(), await follow("event=paid&distinct_id=bob")];
    all.read();
    some.read();
    expect(all.response.headers["content-type"]).toMatch(/^text\/event-stream/);
    const events = [
      visit(),
      visit({ event: "paid" }),
      visit({ event: "paid", distinct_id: "bob", properties: { text: "a\nb" } }),
    ];
    await post(events);
    await expect.poll(() => all.events().length).toBe(3);
    expect(all.events().map(({ uuid }) => uuid)).toEqual(events.map(({ uuid }) => uuid));
    expect(some.events()).toMatchObject([
      { uuid: events[2]?.uuid, event: "paid", distinct_id: "bob", properties: { text: "a\nb" } },
    ]);
  });

  it("[LV-2] have a bounded number of readers, and readers that leave make room", async () => {
    const readers = [];
    for (let index = 0; index < MAX_READERS; index++) readers.push(await follow());
    const refused = await follow();
    expect([refused.response.statusCode, refused.response.headers["retry-after"]]).toEqual([
      429,
      "5",
    ]);
    readers[0]?.response.destroy();
    await expect
      .poll(async () => {
        const next = await follow();
        const { statusCode } = next.response;
        return statusCode;
      })
      .toBe(200);
  });

  it("[LV-3] skip events for a reader that does not read, and tell how many", async () => {
    const slow = await follow();
    slow.response.pause();
    const text = "x".repeat(500_000);
    const count = 40;
    for (let index = 0; index < count; index += 4) {
      await post(Array.from({ length: 4 }, () => visit({ properties: { text } })));
    }
    const last = visit();
    await post([last]);
    expect((await receipt(last.uuid)).body.outcome).toBe("stored");
    slow.read();
    const missed = () => [...slow.text().matchAll(/^event: dropped\ndata: \{"count":(\d+)\}$/gm)];
    await expect.poll(() => missed().length).toBeGreaterThan(0);
    await expect
      .poll(
        () => slow.events().length + missed().reduce((sum, [, number]) => sum + Number(number), 0),
      )
      .toBe(count + 1);
  });

  it("[LV-4] end with the server, also for a reader that does not read", async () => {
    const [reading, stuck] = [await follow(), await follow()];
    reading.read();
    stuck.response.pause();
    await post([visit({ properties: { text: "x".repeat(1_500_000) } })]);
    await expect.poll(() => reading.events().length).toBe(1);
    await service.close();
    await reading.ended;
    service = await composeService(config, pino({ level: "silent" }));
  });
});

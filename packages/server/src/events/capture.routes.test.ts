import { randomUUID } from "node:crypto";
import { gzipSync } from "node:zlib";
import fc from "fast-check";
import lzString from "lz-string";
import { afterAll, beforeAll, beforeEach, describe, expect, it } from "vitest";
import { ANONYMOUS_TOKEN, ARRIVAL, openCaptureApi, PROXY, TOKEN } from "./capture-api.setup.ts";

const MEGABYTE = 1024 * 1024;
const ORIGIN = "https://shop.example";
const FOUR_FIELDS = ["attr", "code", "detail", "type"];

type Api = Awaited<ReturnType<typeof openCaptureApi>>;

describe("capture over HTTP", () => {
  let api: Api;
  beforeAll(async () => {
    api = await openCaptureApi();
  });
  afterAll(() => api.close());
  beforeEach(async () => {
    await api.captured();
  });

  const post = (url: string, payload: unknown, headers: Record<string, string> = {}) =>
    api.send({
      method: "POST",
      url,
      headers: { "content-type": "application/json", ...headers },
      payload:
        typeof payload === "string" || Buffer.isBuffer(payload) ? payload : JSON.stringify(payload),
    });
  const event = (fields: object = {}) => ({ event: "visit", distinct_id: "ann", ...fields });
  const single = (fields: object = {}) => ({ api_key: TOKEN, ...event(fields) });
  const batch = (...events: unknown[]) => ({ api_key: TOKEN, batch: events });
  const namesCaptured = async () => (await api.captured()).map((captured) => captured.event);

  describe("[CA-30] every path", () => {
    const paths = [
      "/capture",
      "/e",
      "/track",
      "/engage",
      "/batch",
      "/i/v0/e",
      "/i/v0/ai",
      "/i/v0/ai/batch",
    ].flatMap((path) => [path, `${path}/`]);

    it.each(paths)("%s takes one event, a list, a batch and a GET, and preflights", async (url) => {
      const data = Buffer.from(JSON.stringify(single({ event: "got" }))).toString("base64");
      const answers = [
        await post(url, single({ event: "one" })),
        await post(url, [{ ...event({ event: "listed" }), token: TOKEN }]),
        await post(url, batch(event({ event: "batched" }))),
        await api.send({ method: "GET", url: `${url}?data=${encodeURIComponent(data)}&ip=1` }),
      ];
      for (const { status, body } of answers) expect([status, body]).toEqual([200, { status: 1 }]);
      expect(await namesCaptured()).toEqual(["one", "listed", "batched", "got"]);
      const preflight = await api.send({
        method: "OPTIONS",
        url,
        headers: { origin: ORIGIN, "access-control-request-headers": "x-tracing, content-type" },
      });
      expect(preflight.status).toBe(200);
      expect(preflight.headers).toMatchObject({
        "access-control-allow-origin": ORIGIN,
        "access-control-allow-headers": "x-tracing, content-type",
      });
    });

    it.each(["PUT", "PATCH", "DELETE"] as const)("answers %s with 405", async (method) => {
      const { status, headers, body } = await api.send({ method, url: "/e/" });
      expect(status).toBe(405);
      expect(headers.allow).toContain("POST");
      expect(body.code).toBe("method_not_allowed");
    });
  });

  it("[CA-31] beacons get 204 without a body", async () => {
    const { status, body } = await post("/e/?beacon=1", single(), { "content-type": "text/plain" });
    expect([status, body]).toEqual([204, undefined]);
    expect(await namesCaptured()).toEqual(["visit"]);
  });

  it("[CA-32] an engage request without a name identifies", async () => {
    const sent = { token: TOKEN, $distinct_id: "ann", $set: { plan: "pro" } };
    expect((await post("/engage/", sent)).status).toBe(200);
    const [captured] = await api.captured();
    expect(captured).toMatchObject({
      event: "$identify",
      distinctId: "ann",
      properties: { $set: { plan: "pro" } },
    });
  });

  it("[TP-7] senders do not say how deep transformations captured an event", async () => {
    const properties = { a: 1, $transformation_hops: 3 };
    await post("/e/", single({ properties }));
    await post("/batch/", batch(event({ properties }), event({ properties: { a: 2 } })));
    const captured = await api.captured();
    expect(captured.map((one) => one.properties.a)).toEqual([1, 1, 2]);
    for (const one of captured) expect(one.properties).not.toHaveProperty("$transformation_hops");
  });

  it("[CA-33] recordings are taken and forgotten, after their key is checked", async () => {
    const recording = { event: "$snapshot", distinct_id: "ann", properties: { token: TOKEN } };
    for (const url of ["/s", "/s/", "/s/?compression=gzip-js"]) {
      const body = url.includes("gzip") ? gzipSync(JSON.stringify([recording])) : [recording];
      expect(await post(url, body)).toMatchObject({ status: 200, body: { status: 1 } });
    }
    expect((await post("/s/?beacon=1", recording)).status).toBe(204);
    expect((await post("/s/", event())).body.code).toBe("missing_api_key");
    expect((await post("/s/", { ...event(), token: "phc_wrong" })).status).toBe(401);
    expect((await post("/e/", single({ event: "$snapshot" }))).body).toEqual({ status: 1 });
    expect(await api.captured()).toEqual([]);
  });

  describe("[CA-34] the key", () => {
    it.each<[string, unknown, string]>([
      ["is missing", event(), "missing_api_key"],
      ["is missing from every event", [event(), event()], "missing_api_key"],
      ["is empty", { ...event(), api_key: "" }, "invalid_api_key"],
      ["is unknown", { ...event(), api_key: "phc_unknown" }, "invalid_api_key"],
      ["is a number", { ...event(), api_key: 5 }, "invalid_api_key"],
      ["is an object", { ...event(), api_key: { __proto__: null } }, "invalid_api_key"],
      ["is too long", { ...event(), api_key: "p".repeat(65) }, "invalid_api_key"],
      ["is not ASCII", { ...event(), api_key: "phc_ß" }, "invalid_api_key"],
      ["has a NUL character", { ...event(), api_key: "phc_\0" }, "invalid_api_key"],
      ["is a personal one", { ...event(), api_key: "phx_personal" }, "personal_api_key"],
      [
        "differs between events",
        [
          { ...event(), token: TOKEN },
          { ...event(), token: ANONYMOUS_TOKEN },
        ],
        "invalid_api_key",
      ],
    ])("is refused when it %s", async (_title, payload, code) => {
      for (const url of ["/e/", "/batch", "/i/v0/e/"]) {
        const { status, headers, body } = await post(url, payload, { origin: ORIGIN });
        expect([status, body.type, body.code]).toEqual([401, "authentication_error", code]);
        expect(Object.keys(body).toSorted()).toEqual(FOUR_FIELDS);
        expect(headers["access-control-allow-origin"]).toBe(ORIGIN);
      }
      expect(await api.captured()).toEqual([]);
    });

    it("says so when a personal key stands in its place", async () => {
      const { body } = await post("/e/", { ...event(), api_key: "phx_personal" });
      expect(body.detail).toContain("personal API key");
      expect(body.detail).not.toContain("phx_personal");
    });

    it("may stand in the form, in the query, in an event or its properties", async () => {
      const data = encodeURIComponent(JSON.stringify(event()));
      const form = { "content-type": "application/x-www-form-urlencoded" };
      const answers = [
        await post("/e/", `data=${data}&api_key=${TOKEN}`, form),
        await post("/e/", `data=${data}&token=${TOKEN}`, form),
        await post(`/e/?api_key=${TOKEN}`, event()),
        await post(`/e/?token=${TOKEN}`, event()),
        await post("/e/", [event({ $token: TOKEN }), event()]),
        await post("/e/", [event({ properties: { token: TOKEN } })]),
      ];
      expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 200));
    });
  });

  describe("[CA-35] what is no capture request", () => {
    it.each<[string, string | Buffer, string, string | null]>([
      ["nothing", "", "no_data", null],
      ["null", "null", "no_data", null],
      ["an empty list", "[]", "no_data", null],
      ["an empty batch", JSON.stringify(batch()), "no_data", null],
      ["a number", "5", "invalid_payload", null],
      ["text", '"hello"', "invalid_payload", null],
      ["half an object", '{"event":', "invalid_payload", null],
      ["the word undefined", "undefined", "invalid_payload", null],
      [
        "cut-off gzip",
        gzipSync(JSON.stringify(single())).subarray(0, -20),
        "invalid_payload",
        null,
      ],
      ["deep nesting", "[".repeat(100_000), "invalid_payload", null],
      [
        "a batch that is no list",
        JSON.stringify({ api_key: TOKEN, batch: {} }),
        "invalid_payload",
        "batch",
      ],
      [
        "an unreadable sent_at",
        JSON.stringify({ ...batch(event()), sent_at: "soon" }),
        "invalid_payload",
        "sent_at",
      ],
    ])("is refused: %s", async (_title, body, code, attr) => {
      const answer = await post("/e/?compression=gzip-js", body, { origin: ORIGIN });
      expect([answer.status, answer.body.code, answer.body.attr]).toEqual([400, code, attr]);
      expect(answer.body.type).toBe("validation_error");
      expect(Object.keys(answer.body).toSorted()).toEqual(FOUR_FIELDS);
      expect(answer.headers["access-control-allow-origin"]).toBe(ORIGIN);
      expect(await api.captured()).toEqual([]);
    });
  });

  describe("[CA-36] a single bad event", () => {
    it.each<[string, object, string, string]>([
      ["no name", { event: undefined }, "event", "must have the event field"],
      ["a name that is a number", { event: 5 }, "event", "must be a string"],
      ["a blank name", { event: " " }, "event", "should not be blank"],
      ["no person", { distinct_id: undefined }, "distinct_id", "must have the event field"],
      ["null for a person", { distinct_id: null }, "distinct_id", "must have the event field"],
      ["an empty person", { distinct_id: "" }, "distinct_id", "should not be blank"],
      ["a blank person", { distinct_id: "   " }, "distinct_id", "should not be blank"],
      ["a uuid that is none", { uuid: "not-a-uuid" }, "uuid", "not a valid UUID"],
      ["an unreadable time", { timestamp: "yesterday" }, "timestamp", "not an ISO 8601"],
      ["a time that is a number", { timestamp: 1700000000 }, "timestamp", "not an ISO 8601"],
      ["properties that are text", { properties: "a" }, "properties", "must be a JSON object"],
      ["properties that are a list", { properties: [1] }, "properties", "must be a JSON object"],
    ])("is refused: %s", async (_title, fields, attr, detail) => {
      const { status, body } = await post("/capture/", single(fields));
      expect([status, body.type, body.code]).toEqual([400, "validation_error", "invalid_payload"]);
      expect(body.attr).toBe(attr);
      expect(body.detail).toMatch(/^Invalid payload: /);
      expect(body.detail).toContain(`"${attr}"`.replace('"properties"', ""));
      expect(body.detail).toContain(detail);
      expect(await api.captured()).toEqual([]);
    });
  });

  describe("[CA-37] a batch with bad events", () => {
    it("stores the good ones and names the others", async () => {
      const uuid = randomUUID();
      const { status, body } = await post(
        "/batch/",
        batch(event({ event: "first" }), { distinct_id: "x", uuid }, event({ event: "third" }), 5),
      );
      expect(status).toBe(200);
      expect(body).toEqual({
        status: 1,
        rejected: [
          { index: 1, uuid, code: "missing_event", detail: expect.stringContaining('"event"') },
          { index: 3, code: "not_an_object", detail: expect.stringContaining("JSON object") },
        ],
      });
      expect(await namesCaptured()).toEqual(["first", "third"]);
    });

    it("is refused when none is good, naming the first field at fault", async () => {
      const { status, body } = await post("/batch/", batch({ event: "a" }, 5));
      expect([status, body.code, body.attr]).toEqual([
        400,
        "invalid_payload",
        "batch__0__distinct_id",
      ]);
      expect(body.detail).toContain("and 1 more");
      expect(Object.keys(body).toSorted()).toEqual(FOUR_FIELDS);
    });

    it("counts what was refused and changed", async () => {
      await post("/batch/", batch(event({ distinct_id: "x".repeat(300) }), { event: "a" }));
      const text = await api.metrics.metrics();
      expect(text).toMatch(/hedgerow_rejected_events_total{code="missing_distinct_id"} [1-9]/);
      expect(text).toMatch(/hedgerow_capture_warnings_total{warning="distinct_id_truncated"} 1/);
      expect(text).toMatch(/hedgerow_captured_events_total [1-9]/);
    });
  });

  describe("[CA-38] size", () => {
    const big = (bytes: number) => event({ properties: { text: "a".repeat(bytes) } });

    it("refuses an event over 2 MiB, naming the limit", async () => {
      for (const payload of [{ api_key: TOKEN, ...big(2 * MEGABYTE) }, batch(big(2 * MEGABYTE))]) {
        const { status, body } = await post("/e/", payload);
        expect([status, body.type, body.code]).toEqual([413, "client_error", "request_too_large"]);
        expect(body.detail).toContain(String(2 * MEGABYTE));
      }
    });

    it("counts bytes, not characters", async () => {
      const fits = event({ properties: { text: "ß".repeat(0.9 * MEGABYTE) } });
      const tooLarge = event({ properties: { text: "ß".repeat(1.1 * MEGABYTE) } });
      const { body } = await post("/batch/", batch(fits, tooLarge));
      expect(body.rejected).toMatchObject([{ index: 1, code: "event_too_large" }]);
    });

    it("refuses bodies over 20 MiB as sent and as decoded, naming the limit", async () => {
      const events = Array.from({ length: 21 }, () => big(MEGABYTE));
      const plain = await post("/batch/", batch(...events));
      const zipped = await post("/batch/", gzipSync(JSON.stringify(batch(...events))));
      for (const { status, body } of [plain, zipped]) {
        expect([status, body.code]).toEqual([413, "request_too_large"]);
        expect(body.detail).toContain(String(20 * MEGABYTE));
      }
      expect(await api.captured()).toEqual([]);
    });

    it("takes an event of 10,000 properties", async () => {
      const properties = Object.fromEntries(
        Array.from({ length: 10_000 }, (_, index) => [`p${index}`, index]),
      );
      expect((await post("/e/", single({ properties }))).status).toBe(200);
      const [captured] = await api.captured();
      expect(captured?.properties).toMatchObject({ p0: 0, p9999: 9999 });
    });
  });

  describe("[CA-39] the address", () => {
    const from = (
      remoteAddress: string,
      { payload, headers }: { payload?: object; headers?: Record<string, string> } = {},
    ) =>
      api.send({
        method: "POST",
        url: "/e/",
        remoteAddress,
        headers: { "content-type": "application/json", ...headers },
        payload: payload ?? single(),
      });
    const addressOf = async () => (await api.captured())[0]?.properties.$ip;

    it("is the peer's", async () => {
      await from("198.51.100.7");
      expect(await addressOf()).toBe("198.51.100.7");
    });

    it("is what the event says where it says one", async () => {
      await from("198.51.100.7", { payload: single({ properties: { $ip: "192.0.2.1" } }) });
      expect(await addressOf()).toBe("192.0.2.1");
    });

    it("is forwarded by trusted proxies only", async () => {
      const headers = { "x-forwarded-for": "203.0.113.9" };
      await from("198.51.100.7", { headers });
      expect(await addressOf()).toBe("198.51.100.7");
      await from(PROXY, { headers });
      expect(await addressOf()).toBe("203.0.113.9");
    });

    it("is not kept where the project anonymizes, whoever says it", async () => {
      const payload = { ...event({ properties: { $ip: "192.0.2.1" } }), token: ANONYMOUS_TOKEN };
      await from("198.51.100.7", { payload });
      const [captured] = await api.captured();
      expect(captured?.properties).toEqual({});
    });
  });

  describe("[CA-40] when it was sent", () => {
    const hourLateMs = ARRIVAL.getTime() - 3_600_000;
    const hourLate = new Date(hourLateMs).toISOString();
    const timestamp = new Date(hourLateMs - 5000).toISOString();
    const corrected = new Date(ARRIVAL.getTime() - 5000);
    const data = encodeURIComponent(JSON.stringify(single({ timestamp })));

    it.each<[string, string, unknown]>([
      ["in the body", "/batch/", { ...batch(event({ timestamp })), sent_at: hourLate }],
      ["beside a single event", "/e/", single({ timestamp, sent_at: hourLate })],
      ["in the query as _", `/e/?_=${hourLateMs}`, single({ timestamp })],
      ["in the query as sent_at", `/e/?sent_at=${hourLateMs}`, single({ timestamp })],
      ["in the form", "/e/", `data=${data}&sent_at=${encodeURIComponent(hourLate)}`],
    ])("stands %s and tells how wrong the client's clock is", async (_title, url, payload) => {
      expect((await post(url, payload)).status).toBe(200);
      const [captured] = await api.captured();
      expect(captured).toMatchObject({
        timestamp: corrected,
        clientTimestamp: new Date(timestamp),
        receivedAt: ARRIVAL,
      });
    });
  });

  describe("what people reported", () => {
    it("[CA-41] gzip without a label, JSON labelled gzip, and all four encodings give one result (UR-53, UR-55)", async () => {
      const text = JSON.stringify(single({ properties: { text: "ß🦔>>>???" } }));
      const base64 = Buffer.from(text).toString("base64");
      const form = { "content-type": "application/x-www-form-urlencoded" };
      const bodies: [string, string | Buffer, Record<string, string>?][] = [
        ["/e/", text],
        ["/e/", gzipSync(text), { "content-type": "text/plain" }],
        ["/e/?compression=gzip", gzipSync(text)],
        ["/e/?compression=gzip-js", gzipSync(text), { "content-type": "text/plain" }],
        ["/e/", gzipSync(text), { "content-encoding": "gzip" }],
        ["/e/?compression=gzip-js", text],
        ["/e/?compression=lz64", lzString.compressToBase64(text)],
        ["/e/?compression=base64", `data=${encodeURIComponent(base64)}`, form],
        ["/e/", `data=${encodeURIComponent(base64)}&compression=base64`, form],
      ];
      for (const [url, body, headers] of bodies) {
        expect((await post(url, body, headers)).body).toEqual({ status: 1 });
      }
      const captured = await api.captured();
      expect(captured.map(({ properties }) => properties.text)).toEqual(
        bodies.map(() => "ß🦔>>>???"),
      );
    });

    it("[CA-41] beacons as plain text and as form data (UR-56)", async () => {
      const text = JSON.stringify(single());
      const plain = { "content-type": "text/plain" };
      expect((await post("/e/?beacon=1", text, plain)).status).toBe(204);
      const data = `data=${encodeURIComponent(Buffer.from(text).toString("base64"))}`;
      expect((await post("/e/?beacon=1&compression=base64", data, plain)).status).toBe(204);
      expect((await api.captured()).length).toBe(2);
    });

    it("[CA-37] nonsense in a batch is told at once, by index and field (UR-58, UR-65)", async () => {
      const { status, body } = await post(
        "/batch/",
        batch(
          event({ event: undefined }),
          event({ event: 5 }),
          event({ uuid: "x" }),
          event({ timestamp: "someday" }),
          event(),
        ),
      );
      expect(status).toBe(200);
      const rejected: { index: number; code: string; detail: string }[] = body.rejected;
      expect(rejected.map(({ index, code }) => [index, code])).toEqual([
        [0, "missing_event"],
        [1, "invalid_event"],
        [2, "invalid_uuid"],
        [3, "invalid_timestamp"],
      ]);
      for (const [at, field] of ["event", "event", "uuid", "timestamp"].entries()) {
        expect(rejected[at]?.detail).toContain(`"${field}"`);
      }
      expect((await api.captured()).length).toBe(1);
    });

    it("[CA-42] one rule for ids on every path (UR-59)", async () => {
      const ids: [unknown, string][] = [
        [5, "5"],
        [{ a: 1 }, '{"a":1}'],
        [true, "true"],
        ["x".repeat(250), "x".repeat(200)],
        ["🦔".repeat(250), "🦔".repeat(200)],
      ];
      for (const url of ["/capture/", "/e/", "/batch/", "/track/", "/engage/", "/i/v0/e/"]) {
        const sent = ids.map(([distinct_id]) => event({ distinct_id }));
        expect((await post(url, batch(...sent))).body).toEqual({ status: 1 });
        const inside = { event: "visit", properties: { distinct_id: "inside" } };
        expect((await post(url, { api_key: TOKEN, ...inside })).status).toBe(200);
        const captured = await api.captured();
        expect(captured.map(({ distinctId }) => distinctId)).toEqual([
          ...ids.map(([, text]) => text),
          "inside",
        ]);
        for (const blank of [null, "", "   "]) {
          expect((await post(url, single({ distinct_id: blank }))).status).toBe(400);
        }
      }
    });

    it("[CA-43] slow delivery is no wrong clock (UR-70)", async () => {
      const at = (secondsBefore: number) =>
        new Date(ARRIVAL.getTime() - secondsBefore * 1000).toISOString();
      await post("/batch/", { ...batch(event({ timestamp: at(32) })), sent_at: at(32) });
      await post("/batch/", { ...batch(event({ timestamp: at(22) })), sent_at: at(1) });
      const times = (await api.captured()).map(({ timestamp }) => timestamp.toISOString());
      expect(times).toEqual([at(32), at(22)]);
    });

    it("[CA-43] clocks a month ahead are set right by sent_at, or count as the arrival (UR-71)", async () => {
      const ahead = new Date(ARRIVAL.getTime() + 30 * 86_400_000).toISOString();
      await post("/batch/", { ...batch(event({ timestamp: ahead })), sent_at: ahead });
      await post("/batch/", batch(event({ timestamp: ahead })));
      const captured = await api.captured();
      expect(captured.map(({ timestamp }) => timestamp)).toEqual([ARRIVAL, ARRIVAL]);
      expect(captured[1]?.clientTimestamp).toEqual(new Date(ahead));
    });

    it("[CA-44] 200 captures at once are all taken (UR-67)", async () => {
      const uuids = Array.from({ length: 200 }, () => randomUUID());
      const answers = await Promise.all(uuids.map((uuid) => post("/e/", single({ uuid }))));
      expect(answers.map(({ status }) => status)).toEqual(uuids.map(() => 200));
      const captured = await api.captured();
      expect(captured.map(({ uuid }) => uuid).toSorted()).toEqual(uuids.toSorted());
    });
  });

  it("[CA-45] keys like __proto__ are data", async () => {
    const text = `{"api_key":"${TOKEN}","event":"a","distinct_id":"b","__proto__":{"event":"x"},"properties":{"__proto__":{"a":1},"constructor":2,"toString":null}}`;
    expect((await post("/e/", text)).status).toBe(200);
    const [captured] = await api.captured();
    const own = Object.entries(captured?.properties ?? {}).filter(([name]) => name !== "$ip");
    expect(own).toEqual([
      ["__proto__", { a: 1 }],
      ["constructor", 2],
      ["toString", null],
    ]);
    expect((await post("/e/", `{"__proto__":{"api_key":"${TOKEN}","event":"a"}}`)).status).toBe(
      401,
    );
  });

  it("[CA-46] a flag request that follows the answer waits for its person", async () => {
    await post("/e/", single({ distinct_id: "waited-for", properties: { $set: { a: 1 } } }));
    const waiting = api.pendingPersons.settled(1, { distinctIds: ["waited-for"] });
    expect(waiting).toBeInstanceOf(Promise);
    await api.pendingPersons.settled(1, { distinctIds: ["another"] });
    api.pendingPersons.applied(await api.log.end());
    await waiting;
  });

  it("[CA-47] any JSON on any path is taken or refused in the documented form", async () => {
    const field = fc.oneof(
      fc.constantFrom("event", "distinct_id", "properties", "uuid", "timestamp", "batch", "$set"),
      fc.string(),
    );
    const shaped = fc.dictionary(field, fc.jsonValue({ maxDepth: 3 }));
    const payload = fc.oneof(
      fc.jsonValue(),
      shaped.map((fields) => ({ ...fields, api_key: TOKEN })),
      fc.array(fc.oneof(shaped, fc.jsonValue())).map((events) => batch(...events)),
    );
    const url = fc.constantFrom("/e/", "/batch/", "/engage/", "/s/");
    await fc.assert(
      fc.asyncProperty(url, payload, async (path, value) => {
        const { status, body } = await post(path, value);
        if (status === 200) {
          expect(body.status).toBe(1);
          expect(body).not.toHaveProperty("error");
        } else {
          expect([400, 401]).toContain(status);
          expect(Object.keys(body).toSorted()).toEqual(FOUR_FIELDS);
        }
      }),
      { numRuns: 300 },
    );
  });
});

describe("capture on a full disk", () => {
  it("[CA-48] answers 503 with Retry-After, and takes events again once there is room", async () => {
    const api = await openCaptureApi({ maxLogBytes: MEGABYTE });
    const capture = () =>
      api.send({
        method: "POST",
        url: "/e/",
        headers: { origin: ORIGIN },
        payload: {
          api_key: TOKEN,
          event: "visit",
          distinct_id: "ann",
          properties: { text: "x".repeat(100_000) },
        },
      });
    let answer = await capture();
    let taken = 0;
    while (answer.status === 200) {
      taken++;
      answer = await capture();
    }
    expect([answer.status, answer.body.type, answer.body.code]).toEqual([
      503,
      "server_error",
      "unavailable",
    ]);
    expect(Number(answer.headers["retry-after"])).toBeGreaterThan(0);
    expect(answer.headers["access-control-allow-origin"]).toBe(ORIGIN);
    expect((await api.captured()).length).toBe(taken);
    await api.log.release(await api.log.end());
    expect((await capture()).status).toBe(200);
    await api.close();
  });
});

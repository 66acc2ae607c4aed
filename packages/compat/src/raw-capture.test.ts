import { randomUUID } from "node:crypto";
import { gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { ENCODINGS } from "./encodings.ts";
import { eventually } from "./eventually.ts";
import { type Management, openManagement, personIs, type Wire, where } from "./management.ts";
import { postJson, send } from "./raw-http.ts";
import {
  PERSONAL_KEY,
  PROJECT_KEY,
  type ServerUnderTest,
  serveTests,
} from "./server-under-test.ts";

let server: ServerUnderTest;
let management: Management;

serveTests(async (started) => {
  server = started;
  management = openManagement(server);
  await management.createFlag("gold-only", where(personIs("tier", "exact", ["gold"])));
});

/** An event of a person nobody else has. */
function event(fields: Wire = {}): Wire & { distinct_id: string; event: string } {
  return { event: "bought", distinct_id: randomUUID(), properties: { price: 12.5 }, ...fields };
}

async function isGold(distinctId: string): Promise<unknown> {
  const request = { api_key: PROJECT_KEY, distinct_id: distinctId };
  const { body } = await postJson(server, "/decide?v=3", request);
  return (body.featureFlags as Wire)["gold-only"];
}

describe("every way in", () => {
  const ROUTES = ["/capture/", "/e/", "/i/v0/e/", "/track/", "/engage/", "/batch/"];

  test("[CP-24] the request of the interface document is stored", async () => {
    const distinctId = randomUUID();
    const { status, body } = await postJson(server, "/capture/", {
      api_key: PROJECT_KEY,
      event: "purchase",
      distinct_id: distinctId,
      properties: { "$feature/new-checkout": "test" },
    });
    expect(status).toBe(200);
    expect(body).toMatchObject({ status: 1 });
    expect(body).not.toHaveProperty("error");
    const [stored] = await management.eventsArrived({ distinct_id: distinctId });
    expect(stored).toMatchObject({
      event: "purchase",
      properties: { "$feature/new-checkout": "test" },
    });
  });

  test.each(ROUTES)(
    "[CP-24] %s takes one event, a list and a batch, with and without a slash",
    async (route) => {
      const events = Array.from({ length: 6 }, () => event());
      const [single, ...more] = events;
      const answers = [
        await postJson(server, route, { api_key: PROJECT_KEY, ...single }),
        await postJson(server, route.slice(0, -1), { token: PROJECT_KEY, ...more[0] }),
        await postJson(server, route, [
          { ...more[1], token: PROJECT_KEY },
          { ...more[2], properties: { token: PROJECT_KEY } },
        ]),
        await postJson(server, route, {
          api_key: PROJECT_KEY,
          sent_at: new Date().toISOString(),
          batch: [more[3], more[4]],
        }),
      ];
      for (const { status, body } of answers) {
        expect({ status, body }).toMatchObject({ status: 200, body: { status: 1 } });
      }
      for (const { distinct_id } of events) {
        expect(await management.eventsArrived({ distinct_id })).toHaveLength(1);
      }
    },
  );

  test("[CP-24] events come by GET, and beacons get an empty answer", async () => {
    const sent = event();
    const data = Buffer.from(JSON.stringify({ ...sent, token: PROJECT_KEY })).toString("base64");
    const query = new URLSearchParams({ data, ip: "1", _: String(Date.now()), ver: "1.130.2" });
    const got = await send(server, { method: "GET", path: `/e/?${query}` });
    expect(got.status).toBe(200);
    expect(await management.eventsArrived({ distinct_id: sent.distinct_id })).toHaveLength(1);

    const beaconed = event();
    const beacon = await send(server, {
      path: "/e/?beacon=1",
      headers: { "content-type": "text/plain" },
      body: JSON.stringify({ ...beaconed, api_key: PROJECT_KEY }),
    });
    expect([beacon.status, beacon.text]).toEqual([204, ""]);
    expect(await management.eventsArrived({ distinct_id: beaconed.distinct_id })).toHaveLength(1);
  });

  test("[CP-24] recordings are taken and dropped", async () => {
    const distinctId = randomUUID();
    const { status } = await postJson(server, "/s/?compression=gzip-js", {
      api_key: PROJECT_KEY,
      event: "$snapshot",
      distinct_id: distinctId,
      properties: { $snapshot_data: [] },
    });
    expect(status).toBe(200);
    expect(await management.events({ distinct_id: distinctId })).toEqual([]);
  });

  test("[CP-24] an engage request without an event identifies", async () => {
    const distinctId = randomUUID();
    const { status } = await postJson(server, "/engage/", {
      api_key: PROJECT_KEY,
      $distinct_id: distinctId,
      $set: { tier: "gold" },
    });
    expect(status).toBe(200);
    expect(await isGold(distinctId)).toBe(true);
    const [stored] = await management.eventsArrived({ distinct_id: distinctId });
    expect(stored?.event).toBe("$identify");
  });
});

describe("encodings", () => {
  test.each(ENCODINGS)("[CP-22] capture and batch read $name", async ({ encode }) => {
    const single = event({ properties: { text: "ü>>>???🛒", nested: { list: [1, "a", null] } } });
    const batched = [event(), event({ properties: { text: "ß" } })];
    const answers = [
      await send(server, encode("/e/", { api_key: PROJECT_KEY, ...single })),
      await send(server, encode("/batch/", { api_key: PROJECT_KEY, batch: batched })),
    ];
    expect(answers.map(({ status, text }) => [status, text])).toEqual([
      [200, expect.stringContaining('"status":1')],
      [200, expect.stringContaining('"status":1')],
    ]);
    for (const sent of [single, ...batched]) {
      const [stored] = await management.eventsArrived({ distinct_id: sent.distinct_id });
      expect(stored).toMatchObject({ event: sent.event, properties: sent.properties });
    }
  });
});

describe("ids and times", () => {
  test("[CP-25] one uuid is one event, also when it is sent twice in a batch", async () => {
    const sent = event({ uuid: randomUUID() });
    for (let round = 0; round < 3; round++) {
      const { status } = await postJson(server, "/capture/", { api_key: PROJECT_KEY, ...sent });
      expect(status).toBe(200);
    }
    await postJson(server, "/batch/", { api_key: PROJECT_KEY, batch: [sent, sent] });
    const after = event({ distinct_id: sent.distinct_id, event: "after" });
    await postJson(server, "/capture/", { api_key: PROJECT_KEY, ...after });
    await management.eventsArrived({ distinct_id: sent.distinct_id, event: "after" });
    const stored = await management.events({ distinct_id: sent.distinct_id, event: "bought" });
    expect(stored.map(({ id }) => id)).toEqual([sent.uuid]);
  });

  test("[CP-25] numbers are ids too, and ids are found in the properties", async () => {
    const number = Math.floor(Math.random() * 1e12);
    await postJson(server, "/capture/", { api_key: PROJECT_KEY, event: "a", distinct_id: number });
    expect(await management.eventsArrived({ distinct_id: String(number) })).toHaveLength(1);
    const inside = randomUUID();
    await postJson(server, "/capture/", {
      api_key: PROJECT_KEY,
      event: "a",
      properties: { distinct_id: inside },
    });
    expect(await management.eventsArrived({ distinct_id: inside })).toHaveLength(1);
  });

  test("[CP-26] a time is kept, a wrong clock is set right, a time ahead becomes the arrival", async () => {
    const dayMs = 86_400_000;
    const iso = (offsetMs: number) => new Date(Date.now() + offsetMs).toISOString();
    const storedTime = async (fields: Wire, envelope: Wire = {}) => {
      const sent = event(fields);
      await postJson(server, "/batch/", { api_key: PROJECT_KEY, batch: [sent], ...envelope });
      const [stored] = await management.eventsArrived({ distinct_id: sent.distinct_id });
      return Date.parse(stored?.timestamp ?? "");
    };
    const exact = "2024-02-29T12:34:56.789Z";
    expect(await storedTime({ timestamp: exact })).toBe(Date.parse(exact));
    expect(await storedTime({ timestamp: exact }, { sent_at: iso(-30_000) })).toBe(
      Date.parse(exact),
    );
    const near = async (time: Promise<number>, expectedMs: number) =>
      expect(Math.abs((await time) - expectedMs)).toBeLessThan(10_000);
    await near(storedTime({}), Date.now());
    await near(storedTime({ offset: 60_000 }), Date.now() - 60_000);
    await near(storedTime({ timestamp: iso(30 * dayMs) }), Date.now());
    await near(
      storedTime({ timestamp: iso(30 * dayMs - 5_000) }, { sent_at: iso(30 * dayMs) }),
      Date.now() - 5_000,
    );
    await near(
      storedTime({ timestamp: iso(-2 * dayMs - 5_000) }, { sent_at: iso(-2 * dayMs) }),
      Date.now() - 5_000,
    );
  });
});

describe("persons and groups", () => {
  const capture = (fields: Wire) =>
    postJson(server, "/capture/", { api_key: PROJECT_KEY, ...event(fields) });

  test("[CP-3] $set, $set_once and $unset work at the top and among properties", async () => {
    const distinct_id = randomUUID();
    await capture({ distinct_id, $set_once: { tier: "silver" } });
    expect(await isGold(distinct_id)).toBe(false);
    await capture({ distinct_id, properties: { $set_once: { tier: "gold" } } });
    expect(await isGold(distinct_id)).toBe(false);
    await capture({ distinct_id, properties: { $set: { tier: "gold" } } });
    expect(await isGold(distinct_id)).toBe(true);
    await capture({ distinct_id, properties: { $unset: ["tier"] } });
    expect(await isGold(distinct_id)).toBe(false);
    await capture({ distinct_id, $set: { tier: "gold" } });
    expect(await isGold(distinct_id)).toBe(true);
  });

  test("[CP-3] of 100 captures and questions at once, each question sees its capture", async () => {
    const answers = await Promise.all(
      Array.from({ length: 100 }, async () => {
        const distinct_id = randomUUID();
        const { status } = await capture({ distinct_id, $set: { tier: "gold" } });
        return [status, await isGold(distinct_id)];
      }),
    );
    expect(answers).toEqual(answers.map(() => [200, true]));
  });

  test("[CP-4] identify merges the visitor into the user, once", async () => {
    const [visitor, user, other] = [randomUUID(), randomUUID(), randomUUID()];
    await capture({ distinct_id: visitor, $set: { tier: "gold" } });
    await capture({
      event: "$identify",
      distinct_id: user,
      properties: { $anon_distinct_id: visitor },
    });
    expect(await isGold(user)).toBe(true);
    // An identified person is not given away to another one that is known already.
    await capture({ distinct_id: other });
    await capture({
      event: "$identify",
      distinct_id: other,
      properties: { $anon_distinct_id: user },
    });
    expect(await isGold(other)).toBe(false);
    const [first] = await management.eventsArrived({ distinct_id: visitor });
    const [last] = await management.eventsArrived({ distinct_id: user });
    await eventually("one person for both ids", async () => {
      const [again] = await management.events({ distinct_id: visitor });
      return again?.person?.uuid === last?.person?.uuid;
    });
    expect(first?.id).toBeDefined();
  });
});

describe("refusals", () => {
  const single: readonly (readonly [string, Wire, number, Wire])[] = [
    ["no key", {}, 401, { type: "authentication_error", code: "missing_api_key" }],
    [
      "an unknown key",
      { api_key: "phc_unknown000000" },
      401,
      { type: "authentication_error", code: "invalid_api_key" },
    ],
    [
      "a personal key",
      { api_key: PERSONAL_KEY },
      401,
      { type: "authentication_error", detail: expect.stringContaining("personal") },
    ],
    [
      "no name",
      { api_key: PROJECT_KEY, event: undefined },
      400,
      { attr: expect.stringContaining("event") },
    ],
    [
      "a name that is a number",
      { api_key: PROJECT_KEY, event: 5 },
      400,
      { attr: expect.stringContaining("event") },
    ],
    [
      "no person",
      { api_key: PROJECT_KEY, distinct_id: undefined },
      400,
      { attr: expect.stringContaining("distinct_id") },
    ],
    [
      "a blank person",
      { api_key: PROJECT_KEY, distinct_id: "   " },
      400,
      { attr: expect.stringContaining("distinct_id") },
    ],
    [
      "a uuid that is none",
      { api_key: PROJECT_KEY, uuid: "5" },
      400,
      { attr: expect.stringContaining("uuid") },
    ],
    [
      "properties that are a list",
      { api_key: PROJECT_KEY, properties: [1] },
      400,
      { attr: expect.stringContaining("properties") },
    ],
  ];
  test.each(single)("[CP-9] %s", async (_name, fields, status, expected) => {
    for (const path of ["/capture/", "/e/"]) {
      const answer = await postJson(server, path, event(fields), {
        origin: "https://shop.example",
      });
      expect(answer).toMatchObject({ status, body: expected });
      expect(Object.keys(answer.body).sort()).toEqual(["attr", "code", "detail", "type"]);
      expect(answer.headers["access-control-allow-origin"]).toBe("https://shop.example");
    }
  });

  test("[CP-27] the good events of a batch are stored, the others named", async () => {
    const [first, third] = [event(), event()];
    const { status, body } = await postJson(server, "/batch/", {
      api_key: PROJECT_KEY,
      batch: [first, { distinct_id: "x", properties: {} }, third, 5],
    });
    expect(status).toBe(200);
    expect(body).toMatchObject({
      status: 1,
      rejected: [
        { index: 1, code: expect.any(String), detail: expect.any(String) },
        { index: 3, code: expect.any(String), detail: expect.any(String) },
      ],
    });
    expect(body).not.toHaveProperty("error");
    for (const { distinct_id } of [first, third]) {
      expect(await management.eventsArrived({ distinct_id })).toHaveLength(1);
    }
    const none = await postJson(server, "/batch/", { api_key: PROJECT_KEY, batch: [{}, 5] });
    expect(none).toMatchObject({ status: 400, body: { type: "validation_error" } });
  });

  test("[CP-9] bodies nobody can read, and cut-off ones", async () => {
    const text = JSON.stringify({ api_key: PROJECT_KEY, ...event() });
    const bodies: (string | Uint8Array)[] = [
      "",
      "{",
      "undefined",
      gzipSync(text).subarray(0, -20),
      "[".repeat(100_000),
      `${'{"a":'.repeat(5_000)}1${"}".repeat(5_000)}`,
    ];
    for (const body of bodies) {
      for (const path of ["/capture/", "/e/?compression=gzip-js", "/batch/"]) {
        const answer = await send(server, { path, body });
        const { status, text: answered } = answer;
        expect([path, String(body.slice(0, 12)), status < 500 && status >= 400]).toEqual([
          path,
          String(body.slice(0, 12)),
          true,
        ]);
        expect(Object.keys(JSON.parse(answered)).sort()).toEqual([
          "attr",
          "code",
          "detail",
          "type",
        ]);
      }
    }
  });

  test("[CP-28] what is too large is refused by its decoded size", async () => {
    const megabyte = 1024 * 1024;
    const big = (megabytes: number) =>
      event({ properties: { text: "a".repeat(megabytes * megabyte) } });
    const tooLarge = async (path: string, body: string | Uint8Array) => {
      const answer = await send(server, {
        path,
        headers: { "content-type": "application/json" },
        body,
      });
      expect(answer.status).toBe(413);
      expect(JSON.parse(answer.text)).toMatchObject({ code: "request_too_large" });
    };
    await tooLarge("/capture/", JSON.stringify({ api_key: PROJECT_KEY, ...big(2.1) }));
    await tooLarge("/batch/", JSON.stringify({ api_key: PROJECT_KEY, ...big(21) }));
    await tooLarge("/batch/", gzipSync(Buffer.alloc(60 * megabyte, " ")));

    // The refusal arrives although the client is still sending: SDKs split a batch only when told to.
    const body21 = JSON.stringify({ api_key: PROJECT_KEY, batch: [big(21)] });
    for (let attempt = 0; attempt < 3; attempt++) {
      const answer = await fetch(`${server.url}/batch/`, { method: "POST", body: body21 });
      expect(answer.status).toBe(413);
      expect(((await answer.json()) as Wire).detail).toMatch(/\d{2,}/);
    }

    const [small, fits] = [event(), big(1.5)];
    const { status, body } = await postJson(server, "/batch/", {
      api_key: PROJECT_KEY,
      batch: [small, big(2.1), fits],
    });
    expect({ status, body }).toMatchObject({ status: 200, body: { rejected: [{ index: 1 }] } });
    for (const { distinct_id } of [small, fits]) {
      expect(await management.eventsArrived({ distinct_id })).toHaveLength(1);
    }
  });

  test("[CP-23] methods that capture does not know are refused with what is allowed", async () => {
    for (const path of ["/capture/", "/e", "/batch/", "/i/v0/e/"]) {
      for (const method of ["PUT", "PATCH", "DELETE"]) {
        const answer = await send(server, {
          method,
          path,
          headers: { origin: "https://a.example" },
        });
        expect([path, method, answer.status]).toEqual([path, method, 405]);
        expect(answer.headers.allow).toContain("POST");
        expect(answer.headers["access-control-allow-origin"]).toBe("https://a.example");
        expect(JSON.parse(answer.text).code).toBe("method_not_allowed");
      }
    }
  });
});

describe("stored events", () => {
  test("[CP-29] are found by name, person, time and properties, page by page", async () => {
    const distinct_id = randomUUID();
    const at = (second: number) => `2024-03-01T10:00:0${second}.000Z`;
    const batch = Array.from({ length: 6 }, (_, index) =>
      event({
        distinct_id,
        event: index % 2 ? "odd" : "even",
        timestamp: at(index),
        properties: { index, colour: index < 3 ? "red" : "blue" },
      }),
    );
    await postJson(server, "/batch/", { api_key: PROJECT_KEY, batch });
    await management.eventsArrived({ distinct_id }, 6);
    const indexes = async (query: Record<string, string>) =>
      (await management.events({ distinct_id, ...query })).map(
        ({ properties }) => properties.index,
      );
    expect(await indexes({})).toEqual([5, 4, 3, 2, 1, 0]);
    expect(await indexes({ event: "odd" })).toEqual([5, 3, 1]);
    expect(await indexes({ after: at(1), before: at(4) })).toEqual([3, 2]);
    expect(await indexes({ limit: "2" })).toEqual([5, 4]);
    const properties = JSON.stringify([
      { key: "colour", operator: "exact", value: ["red"], type: "event" },
    ]);
    expect(await indexes({ properties })).toEqual([2, 1, 0]);
    const [one] = await management.events({ distinct_id });
    expect(await indexes({ person_id: one?.person?.uuid ?? "" })).toHaveLength(6);
    expect(await management.events({ person_id: randomUUID() })).toEqual([]);
  });
});

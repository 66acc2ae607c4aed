import { connect } from "node:net";
import { brotliCompressSync, constants, gzipSync } from "node:zlib";
import { createSha1Bucketing } from "@hedgerow/core/flags/bucketing";
import { afterAll, beforeAll, describe, expect, it } from "vitest";
import { openDecideApi, TOKEN } from "./decide-api.setup.ts";

type Api = Awaited<ReturnType<typeof openDecideApi>>;

const everyone = { groups: [{ properties: [], rollout_percentage: 100 }] };
const nobody = { groups: [{ properties: [], rollout_percentage: 0 }] };
const whenPlan = (plan: string) => ({
  groups: [
    {
      properties: [{ key: "plan", type: "person", operator: "exact", value: [plan] }],
      rollout_percentage: 100,
    },
  ],
});
const inCountry = (code: string) => ({
  groups: [
    {
      properties: [
        { key: "$geoip_country_code", type: "person", operator: "exact", value: [code] },
      ],
      rollout_percentage: 100,
    },
  ],
});

describe("answers of many flags", () => {
  const MANY = 300;
  let api: Api;
  let url: string;
  beforeAll(async () => {
    api = await openDecideApi();
    for (let n = 0; n < MANY; n++) {
      const filters = {
        groups: [{ properties: [], rollout_percentage: 50 }],
        payloads: { true: n % 3 === 0 ? '"žluť 🌱"' : "{}" },
      };
      await api.createFlag(`flag-${n}`, filters, {
        name: n % 2 === 0 ? "Flag für \u2028 alle" : "",
      });
    }
    url = await api.app.listen({ port: 0, host: "127.0.0.1" });
  });
  afterAll(() => api.close());

  /** With its length told, the front door answers; in chunks, the framework. */
  const ask = async (
    distinctId: string,
    { flagKeys, inChunks = false }: { flagKeys?: string[]; inChunks?: boolean } = {},
  ) => {
    const text = JSON.stringify({ token: TOKEN, distinct_id: distinctId, flag_keys: flagKeys });
    const body = inChunks ? new Blob([text]).stream() : text;
    const sent: RequestInit & { duplex: "half" } = { method: "POST", body, duplex: "half" };
    const response = await fetch(`${url}/flags?v=2`, sent);
    const { flags } = (await response.json()) as { flags: Record<string, unknown> };
    expect(Number(response.headers.get("content-length"))).toBeGreaterThan(0);
    return flags;
  };

  it("[DC-1] say of each flag what an answer of that flag alone says", async () => {
    const all = await ask("someone");
    expect(Object.keys(all)).toHaveLength(MANY);
    for (let n = 0; n < MANY; n += 7) {
      const key = `flag-${n}`;
      expect(await ask("someone", { flagKeys: [key] })).toEqual({ [key]: all[key] });
    }
    expect(await ask("someone", { inChunks: true })).toEqual(all);
  });

  it("[DC-15] that are written at the same time do not get into one another", async () => {
    const people = Array.from({ length: 12 }, (_, n) => `person-${n}`);
    const alone = new Map<string, unknown>();
    for (const person of people) alone.set(person, await ask(person));
    expect(alone.get("person-0")).not.toEqual(alone.get("person-1"));
    for (let round = 0; round < 3; round++) {
      const together = await Promise.all(
        people.map((person, n) => ask(person, { inChunks: n % 3 === round })),
      );
      for (const [n, person] of people.entries()) expect(together[n]).toEqual(alone.get(person));
    }
  });
});

describe("answers of many flags to a client that reads slowly", () => {
  it("[DC-15] are whole and its own, though others are answered meanwhile", async () => {
    const api = await openDecideApi();
    try {
      const name = "n".repeat(2_000);
      for (let n = 0; n < 220; n++) {
        const filters = { groups: [{ properties: [], rollout_percentage: 50 }] };
        await api.createFlag(`flag-${n}`, filters, { name });
      }
      const url = await api.app.listen({ port: 0, host: "127.0.0.1" });
      const bodyOf = (person: string) => JSON.stringify({ token: TOKEN, distinct_id: person });
      const flagsIn = (text: string) => (JSON.parse(text) as { flags: unknown }).flags;
      const ask = async (person: string) => {
        const body = bodyOf(person);
        return flagsIn(await (await fetch(`${url}/flags?v=2`, { method: "POST", body })).text());
      };
      const people = ["a", "b", "c", "d", "e", "f", "g", "h"];
      const alone = [];
      for (const person of people) alone.push(await ask(person));
      const socket = connect(Number(new URL(url).port), "127.0.0.1");
      socket.setEncoding("latin1");
      socket.pause();
      for (const [at, person] of people.entries()) {
        const body = bodyOf(person);
        const end = at === people.length - 1 ? "Connection: close\r\n" : "";
        socket.write(
          `POST /flags?v=2 HTTP/1.1\r\nHost: x\r\nContent-Length: ${body.length}\r\n${end}\r\n${body}`,
        );
      }
      // Meanwhile others get theirs, from the same memory wherever that is free.
      for (let round = 0; round < 5; round++) {
        const others = await Promise.all(people.map(ask));
        expect(others).toEqual(alone);
      }
      let text = "";
      socket.on("data", (chunk: string) => {
        text += chunk;
      });
      socket.resume();
      await new Promise((resolve) => socket.once("close", resolve));
      const answers = text.split(/HTTP\/1\.1 200 OK\r\n(?:[^\r\n]+\r\n)+\r\n/).slice(1);
      expect(answers.map(flagsIn)).toEqual(alone);
    } finally {
      await api.close();
    }
  });
});

describe("answers about a person", () => {
  let api: Api;
  beforeAll(async () => {
    api = await openDecideApi();
    await api.createFlag("pro-only", whenPlan("pro"));
  });
  afterAll(() => api.close());

  it("[DC-17] are never taken for unchanged: they follow what the request says of the person", async () => {
    for (const url of ["/flags?v=2", "/decide?v=4"]) {
      const ask = (plan: string, headers: Record<string, string> = {}) =>
        api.ask({ distinct_id: "u", person_properties: { plan } }, { url, headers });
      const first = await ask("free");
      expect([first.statusCode, first.headers.etag]).toEqual([200, undefined]);
      expect(first.json().flags["pro-only"].enabled).toBe(false);
      for (const tag of ["*", '"1"', 'W/"1"']) {
        const second = await ask("pro", { "if-none-match": tag });
        expect([second.statusCode, second.headers.etag]).toEqual([200, undefined]);
        expect(second.json().flags["pro-only"].enabled).toBe(true);
      }
    }
  });

  it("[FE-15] come soon whatever patterns flags have, and other flags as ever", async () => {
    const pattern = (value: string) => ({
      groups: [{ properties: [{ key: "text", type: "person", operator: "regex", value }] }],
    });
    for (const [at, value] of ["^(a+)+$", "^(a|a)*c", "(?=a*a*a*a*b)a", "(a*)*\\1$"].entries()) {
      await api.createFlag(`slow-${at}`, pattern(value));
    }
    const before = process.cpuUsage();
    const text = `${"a".repeat(50_000)}!`;
    const answer = await api.ask({ distinct_id: "u", person_properties: { plan: "pro", text } });
    expect(process.cpuUsage(before).user / 1_000).toBeLessThan(5_000);
    expect(answer.json().flags).toMatchObject({
      "pro-only": { enabled: true },
      "slow-0": { enabled: false },
    });
  });
});

describe("the shapes of flag answers", () => {
  let api: Api;
  beforeAll(async () => {
    api = await openDecideApi();
    await api.createFlag("on", { ...everyone, payloads: { true: '{"a":1}' } });
    await api.createFlag("off", nobody);
    await api.createFlag("split", {
      ...everyone,
      multivariate: { variants: [{ key: "test", rollout_percentage: 100 }] },
      payloads: { test: '"text"' },
    });
  });
  afterAll(() => api.close());

  const decide = async (v: string) =>
    (await api.ask({ distinct_id: "u" }, { url: `/decide${v}` })).json();

  it("[DC-1] version 1, also when absent, lists the keys of flags that are on", async () => {
    for (const v of ["", "?v=1", "/?v=1"]) {
      expect((await decide(v)).featureFlags).toEqual(["on", "split"]);
    }
  });

  it("[DC-1] version 2 maps flags that are on, version 3 all of them with payloads", async () => {
    expect((await decide("?v=2")).featureFlags).toEqual({ on: true, split: "test" });
    expect(await decide("?v=3")).toMatchObject({
      featureFlags: { on: true, off: false, split: "test" },
      featureFlagPayloads: { on: '{"a":1}', split: '"text"' },
    });
    expect((await decide("?v=3")).featureFlagPayloads).not.toHaveProperty("off");
  });

  it("[DC-1] version 4, and any version nobody knows, describes each flag", async () => {
    for (const v of ["?v=4", "?v=99", "?v=x"]) {
      const answer = await decide(v);
      expect(answer).not.toHaveProperty("featureFlags");
      expect(answer.flags.split).toEqual({
        key: "split",
        enabled: true,
        variant: "test",
        reason: {
          code: "condition_match",
          condition_index: 0,
          description: "Matched condition set 1",
        },
        metadata: {
          id: expect.any(Number),
          version: 1,
          description: "",
          payload: '"text"',
          has_experiment: false,
        },
      });
      expect(answer.flags.off).toMatchObject({
        enabled: false,
        variant: null,
        reason: { code: "out_of_rollout_bound", condition_index: 0 },
      });
    }
  });

  it("[DC-2] decide carries the client settings and both spellings of the error field", async () => {
    expect(await decide("?v=3")).toMatchObject({
      config: { enable_collect_everything: true },
      toolbarParams: {},
      isAuthenticated: false,
      supportedCompression: ["gzip", "gzip-js", "lz64", "base64"],
      errorsWhileComputingFlags: false,
      errorComputingFlags: false,
      requestId: expect.stringMatching(/^[0-9a-f-]{36}$/),
    });
  });

  it("[DC-3] /flags answers version 2 unless asked for 1, with settings when asked or when nothing was", async () => {
    const flags = async (query: string) =>
      (await api.ask({ distinct_id: "u" }, { url: `/flags/${query}` })).json();
    expect(await flags("?v=1")).toMatchObject({ featureFlags: { on: true, off: false } });
    expect(await flags("?v=2")).toHaveProperty("flags.on");
    expect(await flags("?v=2")).not.toHaveProperty("supportedCompression");
    expect(await flags("?v=2&config=true")).toHaveProperty("supportedCompression");
    expect(await flags("?v=1&v=2&config=0&config=true")).toHaveProperty("supportedCompression");
    expect(await flags("")).toHaveProperty("supportedCompression");
    expect(await flags("")).toHaveProperty("flags.on");
  });

  it("[DC-3] decide and flags give the same decisions", async () => {
    const { flags: ofDecide } = await decide("?v=4");
    const { flags: ofFlags } = (await api.ask({ distinct_id: "u" })).json();
    expect(ofFlags).toEqual(ofDecide);
  });

  it("[DC-4] disable_flags needs no distinct id and gives no flags", async () => {
    const answer = (await api.ask({ disable_flags: true }, { url: "/decide?v=3" })).json();
    expect(answer).toMatchObject({ featureFlags: {}, errorsWhileComputingFlags: false });
    expect(answer).toHaveProperty("config");
  });

  it("[DC-4] flag_keys, in both spellings, limits the answer", async () => {
    for (const name of ["flag_keys", "flag_keys_to_evaluate"]) {
      const { flags } = (await api.ask({ distinct_id: "u", [name]: ["on"] })).json();
      expect(Object.keys(flags)).toEqual(["on"]);
    }
  });

  it.each([
    ["token in the query", `/decide?v=3&token=${TOKEN}`, { distinct_id: "u" }],
    ["api_key", "/decide?v=3", { api_key: TOKEN, distinct_id: "u" }],
    ["$token and $distinct_id", "/decide?v=3", { $token: TOKEN, $distinct_id: "u" }],
    ["properties.token", "/decide?v=3", { properties: { token: TOKEN }, distinct_id: "u" }],
    ["a number as id", "/decide?v=3", { token: TOKEN, distinct_id: 5 }],
    ["an empty id", "/decide?v=3", { token: TOKEN, distinct_id: "" }],
    ["a list", "/decide?v=3", [{ token: TOKEN, distinct_id: "u" }]],
  ])("[DC-5] reads %s", async (_what, url, body) => {
    const response = await api.app.inject({ method: "POST", url, payload: JSON.stringify(body) });
    expect(response.json()).toMatchObject({ featureFlags: { on: true } });
  });

  it("[DC-5] reads a form with base64, and gzip that nobody labelled", async () => {
    const body = JSON.stringify({ token: TOKEN, distinct_id: "u" });
    const form = await api.app.inject({
      method: "POST",
      url: "/decide?v=3&compression=base64",
      headers: { "content-type": "application/x-www-form-urlencoded" },
      payload: `data=${encodeURIComponent(Buffer.from(body).toString("base64"))}`,
    });
    expect(form.json()).toMatchObject({ featureFlags: { on: true } });
    const zipped = await api.app.inject({
      method: "POST",
      url: "/flags?v=2",
      headers: { "content-type": "text/plain" },
      payload: gzipSync(body),
    });
    expect(zipped.json()).toHaveProperty("flags.on");
  });

  it("[DE-9] reads bodies that are long once they are open, and refuses those that are too long", async () => {
    const send = (text: string) =>
      api.app.inject({
        method: "POST",
        url: "/flags?v=2",
        headers: { "content-encoding": "br" },
        payload: brotliCompressSync(text, { params: { [constants.BROTLI_PARAM_QUALITY]: 1 } }),
      });
    const properties = { list: Array.from({ length: 50_000 }, (_, index) => `item ${index}`) };
    const body = JSON.stringify({ token: TOKEN, distinct_id: "u", person_properties: properties });
    expect((await send(body)).json()).toHaveProperty("flags.on");
    const cutOff = await send(body.slice(0, -9));
    expect([cutOff.statusCode, cutOff.json().code]).toEqual([400, "malformed_data"]);
    const tooLong = await send(" ".repeat(21 * 2 ** 20));
    expect([tooLong.statusCode, tooLong.json().code]).toEqual([413, "request_too_large"]);
  });

  it.each([
    [{ distinct_id: "u" }, 401, "missing_api_key", null],
    [{ token: "phc_unknown", distinct_id: "u" }, 401, "invalid_api_key", null],
    [{ token: "phx_personal", distinct_id: "u" }, 401, "personal_api_key", null],
    [{ token: TOKEN }, 400, "missing_distinct_id", null],
    [{ token: TOKEN, distinct_id: {} }, 400, "invalid_input", "distinct_id"],
    [{ token: TOKEN, distinct_id: "u", groups: [1] }, 400, "invalid_input", "groups"],
    [
      { token: TOKEN, distinct_id: "u", person_properties: "x" },
      400,
      "invalid_input",
      "person_properties",
    ],
    [
      { token: TOKEN, distinct_id: "u", group_properties: { company: 1 } },
      400,
      "invalid_input",
      "group_properties__company",
    ],
    [{ token: TOKEN, distinct_id: "u", flag_keys: "on" }, 400, "invalid_input", "flag_keys"],
  ])("[DC-6] answers %j with %i %s", async (body, status, code, attr) => {
    for (const url of ["/decide?v=3", "/flags?v=2"]) {
      const response = await api.app.inject({
        method: "POST",
        url,
        headers: { origin: "https://example.com" },
        payload: JSON.stringify(body),
      });
      expect(response.statusCode).toBe(status);
      expect(response.json()).toEqual({
        type: status === 401 ? "authentication_error" : "validation_error",
        code,
        detail: expect.any(String),
        attr,
      });
      expect(response.headers["access-control-allow-origin"]).toBe("https://example.com");
    }
  });

  it.each([
    ["half an object", "{"],
    ["control characters", "\u0000\u0001"],
    ["a number", "12"],
    ["a text", '"text"'],
    ["endless nesting", "[".repeat(5000)],
  ])("[DC-6] answers a body of %s with a 4xx of four fields", async (_what, payload) => {
    const response = await api.app.inject({ method: "POST", url: "/decide?v=3", payload });
    expect(response.statusCode).toBeGreaterThanOrEqual(400);
    expect(response.statusCode).toBeLessThan(500);
    expect(Object.keys(response.json()).sort()).toEqual(["attr", "code", "detail", "type"]);
  });

  it.each(["GET", "PUT", "DELETE", "PATCH"] as const)(
    "[DC-7] refuses %s with Allow and CORS headers",
    async (method) => {
      for (const url of ["/decide", "/decide/?v=3", "/flags"]) {
        const response = await api.app.inject({ method, url, headers: { origin: "https://a.b" } });
        expect(response.statusCode).toBe(405);
        expect(response.headers.allow).toBe("POST, OPTIONS");
        expect(response.headers["access-control-allow-origin"]).toBe("https://a.b");
        expect(response.json()).toEqual({
          type: "invalid_request",
          code: "method_not_allowed",
          detail: `Method "${method}" not allowed.`,
          attr: null,
        });
      }
    },
  );

  it.each(["groups", "group_properties"])(
    "[DC-18] takes a thousand of %s, and refuses more by name",
    async (field) => {
      const ask = (count: number) => {
        const types = Array.from({ length: count }, (_, n) => [`type ${n}`, {}]);
        const body = { token: TOKEN, distinct_id: "u", [field]: Object.fromEntries(types) };
        return api.app.inject({ method: "POST", url: "/flags?v=2", payload: JSON.stringify(body) });
      };
      expect((await ask(1000)).statusCode).toBe(200);
      const refused = await ask(1001);
      expect(refused.statusCode).toBe(400);
      expect(refused.json()).toMatchObject({ code: "invalid_input", attr: field });
    },
  );

  it("[DC-7] allows whatever header a preflight asks for", async () => {
    const response = await api.app.inject({
      method: "OPTIONS",
      url: "/decide/?v=3",
      headers: {
        origin: "https://a.b",
        "access-control-request-method": "POST",
        "access-control-request-headers": "baggage, x-any-name",
      },
    });
    expect(response.statusCode).toBe(200);
    expect(response.headers["access-control-allow-headers"]).toBe("baggage, x-any-name");
    expect(response.headers["access-control-allow-methods"]).toContain("POST");
  });
});

describe("what flag requests read", () => {
  let api: Api;
  beforeAll(async () => {
    api = await openDecideApi();
    await api.createFlag("pro", whenPlan("pro"));
    await api.createFlag("british", inCountry("GB"));
    await api.createFlag("french", inCountry("FR"));
    await api.createFlag("plain", everyone);
  });
  afterAll(() => api.close());

  const valuesOf = async (body: object, headers: Record<string, string> = {}) =>
    (await api.ask(body, { url: "/decide?v=3", headers })).json().featureFlags;

  it("[DC-8] a request sees the properties of every capture acknowledged before it", async () => {
    const entry = api.event("$set", "fresh", { $set: { plan: "pro" } });
    api.pendingPersons.add([entry]);
    const asked = valuesOf({ distinct_id: "fresh" });
    await api.persons.applyEvents([entry]);
    api.pendingPersons.applied(entry.position);
    expect(await asked).toMatchObject({ pro: true });
  });

  it("[DC-8] whichever id of a person the capture and the request come by", async () => {
    const linkTo = (id: string, other: string) =>
      api.event("$identify", id, { $anon_distinct_id: other });
    await api.persons.applyEvents([linkTo("stored", "stored-too"), linkTo("linked", "linked-too")]);
    const pending = [
      api.event("$set", "stored-too", { $set: { plan: "pro" } }),
      linkTo("linked-too", "linked-now"),
      api.event("$set", "linked-now", { $set: { plan: "pro" } }),
    ];
    api.pendingPersons.add(pending);
    const asked = ["stored", "linked"].map((id) => valuesOf({ distinct_id: id }));
    await new Promise((resolve) => setTimeout(resolve, 20));
    await api.persons.applyEvents(pending);
    api.pendingPersons.applied(pending.at(-1)?.position ?? 0);
    for (const values of await Promise.all(asked)) expect(values).toMatchObject({ pro: true });
  });

  it("[DC-8] a type of group that nobody knew before the capture counts as well", async () => {
    await api.createFlag("for-planets", {
      aggregation_group_type_index: 4,
      groups: [
        {
          properties: [
            { key: "size", type: "group", group_type_index: 4, operator: "exact", value: ["big"] },
          ],
          rollout_percentage: 100,
        },
      ],
    });
    const entries = ["moon", "star", "comet", "ring", "planet"].map((type) =>
      api.event("$groupidentify", "anybody", {
        ...{ $group_type: type, $group_key: "jupiter" },
        $group_set: { size: "big" },
      }),
    );
    api.pendingPersons.add(entries);
    const asked = valuesOf({ distinct_id: "eve", groups: { planet: "jupiter" } });
    await new Promise((resolve) => setTimeout(resolve, 20));
    await api.persons.applyEvents(entries);
    api.pendingPersons.applied(entries.at(-1)?.position ?? 0);
    expect(await asked).toMatchObject({ "for-planets": true });
  });

  it("[DC-9] properties sent win over stored ones, for known and new names", async () => {
    await api.persons.applyEvents([api.event("$set", "ada", { $set: { plan: "free" } })]);
    expect(await valuesOf({ distinct_id: "ada" })).toMatchObject({ pro: false });
    expect(
      await valuesOf({ distinct_id: "ada", person_properties: { plan: "pro" } }),
    ).toMatchObject({ pro: true });
  });

  it("[DC-10] a place is the one sent, else that of the address, else the stored one", async () => {
    const stored = { $set: { $geoip_country_code: "FR" } };
    await api.persons.applyEvents([api.event("$set", "traveller", stored)]);
    const british = { http_x_forwarded_for: "81.2.69.142" };
    const person = { distinct_id: "traveller" };
    expect(await valuesOf(person)).toMatchObject({ british: false, french: true });
    expect(await valuesOf(person, british)).toMatchObject({ british: true, french: false });
    const sent = { ...person, person_properties: { $geoip_country_code: "FR" } };
    expect(await valuesOf(sent, british)).toMatchObject({ british: false, french: true });
    expect(await valuesOf({ ...person, geoip_disable: true }, british)).toMatchObject({
      french: true,
    });
  });
});

describe("flag requests while a store fails", () => {
  it("[DC-11] lose only the flags that need it: left out of version 3, marked in the newest", async () => {
    const api = await openDecideApi({
      persons: (real) => ({
        ...real,
        factsFor: () => Promise.reject(new Error("the disk is gone")),
      }),
    });
    await api.createFlag("pro", whenPlan("pro"));
    await api.createFlag("plain", everyone);
    const old = (await api.ask({ distinct_id: "u" }, { url: "/decide?v=3" })).json();
    expect(old).toMatchObject({
      featureFlags: { plain: true },
      errorsWhileComputingFlags: true,
      errorComputingFlags: true,
    });
    expect(old.featureFlags).not.toHaveProperty("pro");
    const newest = (await api.ask({ distinct_id: "u" })).json();
    expect(newest.flags.pro).toMatchObject({ enabled: false, failed: true });
    expect(newest.flags.plain).toMatchObject({ enabled: true });
    expect(api.faults.length).toBeGreaterThan(0);
    await api.close();
  });
});

describe("flags of which one cannot be evaluated", () => {
  it("[DC-11] lose only that one, and the fault is reported", async () => {
    const sound = createSha1Bucketing();
    const api = await openDecideApi({
      bucketing: {
        ...sound,
        hash: () => {
          throw new Error("a bug of ours");
        },
      },
    });
    const half = { groups: [{ properties: [], rollout_percentage: 50 }] };
    await api.createFlag("half", half);
    await api.createFlag("plain", everyone);
    const { flags } = (await api.ask({ distinct_id: "u" })).json();
    expect(flags.half).toMatchObject({ enabled: false, failed: true });
    expect(flags.plain).toMatchObject({ enabled: true });
    expect(api.faults).toEqual(["flag half of project 1 could not be evaluated"]);
    await api.close();
  });
});

describe("experience continuity", () => {
  /** With a flag of ten variants, which stay with whoever got one; its variant for a request. */
  const openWithKeptFlag = async () => {
    const api = await openDecideApi();
    const variants = Array.from({ length: 10 }, (_, n) => ({
      key: `v${n}`,
      rollout_percentage: 10,
    }));
    await api.createFlag(
      "kept",
      { ...everyone, multivariate: { variants } },
      { ensureExperienceContinuity: true },
    );
    const variantOf = async (body: object) => (await api.ask(body)).json().flags.kept.variant;
    return { api, variantOf };
  };

  it("[DC-12] keeps the anonymous variant after identification, and for good", async () => {
    const { api, variantOf } = await openWithKeptFlag();
    const before = await variantOf({ distinct_id: "anonymous-1" });
    const known = "user-50";
    await api.persons.applyEvents([api.event("seen", known, {})]);
    const during = { distinct_id: known, $anon_distinct_id: "anonymous-1" };
    expect(await variantOf(during)).toBe(before);
    expect(await variantOf({ distinct_id: known })).toBe(before);
    expect(await variantOf({ distinct_id: known, $anon_distinct_id: "anonymous-2" })).toBe(before);
    await api.close();
  });

  it("[DC-12] keeps what is stored for the anonymous id's person, and stores it where one of two lacks it", async () => {
    const { api, variantOf } = await openWithKeptFlag();
    await api.persons.applyEvents([api.event("seen", "tablet", {})]);
    const first = await variantOf({ distinct_id: "tablet", $anon_distinct_id: "first-id" });
    expect(first).toBe(await variantOf({ distinct_id: "first-id" }));
    expect(first).not.toBe(await variantOf({ distinct_id: "newcomer-3" }));
    const identified = { distinct_id: "newcomer-3", $anon_distinct_id: "tablet" };
    expect(await variantOf(identified)).toBe(first);

    const own = await variantOf({ distinct_id: "newcomer-3" });
    await api.persons.applyEvents([api.event("seen", "newcomer-3", {})]);
    const stored = await variantOf(identified);
    expect(stored).not.toBe(own);
    expect(await variantOf({ distinct_id: "newcomer-3" })).toBe(stored);
    await api.close();
  });
});

describe("flags limited to a runtime", () => {
  it("[DC-13] go by what the request says of itself, else by its headers", async () => {
    const api = await openDecideApi();
    await api.createFlag("server-only", everyone, { evaluationRuntime: "server" });
    await api.createFlag("client-only", everyone, { evaluationRuntime: "client" });
    const keysOf = async (body: object, headers: Record<string, string>) =>
      Object.keys((await api.ask({ distinct_id: "u", ...body }, { headers })).json().flags);
    const browser = { "user-agent": "Mozilla/5.0 (X11)", origin: "https://a.b" };
    expect(await keysOf({}, browser)).toEqual(["client-only"]);
    expect(await keysOf({}, { "user-agent": "posthog-python/6.7" })).toEqual(["server-only"]);
    expect(await keysOf({}, { "user-agent": "unheard-of" })).toEqual([]);
    expect(await keysOf({ evaluation_runtime: "server" }, browser)).toEqual(["server-only"]);
    await api.close();
  });
});

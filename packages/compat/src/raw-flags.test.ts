import { describe, expect, test } from "vitest";
import { ENCODINGS } from "./encodings.ts";
import {
  everyone,
  groupIs,
  type Management,
  openManagement,
  personIs,
  variants,
  type Wire,
  where,
  whereGroup,
} from "./management.ts";
import { postJson, send } from "./raw-http.ts";
import {
  PERSONAL_KEY,
  PROJECT_KEY,
  type ServerUnderTest,
  serveTests,
} from "./server-under-test.ts";

const GEO_PROPERTIES = [
  "$geoip_city_name",
  "$geoip_country_name",
  "$geoip_country_code",
  "$geoip_continent_name",
  "$geoip_continent_code",
  "$geoip_postal_code",
  "$geoip_time_zone",
];
/** An address that geographic databases have long placed in the United States. */
const AMERICAN_ADDRESS = "8.8.8.8";

let server: ServerUnderTest;
let management: Management;

serveTests(async (started) => {
  server = started;
  management = openManagement(server);
  await management.createFlag("on", { ...everyone(), payloads: { true: '{"a":1}' } });
  await management.createFlag("off", everyone(0));
  await management.createFlag(
    "colour",
    variants({ red: 0, green: 100 }, { payloads: { green: '"#0f0"' } }),
  );
  await management.createFlag("gold-only", where(personIs("tier", "exact", ["gold"])));
  await management.createFlag("american", where(personIs("$geoip_country_code", "exact", ["US"])));
  await management.createFlag("not-located", where(personIs("$geoip_country_code", "is_not_set")));
  await management.createFlag("inactive", everyone(100), { active: false });
  await postJson(server, "/capture/", {
    api_key: PROJECT_KEY,
    event: "$groupidentify",
    distinct_id: "setup",
    properties: { $group_type: "company", $group_key: "acme", $group_set: { seats: 50 } },
  });
  await management.createFlag("big-companies", whereGroup(groupIs("seats", "gt", "10")));
});

const EVERYTHING = {
  on: true,
  off: false,
  colour: "green",
  "gold-only": false,
  american: false,
  "not-located": true,
  "big-companies": false,
};

const person = (fields: Wire = {}) => ({ api_key: PROJECT_KEY, distinct_id: "ada", ...fields });

describe("decide as the interface document shows it", () => {
  test("[CP-20] v=3 answers every documented field", async () => {
    const { status, headers, body } = await postJson(
      server,
      "/decide?v=3",
      person({
        groups: { company: "acme" },
        person_properties: { tier: "gold" },
        group_properties: { company: { seats: 11 } },
      }),
    );
    expect(status).toBe(200);
    expect(headers["content-type"]).toMatch(/^application\/json/);
    expect(body).toMatchObject({
      config: { enable_collect_everything: true },
      toolbarParams: {},
      errorComputingFlags: false,
      errorsWhileComputingFlags: false,
      isAuthenticated: false,
      supportedCompression: expect.arrayContaining(["gzip", "lz64", "gzip-js", "base64"]),
      featureFlags: { ...EVERYTHING, "gold-only": true, "big-companies": true },
      featureFlagPayloads: { on: '{"a":1}', colour: '"#0f0"' },
    });
  });

  test("[CP-20] the address of an HTTP_X_FORWARDED_FOR header decides about the place", async () => {
    const valueWith = async (headers: Record<string, string>, fields: Wire = {}) => {
      const { body } = await postJson(server, "/decide?v=3", person(fields), headers);
      return (body.featureFlags as Wire).american;
    };
    expect(await valueWith({})).toBe(false);
    expect(await valueWith({ HTTP_X_FORWARDED_FOR: AMERICAN_ADDRESS })).toBe(true);
    expect(await valueWith({ "X-Forwarded-For": `${AMERICAN_ADDRESS}, 10.0.0.1` })).toBe(true);
    expect(await valueWith({ "X-Forwarded-For": `10.0.0.1, ${AMERICAN_ADDRESS}:443` })).toBe(true);
    expect(
      await valueWith({ HTTP_X_FORWARDED_FOR: AMERICAN_ADDRESS }, { geoip_disable: true }),
    ).toBe(false);
    expect(
      await valueWith(
        { HTTP_X_FORWARDED_FOR: AMERICAN_ADDRESS },
        { person_properties: { $geoip_country_code: "FR" } },
      ),
    ).toBe(false);
  });

  test("[CP-20] each of the seven properties of a place can be targeted", async () => {
    const key = (property: string) => `has-${property.replaceAll(/\W/g, "")}`;
    for (const property of GEO_PROPERTIES) {
      await management.createFlag(key(property), where(personIs(property, "is_set")));
    }
    const { body } = await postJson(server, "/decide?v=3", person(), {
      HTTP_X_FORWARDED_FOR: "128.101.101.101",
    });
    expect(body.featureFlags).toMatchObject(
      Object.fromEntries(GEO_PROPERTIES.map((property) => [key(property), true])),
    );
  });

  test("[CP-20] no event comes of it", async () => {
    await postJson(server, "/decide?v=3", person({ distinct_id: "silent" }));
    expect(await management.events({ distinct_id: "silent" })).toEqual([]);
  });
});

describe("versions", () => {
  test("[CP-21] decide answers 1 to 4 in the shapes of those days", async () => {
    const answer = async (query: string) =>
      (await postJson(server, `/decide/${query}`, person())).body;
    for (const query of ["", "?v=1"]) {
      const { featureFlags, ...rest } = await answer(query);
      expect(featureFlags).toEqual(expect.arrayContaining(["on", "colour"]));
      expect(featureFlags).not.toContain("off");
      expect(rest).not.toHaveProperty("featureFlagPayloads");
    }
    const second = await answer("?v=2");
    expect(second.featureFlags).toMatchObject({ on: true, colour: "green" });
    expect(second.featureFlags).not.toHaveProperty("off");
    const third = await answer("?v=3");
    expect(third.featureFlags).toMatchObject(EVERYTHING);
    for (const query of ["?v=4", "?v=99"]) {
      const { flags, ...rest } = await answer(query);
      expect(rest).not.toHaveProperty("featureFlags");
      expect((flags as Wire).colour).toMatchObject({
        key: "colour",
        enabled: true,
        variant: "green",
        reason: { code: "condition_match", condition_index: 0 },
        metadata: { version: 1, payload: '"#0f0"' },
      });
    }
  });

  test("[CP-21] flags answers with settings only where they are asked for", async () => {
    const answer = async (query: string) =>
      (await postJson(server, `/flags/${query}`, person())).body;
    const plain = await answer("?v=2");
    expect(plain).toMatchObject({
      errorsWhileComputingFlags: false,
      requestId: expect.any(String),
    });
    expect(plain).not.toHaveProperty("supportedCompression");
    expect(await answer("?v=2&config=true")).toHaveProperty("supportedCompression");
    expect(await answer("")).toMatchObject({
      flags: { on: { enabled: true } },
      supportedCompression: expect.any(Array),
    });
    expect(await answer("?v=1")).toMatchObject({ featureFlags: EVERYTHING });
  });

  test("[CP-21] decide and flags decide alike", async () => {
    for (let index = 0; index < 20; index++) {
      const request = person({
        distinct_id: `user-${index}`,
        person_properties: { tier: index % 2 ? "gold" : "silver" },
      });
      const decide = (await postJson(server, "/decide?v=3", request)).body.featureFlags;
      const { flags } = (await postJson(server, "/flags?v=2", request)).body;
      const values = Object.entries(flags as Record<string, Wire>).map(([key, flag]) => [
        key,
        flag.enabled ? (flag.variant ?? true) : false,
      ]);
      expect(Object.fromEntries(values)).toEqual(decide);
    }
  });
});

describe("encodings", () => {
  test.each(ENCODINGS)("[CP-22] decide and flags read $name", async ({ encode }) => {
    const request = person({ distinct_id: "ada>>>ü???", person_properties: { tier: "gold" } });
    const decide = await send(server, encode("/decide/?v=3", request));
    expect({ status: decide.status, ...JSON.parse(decide.text) }).toMatchObject({
      status: 200,
      featureFlags: { "gold-only": true, colour: "green" },
    });
    const flags = await send(server, encode("/flags/?v=2", request));
    expect({ status: flags.status, ...JSON.parse(flags.text) }).toMatchObject({
      status: 200,
      flags: { "gold-only": { enabled: true }, colour: { variant: "green" } },
    });
  });
});

describe("paths and methods", () => {
  test("[CP-23] slashes at the end change nothing and nothing redirects", async () => {
    for (const path of ["/decide", "/decide/", "/flags", "/flags/"]) {
      const { status, body } = await postJson(server, `${path}?v=1`, person());
      expect([path, status, body.errorsWhileComputingFlags]).toEqual([path, 200, false]);
    }
    const headers = { authorization: `Bearer ${PERSONAL_KEY}` };
    for (const path of [
      `/array/${PROJECT_KEY}/config`,
      `/array/${PROJECT_KEY}/config.js`,
      `/array/${PROJECT_KEY}/array.js`,
      "/static/array.js",
      "/static/recorder.js",
      "/static/surveys.js",
      "/static/exception-autocapture.js",
      "/flags/definitions",
      "/api/feature_flag/local_evaluation",
      "/api/projects/@current/feature_flags/local_evaluation",
      "/api/early_access_features",
      "/api/surveys",
      "/api/web_experiments",
      "/_readiness",
      "/_liveness",
      "/metrics",
    ]) {
      for (const slash of ["", "/"]) {
        const url = `${path}${slash}?token=${PROJECT_KEY}`;
        const { status } = await send(server, { method: "GET", path: url, headers });
        expect([url, status]).toEqual([url, 200]);
      }
    }
  });

  test("[CP-23] methods other than POST are refused with what is allowed", async () => {
    for (const path of ["/decide", "/decide/?v=3", "/flags/?v=2"]) {
      for (const method of ["GET", "PUT", "PATCH", "DELETE"]) {
        const answer = await send(server, {
          method,
          path,
          headers: { origin: "https://shop.example" },
        });
        expect(answer.status).toBe(405);
        expect(answer.headers.allow).toBe("POST, OPTIONS");
        expect(answer.headers["access-control-allow-origin"]).toBe("https://shop.example");
        expect(JSON.parse(answer.text)).toEqual({
          type: "invalid_request",
          code: "method_not_allowed",
          detail: `Method "${method}" not allowed.`,
          attr: null,
        });
      }
    }
  });

  test("[CP-18] preflights are allowed whatever they ask for", async () => {
    const asked = "baggage,traceparent,x-nobody-knows-this,content-encoding";
    for (const path of [
      "/decide/?v=3",
      "/flags/?v=2",
      "/e/",
      "/i/v0/e/",
      "/batch/",
      "/capture/",
      "/s/",
      "/engage/",
      "/track/",
      "/flags/definitions",
      `/array/${PROJECT_KEY}/config`,
      "/api/early_access_features/",
      "/api/surveys/",
    ]) {
      const { status, headers } = await send(server, {
        method: "OPTIONS",
        path,
        headers: {
          origin: "https://shop.example",
          "access-control-request-method": "POST",
          "access-control-request-headers": asked,
        },
      });
      expect([path, Math.floor(status / 100)]).toEqual([path, 2]);
      expect(headers["access-control-allow-origin"]).toBe("https://shop.example");
      expect(headers["access-control-allow-credentials"]).toBe("true");
      expect(headers["access-control-allow-headers"]).toBe(asked);
      expect(headers["access-control-allow-methods"]).toContain("POST");
    }
  });
});

describe("refusals", () => {
  const bodies: readonly (readonly [string, Wire, number, Wire])[] = [
    [
      "no key",
      { distinct_id: "a" },
      401,
      { type: "authentication_error", code: "missing_api_key" },
    ],
    [
      "an unknown key",
      { api_key: "phc_unknown000000", distinct_id: "a" },
      401,
      { type: "authentication_error", code: "invalid_api_key" },
    ],
    [
      "a personal key",
      { api_key: PERSONAL_KEY, distinct_id: "a" },
      401,
      { type: "authentication_error", detail: expect.stringContaining("personal") },
    ],
    ["no person", { api_key: PROJECT_KEY }, 400, { code: "missing_distinct_id", attr: null }],
    [
      "a person that is an object",
      { api_key: PROJECT_KEY, distinct_id: {} },
      400,
      { attr: "distinct_id" },
    ],
    ["groups that are a list", person({ groups: ["acme"] }), 400, { attr: "groups" }],
    [
      "properties that are a text",
      person({ person_properties: "tier" }),
      400,
      { attr: "person_properties" },
    ],
    [
      "properties of a group that are a number",
      person({ group_properties: { company: 5 } }),
      400,
      { attr: expect.stringContaining("group_properties") },
    ],
  ];
  test.each(bodies)("[CP-9] %s", async (_name, request, status, expected) => {
    for (const path of ["/decide/?v=3", "/flags/?v=2"]) {
      const answer = await postJson(server, path, request, { origin: "https://shop.example" });
      expect(answer.status).toBe(status);
      expect(answer.body).toEqual({
        type: expect.any(String),
        code: expect.any(String),
        detail: expect.any(String),
        attr: null,
        ...expected,
      });
      expect(answer.headers["access-control-allow-origin"]).toBe("https://shop.example");
    }
  });

  test("[CP-9] bodies nobody can read", async () => {
    const gzip = ENCODINGS.find(({ name }) => name === "gzip nobody names")?.encode("", person());
    const whole = gzip?.body as Uint8Array;
    const bodies: (string | Uint8Array)[] = [
      "{",
      "undefined",
      '{"api_key": }',
      whole.subarray(0, -12),
      Buffer.from([0xff, 0xfe, 0x00, 0x01]),
      "[".repeat(100_000),
    ];
    for (const body of bodies) {
      for (const path of ["/decide/?v=3", "/flags/?v=2"]) {
        const answer = await send(server, { path, body });
        expect([String(body.slice(0, 20)), answer.status]).toEqual([
          String(body.slice(0, 20)),
          400,
        ]);
        expect(JSON.parse(answer.text)).toMatchObject({
          type: "validation_error",
          code: "malformed_data",
        });
      }
    }
    const empty = await send(server, { path: "/decide/?v=3" });
    expect(empty.status).toBe(401);
  });

  test("[CP-9] keys such as __proto__ are just keys", async () => {
    const answer = await send(server, {
      path: "/decide/?v=3",
      body: `{"api_key":"${PROJECT_KEY}","distinct_id":"a","person_properties":{"__proto__":{"tier":"gold"},"constructor":1},"groups":{"__proto__":"x"},"group_properties":{"__proto__":{"seats":99}}}`,
    });
    expect(answer.status).toBe(200);
    expect(JSON.parse(answer.text).featureFlags).toMatchObject({ "gold-only": false, on: true });
  });
});

describe("what browser SDKs load", () => {
  test("[CP-17] the settings of a project, without its secrets", async () => {
    const { status, text } = await send(server, {
      method: "GET",
      path: `/array/${PROJECT_KEY}/config`,
    });
    expect(status).toBe(200);
    expect(JSON.parse(text)).toMatchObject({
      token: PROJECT_KEY,
      hasFeatureFlags: true,
      supportedCompression: expect.arrayContaining(["gzip", "gzip-js", "base64"]),
      sessionRecording: false,
      surveys: false,
      siteApps: [],
    });
    expect(text).not.toContain("phx_");
  });

  test("[CP-17] scripts have their type and can be kept by caches", async () => {
    const first = await send(server, { method: "GET", path: "/static/array.js?v=1.0.0" });
    expect(first.headers["content-type"]).toMatch(/javascript/);
    const etag = first.headers.etag ?? "";
    const again = await send(server, {
      method: "GET",
      path: "/static/array.js?v=1.0.0",
      headers: { "if-none-match": etag },
    });
    expect(again.status).toBe(304);
    for (const path of [
      "/static/..%2f..%2fpackage.json",
      "/static/no-such.js",
      "/array/phc_no/config",
    ]) {
      expect((await send(server, { method: "GET", path })).status).toBe(404);
    }
  });
});

describe("definitions for local evaluation", () => {
  const ask = (path: string, key?: string) =>
    send(server, {
      method: "GET",
      path,
      headers: key === undefined ? {} : { authorization: `Bearer ${key}` },
    });

  test("[CP-10] carry all three parts SDKs demand, with and without cohorts", async () => {
    for (const query of ["", "&send_cohorts"]) {
      const { status, text } = await ask(
        `/api/feature_flag/local_evaluation?token=${PROJECT_KEY}${query}`,
        PERSONAL_KEY,
      );
      expect(status).toBe(200);
      const body = JSON.parse(text);
      expect(body).toMatchObject({
        flags: expect.any(Array),
        group_type_mapping: { "0": "company" },
        cohorts: {},
      });
      const inactive = body.flags.find(({ key }: Wire) => key === "inactive");
      expect(inactive).toMatchObject({ active: false, deleted: false });
    }
  });

  test("[CP-10] are given to holders of a personal key only", async () => {
    const path = `/flags/definitions?token=${PROJECT_KEY}`;
    expect((await ask(path)).status).toBe(401);
    expect((await ask(path, "phx_unknown000000")).status).toBe(401);
    expect((await ask(path, PROJECT_KEY)).status).toBe(401);
    expect((await ask("/flags/definitions?token=phc_another", PERSONAL_KEY)).status).toBe(401);
  });
});

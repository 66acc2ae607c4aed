import { describe, expect, test } from "vitest";
import {
  type Answer,
  everyone,
  type Management,
  openManagement,
  personIs,
  variants,
  type Wire,
  type WireFlag,
  type WireList,
  where,
} from "./management.ts";
import { postJson, send } from "./raw-http.ts";
import {
  PERSONAL_KEY,
  PROJECT_KEY,
  type ServerUnderTest,
  serveTests,
} from "./server-under-test.ts";

let server: ServerUnderTest;
let management: Management;
/** The path of the only project, by its number. */
let project: string;

serveTests(async (started) => {
  server = started;
  management = openManagement(server);
  const { body } = await management.call<WireList<Wire>>("GET", "/api/projects/");
  project = `/api/projects/${body.results[0]?.id}`;
});

const call = <Body = Wire>(method: string, path: string, body?: unknown): Promise<Answer<Body>> =>
  management.call<Body>(method, path, body);

async function keyWith(scopes: readonly string[], fields: Wire = {}): Promise<Management> {
  const { status, body } = await call("POST", "/api/personal_api_keys/", {
    label: scopes.join(" "),
    scopes,
    ...fields,
  });
  expect(status).toBe(201);
  return openManagement(server, body.value as string);
}

describe("what clients ask first", () => {
  test("[CP-30] the project is found by its list, by number, as @current and as an environment", async () => {
    const { body } = await call<WireList<Wire>>("GET", "/api/projects/");
    expect(body).toMatchObject({ count: 1, next: null, previous: null });
    expect(body.results[0]).toMatchObject({
      id: expect.any(Number),
      name: expect.any(String),
      organization: expect.stringMatching(/^[0-9a-f-]{36}$/),
      api_token: PROJECT_KEY,
      timezone: expect.any(String),
    });
    for (const path of [
      project,
      "/api/projects/@current/",
      "/api/environments/@current",
      project.replace("projects", "environments"),
    ]) {
      expect(await call("GET", path)).toMatchObject({
        status: 200,
        body: { api_token: PROJECT_KEY },
      });
    }
  });

  test("[CP-30] the caller, the key and the organization tell who they are", async () => {
    const user = await call("GET", "/api/users/@me/");
    expect(user.body).toMatchObject({
      distinct_id: expect.any(String),
      email: expect.stringContaining("@"),
      organization: { id: expect.any(String) },
      organizations: [{ id: expect.any(String) }],
      team: { id: expect.any(Number), organization: expect.any(String) },
    });
    const key = await call("GET", "/api/personal_api_keys/@current");
    expect(key.body).toMatchObject({
      scopes: ["*"],
      scoped_teams: [],
      scoped_organizations: [],
    });
    expect(JSON.stringify(key.body)).not.toContain(PERSONAL_KEY);
    const organizations = await call<WireList<Wire>>("GET", "/api/organizations/");
    expect(organizations.body.results).toHaveLength(1);
    const { body: current } = await call("GET", "/api/organizations/@current/");
    expect(current.id).toBe(organizations.body.results[0]?.id);
    expect((await call("GET", `/api/organizations/${current.id}/projects/`)).status).toBe(200);
  });
});

describe("flags", () => {
  test("[CP-31] live from creation to deletion", async () => {
    const created = await call<WireFlag>("POST", `${project}/feature_flags/`, {
      key: "checkout",
      name: "The new checkout",
      filters: { ...everyone(50), payloads: { true: '{"a":1}' } },
    });
    expect(created.status).toBe(201);
    const flag = created.body;
    expect(flag).toMatchObject({
      id: expect.any(Number),
      key: "checkout",
      name: "The new checkout",
      active: true,
      deleted: false,
      version: 1,
      ensure_experience_continuity: false,
      filters: {
        groups: [{ properties: [], rollout_percentage: 50 }],
        payloads: { true: '{"a":1}' },
      },
      created_by: { email: expect.any(String) },
      tags: [],
    });
    const path = `${project}/feature_flags/${flag.id}`;
    expect(await call("GET", path)).toMatchObject({ status: 200, body: { key: "checkout" } });

    const patched = await call<WireFlag>("PATCH", `${path}/`, { filters: everyone(100) });
    expect(patched).toMatchObject({
      status: 200,
      body: { version: 2, name: "The new checkout", filters: everyone(100) },
    });
    expect(await call("PATCH", path, { active: false })).toMatchObject({
      status: 200,
      body: { active: false, version: 3, filters: everyone(100) },
    });
    const deletion = await call("DELETE", path);
    expect(deletion.status).toBe(405);
    expect(deletion.body.detail).toBe('Method "DELETE" not allowed.');
    expect(await call("PATCH", path, { deleted: true })).toMatchObject({
      status: 200,
      body: { deleted: true },
    });
    expect(await call("GET", path)).toMatchObject({ status: 200, body: { deleted: true } });
    const { body: list } = await call<WireList<WireFlag>>("GET", `${project}/feature_flags/`);
    expect(list.results.map(({ id }) => id)).not.toContain(flag.id);

    // A deleted flag does not hold on to its key (UR-89).
    const again = await management.createFlag("checkout");
    expect(again.id).not.toBe(flag.id);
    expect(again.version).toBe(1);
  });

  test("[CP-32] are listed page by page, with links that lead through all of them", async () => {
    for (let index = 0; index < 7; index++) await management.createFlag(`page-${index}`);
    const first = await call<WireList<WireFlag>>(
      "GET",
      `${project}/feature_flags/?search=page-&limit=3`,
    );
    expect(first.body).toMatchObject({ count: 7, previous: null });
    expect(first.body.next).toMatch(`${server.url}/api/projects/`);
    const keys: string[] = [];
    let next: string | null = first.body.next;
    keys.push(...first.body.results.map(({ key }) => key));
    while (next !== null) {
      const url: URL = new URL(next);
      const page: Answer<WireList<WireFlag>> = await call("GET", url.pathname + url.search);
      expect(page.body.previous).toMatch(server.url);
      keys.push(...page.body.results.map(({ key }) => key));
      next = page.body.next;
    }
    // Newest first.
    expect(keys).toEqual([6, 5, 4, 3, 2, 1, 0].map((index) => `page-${index}`));
  });

  const bad: readonly (readonly [string, Wire, Wire])[] = [
    ["no key", { filters: everyone() }, { code: "required", attr: "key" }],
    ["an empty key", { key: "" }, { code: "blank", attr: "key" }],
    ["a key with other characters", { key: "new checkout" }, { code: "invalid_key", attr: "key" }],
    ["a key that is a number", { key: 5 }, { code: "invalid_input", attr: "key" }],
    ["active that is a text", { key: "a", active: "perhaps" }, { attr: "active" }],
    ["filters that are a list", { key: "a", filters: [] }, { attr: "filters" }],
    [
      "shares that do not sum to 100",
      { key: "a", filters: variants({ a: 50, b: 40 }) },
      { attr: "filters", detail: expect.stringContaining("must sum to 100") },
    ],
    [
      "a variant nobody declared",
      { key: "a", filters: { groups: [{ properties: [], variant: "z" }] } },
      { attr: "filters", detail: expect.stringContaining("variant override does not exist") },
    ],
    [
      "a payload that is no JSON",
      { key: "a", filters: { ...everyone(), payloads: { true: "{bad" } } },
      { attr: "filters", detail: expect.stringContaining("not valid JSON") },
    ],
    [
      "an unknown cohort",
      { key: "a", filters: where({ key: "id", type: "cohort", value: 999, operator: "in" }) },
      { code: "cohort_does_not_exist", attr: "filters" },
    ],
    [
      "a date nobody can read",
      { key: "a", filters: where(personIs("at", "is_date_after", "soon")) },
      { code: "invalid_date", attr: "filters" },
    ],
  ];
  test.each(bad)(
    "[CP-33] %s is refused by name and leaves nothing behind",
    async (_name, fields, expected) => {
      const before = await call<WireList<Wire>>("GET", `${project}/feature_flags/`);
      const { status, body } = await call("POST", `${project}/feature_flags/`, fields);
      expect(status).toBe(400);
      expect(body).toMatchObject({ type: "validation_error", ...expected });
      expect(Object.keys(body).sort()).toEqual(["attr", "code", "detail", "type"]);
      const after = await call<WireList<Wire>>("GET", `${project}/feature_flags/`);
      expect(after.body.count).toBe(before.body.count);
    },
  );

  test("[CP-33] a key in use, a circle and an unknown id are refused", async () => {
    const one = await management.createFlag("circle-one");
    const dependsOn = (id: number) =>
      where({ key: String(id), type: "flag", operator: "flag_evaluates_to", value: true });
    const two = await management.createFlag("circle-two", dependsOn(one.id));
    expect(await call("POST", `${project}/feature_flags/`, { key: "circle-one" })).toMatchObject({
      status: 400,
      body: {
        code: "unique",
        attr: "key",
        detail: "There is already a feature flag with this key.",
      },
    });
    expect(
      await call("PATCH", `${project}/feature_flags/${one.id}/`, { filters: dependsOn(two.id) }),
    ).toMatchObject({ status: 400, body: { attr: "filters" } });
    for (const id of ["999999", "0", "-1", "abc", "1e3", "99999999999999999999"]) {
      for (const method of ["GET", "PATCH"]) {
        const answer = await call(
          method,
          `${project}/feature_flags/${id}/`,
          method === "GET" ? undefined : {},
        );
        expect([id, answer.status]).toEqual([id, 404]);
      }
    }
  });

  test("[CP-33] bodies that are no JSON object are refused", async () => {
    const attempt = async (body: string, type = "application/json") => {
      const answer = await send(server, {
        path: `${project}/feature_flags/`,
        headers: { authorization: `Bearer ${PERSONAL_KEY}`, "content-type": type },
        body,
      });
      return [answer.status, JSON.parse(answer.text).code];
    };
    expect(await attempt("{")).toEqual([400, "parse_error"]);
    expect(await attempt("[]")).toEqual([400, "invalid_input"]);
    expect(await attempt("5")).toEqual([400, "invalid_input"]);
    expect(await attempt("<a/>", "application/xml")).toEqual([415, "unsupported_media_type"]);
  });

  test("[CP-1] a remote configuration is read by number and by key", async () => {
    const flag = await management.createFlag(
      "limits",
      { ...everyone(), payloads: { true: '{"limit":3}' } },
      { is_remote_configuration: true },
    );
    for (const name of [flag.id, "limits"]) {
      const answer = await call<unknown>("GET", `${project}/feature_flags/${name}/remote_config/`);
      expect(answer.status).toBe(200);
      const { body } = answer;
      expect(typeof body === "string" ? JSON.parse(body) : body).toEqual({ limit: 3 });
    }
  });
});

describe("cohorts", () => {
  test("[CP-34] dynamic ones follow properties, static ones their list, and flags follow both", async () => {
    const capture = (distinct_id: string, $set: Wire) =>
      postJson(server, "/capture/", { api_key: PROJECT_KEY, event: "seen", distinct_id, $set });
    await capture("rich", { balance: 5000 });
    await capture("poor", { balance: 5 });
    const created = await call("POST", `${project}/cohorts/`, {
      name: "Rich",
      filters: {
        properties: {
          type: "OR",
          values: [{ type: "AND", values: [personIs("balance", "gte", "1000")] }],
        },
      },
    });
    expect(created).toMatchObject({ status: 201, body: { name: "Rich", is_static: false } });
    const dynamic = created.body.id as number;
    const fixed = (
      await management.createCohort({ name: "Invited", is_static: true, distinct_ids: ["poor"] })
    ).id;
    const inCohort = (value: number) => where({ key: "id", type: "cohort", value, operator: "in" });
    await management.createFlag("rich-only", inCohort(dynamic));
    await management.createFlag("invited-only", inCohort(fixed));

    const valuesFor = async (distinct_id: string) => {
      const request = { api_key: PROJECT_KEY, distinct_id };
      const flags = (await postJson(server, "/decide/?v=3", request)).body.featureFlags as Wire;
      return [flags["rich-only"], flags["invited-only"]];
    };
    expect(await valuesFor("rich")).toEqual([true, false]);
    expect(await valuesFor("poor")).toEqual([false, true]);
    expect(await valuesFor("nobody")).toEqual([false, false]);

    const path = `${project}/cohorts/${dynamic}`;
    const poorer = {
      properties: {
        type: "OR",
        values: [{ type: "AND", values: [personIs("balance", "gte", "1")] }],
      },
    };
    expect(await call("PATCH", `${path}/`, { filters: poorer })).toMatchObject({ status: 200 });
    expect(await valuesFor("poor")).toEqual([true, true]);

    const list = await call<WireList<Wire>>("GET", `${project}/cohorts/?limit=1`);
    expect(list.body).toMatchObject({ count: 2, previous: null, next: expect.any(String) });

    // A cohort that flags use stays.
    expect((await call("DELETE", path)).status).toBe(400);
    const unused = await management.createCohort({ name: "Unused", is_static: true });
    const deletion = await call("DELETE", `${project}/cohorts/${unused.id}/`);
    expect([deletion.status, deletion.body]).toEqual([204, null]);
    expect((await call("DELETE", `${project}/cohorts/${unused.id}/`)).status).toBe(404);
  });
});

describe("keys", () => {
  test("[CP-35] open what their scopes say and nothing else", async () => {
    const reader = await keyWith(["feature_flag:read"]);
    const writer = await keyWith(["feature_flag:write"]);
    expect((await reader.call("GET", `${project}/feature_flags/`)).status).toBe(200);
    expect(await reader.call("POST", `${project}/feature_flags/`, { key: "no" })).toMatchObject({
      status: 403,
      body: {
        type: "authentication_error",
        code: "permission_denied",
        detail: "API key missing required scope 'feature_flag:write'",
        attr: null,
      },
    });
    // Writing includes reading; other things stay closed.
    expect((await writer.call("GET", `${project}/feature_flags/`)).status).toBe(200);
    expect((await writer.call("POST", `${project}/feature_flags/`, { key: "yes" })).status).toBe(
      201,
    );
    expect((await writer.call("GET", `${project}/cohorts/`)).status).toBe(403);
    expect((await writer.call("GET", `${project}/events/`)).status).toBe(403);
    expect((await writer.call("GET", "/api/personal_api_keys/@current")).status).toBe(200);
    expect(
      (await writer.call("POST", "/api/personal_api_keys/", { label: "x", scopes: ["*"] })).status,
    ).toBe(403);
    const definitions = `/flags/definitions?token=${PROJECT_KEY}`;
    expect((await reader.call("GET", definitions)).status).toBe(200);
    expect((await (await keyWith(["cohort:read"])).call("GET", definitions)).status).toBe(403);
  });

  test("[CP-35] open only the projects they are for", async () => {
    const { body: organization } = await call("GET", "/api/organizations/@current/");
    const created = await call("POST", `/api/organizations/${organization.id}/projects/`, {
      name: "Another",
    });
    expect(created.status).toBe(201);
    const other = `/api/projects/${created.body.id}`;
    const own = await keyWith(["*"], { scoped_teams: [Number(project.split("/").at(-1))] });
    expect((await own.call("GET", `${project}/feature_flags/`)).status).toBe(200);
    expect((await own.call("GET", `${other}/feature_flags/`)).status).toBe(403);
    // What is in one project is in no other.
    const flags = await call<WireList<Wire>>("GET", `${other}/feature_flags/`);
    expect(flags.body.count).toBe(0);
    const { body } = await postJson(server, "/decide?v=3", {
      api_key: created.body.api_token,
      distinct_id: "rich",
    });
    expect(body.featureFlags).toEqual({});
  });

  test("[CP-35] that are missing, unknown or of the wrong kind get a 401 that says so", async () => {
    const path = `${project}/feature_flags/`;
    const without = await send(server, { method: "GET", path });
    expect([without.status, JSON.parse(without.text)]).toEqual([
      401,
      {
        type: "authentication_error",
        code: "not_authenticated",
        detail: "Authentication credentials were not provided.",
        attr: null,
      },
    ]);
    expect(without.headers["www-authenticate"]).toMatch(/^Bearer/);
    for (const key of ["phx_unknown000000", PROJECT_KEY, "x"]) {
      const answer = await openManagement(server, key).call("GET", path);
      expect(answer).toMatchObject({
        status: 401,
        body: {
          code: "authentication_failed",
          detail: "Personal API key found in request Authorization header is invalid.",
        },
      });
    }
  });

  test("[CP-35] stop working when they are revoked", async () => {
    const { body } = await call("POST", "/api/personal_api_keys/", {
      label: "brief",
      scopes: ["*"],
    });
    const brief = openManagement(server, body.value as string);
    expect((await brief.call("GET", `${project}/cohorts/`)).status).toBe(200);
    const revoked = await call("DELETE", `/api/personal_api_keys/${body.id}/`);
    expect([revoked.status, revoked.body]).toEqual([204, null]);
    expect((await brief.call("GET", `${project}/cohorts/`)).status).toBe(401);
  });
});

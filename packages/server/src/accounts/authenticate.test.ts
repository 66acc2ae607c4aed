import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { access, callerOf, projectOf, takesForms } from "../http/management-api.ts";
import { type AccountsApi, openAccountsApi } from "./accounts-api.setup.ts";
import { hashKey } from "./keys.ts";

let api: AccountsApi;
let otherProjectId: number;
/** How many forms became bodies. */
let formsRead = 0;

beforeAll(async () => {
  api = await openAccountsApi((app) => {
    const things = "/api/projects/:project_id/things";
    app.get(things, access("feature_flag:read"), async (request) => ({
      project: projectOf(request).id,
    }));
    app.post(things, access("feature_flag:write"), async (request) => ({
      key: callerOf(request).key.label,
      body: request.body,
    }));
    const countingForms = takesForms((fields) => {
      formsRead += 1;
      return { names: [...fields.keys()] };
    });
    app.post(
      "/api/projects/:project_id/forms",
      { config: { ...access("feature_flag:write").config, ...countingForms } },
      async (request) => request.body,
    );
    app.delete(things, access("feature_flag:write"), async (_request, reply) =>
      reply.code(204).send(),
    );
    app.get(
      "/api/organizations/:organization_id/things",
      access("plugin:read", "organization"),
      async (request) => ({
        organization: callerOf(request).membership?.organization.id,
      }),
    );
  });
  const created = await api.call("POST", "/api/projects", { body: { name: "Second" } });
  otherProjectId = created.json().id;
});
afterAll(() => api.close());

const things = () => `/api/projects/${api.firstBoot.project.id}/things`;
const refused = (status: number, code: string, detail: string) => [
  status,
  { type: status === 404 ? "invalid_request" : "authentication_error", code, detail, attr: null },
];

describe("where a personal key is looked for", () => {
  test("[AC-10] the header, else the body, else the query: the first that holds one decides", async () => {
    const good = api.firstBoot.personalKey;
    const bad = "phx_unknown";
    const ways: [string | null, string | undefined, string | undefined, string | undefined][] = [
      [good, undefined, undefined, undefined],
      [null, good, undefined, undefined],
      [null, undefined, good, undefined],
      [good, bad, bad, undefined],
      [null, good, bad, undefined],
      [bad, good, good, "Authorization header"],
      [null, bad, good, "body"],
      [null, undefined, bad, "query string"],
    ];
    for (const [key, inBody, inQuery, wrongPlace] of ways) {
      const query = inQuery === undefined ? "" : `?personal_api_key=${inQuery}`;
      const body = inBody === undefined ? { x: 1 } : { personal_api_key: inBody };
      const answer = await api.call("POST", things() + query, { key, body });
      if (wrongPlace === undefined) expect(answer.statusCode).toBe(200);
      else {
        expect([answer.statusCode, answer.json()]).toEqual(
          refused(
            401,
            "authentication_failed",
            `Personal API key found in request ${wrongPlace} is invalid.`,
          ),
        );
        expect(answer.headers["www-authenticate"]).toBe("Bearer");
      }
    }
  });

  test("[AC-10] no key anywhere is told apart from a wrong one", async () => {
    for (const headers of [{}, { authorization: "Basic abc" }, { authorization: "Bearer " }]) {
      const answer = await api.call("GET", things(), { key: null, headers });
      expect([answer.statusCode, answer.json()]).toEqual(
        refused(401, "not_authenticated", "Authentication credentials were not provided."),
      );
      expect(answer.headers["www-authenticate"]).toBe("Bearer");
    }
  });

  test.each([123, null, ["phx_a"], { a: 1 }, ""])(
    "[AC-10] a personal_api_key of %j in the body is a wrong key",
    async (personal_api_key) => {
      const answer = await api.call("POST", things(), { key: null, body: { personal_api_key } });
      expect(answer.statusCode).toBe(401);
      expect(answer.json().detail).toBe("Personal API key found in request body is invalid.");
    },
  );

  test("[AC-10] several spaces and any case of the scheme word are accepted; other keys are wrong ones", async () => {
    const { personalKey, projectKey } = api.firstBoot;
    const by = (authorization: string) =>
      api.call("GET", things(), { key: null, headers: { authorization } });
    expect((await by(`Bearer    ${personalKey}`)).statusCode).toBe(200);
    expect((await by(`bearer ${personalKey}`)).statusCode).toBe(200);
    expect((await by(`Bearer ${projectKey}`)).statusCode).toBe(401);
    expect((await by(`Bearer ${hashKey(personalKey)}`)).statusCode).toBe(401);
    expect((await by(`Bearer ${"x".repeat(8000)}`)).statusCode).toBe(401);
  });
});

describe("the order of refusals", () => {
  test("[AC-10] of a body without a known caller only the key is read, and nothing where it is long", async () => {
    const forms = `/api/projects/${api.firstBoot.project.id}/forms`;
    const key = api.firstBoot.personalKey;
    const sendForm = async (type: string, body: string, query = "") => {
      const headers = { "content-type": type };
      const answer = await api.call("POST", forms + query, { key: null, body, headers });
      return [answer.statusCode, answer.json().detail ?? answer.json().names];
    };
    const encoded = "application/x-www-form-urlencoded";
    const multipart = "multipart/form-data; boundary=b";
    const part = (name: string, value: string) =>
      `--b\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`;
    const none = [401, "Authentication credentials were not provided."];
    expect(await sendForm(encoded, "a=1&b=2")).toEqual(none);
    expect(await sendForm(multipart, `${part("a", "1")}--b--`)).toEqual(none);
    expect(await sendForm(encoded, "a=1&personal_api_key=phx_x")).toEqual([
      401,
      "Personal API key found in request body is invalid.",
    ]);
    expect(await sendForm(encoded, `personal_api_key=${key}&a=${"x".repeat(300_000)}`)).toEqual(
      none,
    );
    expect(formsRead).toBe(0);
    const names = ["a", "personal_api_key"];
    expect(await sendForm(encoded, `a=1&personal_api_key=${key}`)).toEqual([200, names]);
    const form = `${part("a", "1")}${part("personal_api_key", key)}--b--`;
    expect(await sendForm(multipart, form)).toEqual([200, names]);
    const long = `a=${"x".repeat(300_000)}`;
    expect(await sendForm(encoded, long, `?personal_api_key=${key}`)).toEqual([200, ["a"]]);
    expect(formsRead).toBe(3);
  });

  test("[AC-10] a long JSON body without a key in header or query is refused unread", async () => {
    const body = { personal_api_key: api.firstBoot.personalKey, long: "x".repeat(300_000) };
    for (const headers of [{}, { "transfer-encoding": "chunked" }]) {
      const answer = await api.call("POST", things(), { key: null, body, headers });
      expect([answer.statusCode, answer.json().code]).toEqual([401, "not_authenticated"]);
    }
    expect((await api.call("POST", things(), { body })).statusCode).toBe(200);
  });

  test("[AC-11] a key is checked before the body is found to be malformed", async () => {
    const headers = { "content-type": "application/json" };
    const malformed = { body: "{oops", headers };
    const reader = await api.keyWith({ scopes: ["cohort:read"] });
    const status = async (url: string, key: string | null) =>
      (await api.call("POST", url, { key, ...malformed })).statusCode;
    expect(await status(things(), "phx_unknown")).toBe(401);
    expect(await status(things(), null)).toBe(401);
    expect(await status(`${things()}?personal_api_key=phx_unknown`, null)).toBe(401);
    expect(await status(things(), reader)).toBe(403);
    expect(await status(`${things()}?personal_api_key=${reader}`, null)).toBe(403);
    expect(await status("/api/projects/999999/things", api.firstBoot.personalKey)).toBe(404);
    const answer = await api.call("POST", things(), malformed);
    expect([answer.statusCode, answer.json()]).toMatchObject([
      400,
      { type: "invalid_request", code: "parse_error", attr: null },
    ]);
    expect(answer.json().detail).toMatch(/^JSON parse error - /);
  });

  test.each([
    ["text/plain", "{}"],
    ["application/x-www-form-urlencoded", '{"name":"x=y"}'],
    ["application/x-www-form-urlencoded", "name"],
    ["application/jsonp", "{}"],
  ])("[AC-11] a body of type %s is not read", async (type, body) => {
    const answer = await api.call("POST", things(), { body, headers: { "content-type": type } });
    expect([answer.statusCode, answer.json()]).toEqual([
      415,
      {
        type: "invalid_request",
        code: "unsupported_media_type",
        detail: `Unsupported media type "${type}" in request.`,
        attr: null,
      },
    ]);
  });

  test("[AC-11] an absent or empty body is an object without fields", async () => {
    const headers = { "content-type": "application/json" };
    expect((await api.call("DELETE", things(), { headers })).statusCode).toBe(204);
    expect((await api.call("POST", things(), { headers, body: "" })).json().body).toEqual({});
    expect((await api.call("POST", things())).json().body).toEqual({});
  });

  test("[AC-11] JSON of any flavour is read, and names that JavaScript knows are just names", async () => {
    const body = '{"__proto__": {"polluted": 1}, "constructor": 2}';
    for (const type of ["application/json; charset=utf-8", "application/merge-patch+json"]) {
      const answer = await api.call("POST", things(), { body, headers: { "content-type": type } });
      expect(answer.statusCode).toBe(200);
      expect(answer.body).toContain(`"body":${body.replaceAll(" ", "")}`);
    }
    expect(({} as { polluted?: number }).polluted).toBeUndefined();
  });

  test("[AC-11] bytes that are no text and nesting without end are refused, not crashed on", async () => {
    const headers = { "content-type": "application/json" };
    const deep = `{"a":${"[".repeat(5000)}${"]".repeat(5000)}}`;
    for (const body of [deep, Buffer.from([0x22, 0xff, 0xfe, 0x22])]) {
      const answer = await api.call("POST", things(), { body, headers });
      expect([answer.statusCode, answer.json().code]).toEqual([400, "parse_error"]);
    }
  });
});

describe("scopes", () => {
  test.each([
    [["*"], 200, 200],
    [["feature_flag:read"], 200, 403],
    [["feature_flag:write"], 200, 200],
    [["cohort:write", "experiment:read"], 403, 403],
  ])("[AC-12] a key with %j reads with %i and writes with %i", async (scopes, read, write) => {
    const key = await api.keyWith({ scopes });
    expect((await api.call("GET", things(), { key })).statusCode).toBe(read);
    const answer = await api.call("POST", things(), { key, body: {} });
    expect(answer.statusCode).toBe(write);
    if (write === 403) {
      expect([answer.statusCode, answer.json()]).toEqual(
        refused(403, "permission_denied", "API key missing required scope 'feature_flag:write'"),
      );
    }
  });
});

describe("projects in the path", () => {
  test.each(["abc", "999999", "0", "-1", "1.5", "1e0", "99999999999999999999", "@me", "%00", "١"])(
    "[AC-13] the project %s is not found",
    async (id) => {
      const answer = await api.call("GET", `/api/projects/${encodeURI(decodeURI(id))}/things`);
      expect([answer.statusCode, answer.json()]).toEqual(
        refused(404, "not_found", "Project not found."),
      );
    },
  );

  test("[AC-13] @current is the user's current project, under both names of the path", async () => {
    const { project } = api.firstBoot;
    for (const root of ["projects", "environments"]) {
      const answer = await api.call("GET", `/api/${root}/@current/things/`);
      expect([answer.statusCode, answer.json()]).toEqual([200, { project: project.id }]);
    }
  });

  test("[AC-13] a project of an organization the user is no member of is refused", async () => {
    const answer = await api.call("GET", `/api/projects/${api.foreign.project.id}/things`);
    expect([answer.statusCode, answer.json()]).toEqual(
      refused(403, "permission_denied", "You don't have access to the project."),
    );
  });

  test("[AC-14] a key bound to projects opens those and nothing beside projects", async () => {
    const { project } = api.firstBoot;
    const key = await api.keyWith({ scopedProjects: [otherProjectId] });
    const get = (url: string) => api.call("GET", url, { key });
    expect((await get(`/api/projects/${otherProjectId}/things`)).statusCode).toBe(200);
    for (const id of [project.id, "@current"]) {
      const answer = await get(`/api/projects/${id}/things`);
      expect([answer.statusCode, answer.json()]).toEqual(
        refused(
          403,
          "permission_denied",
          `API key does not have access to the requested project: ID ${project.id}.`,
        ),
      );
    }
    for (const url of [
      "/api/projects",
      "/api/organizations",
      "/api/organizations/@current/things",
    ]) {
      const answer = await get(url);
      expect([answer.statusCode, answer.json()]).toEqual(
        refused(
          403,
          "permission_denied",
          "API keys with scoped projects are only supported on project-based endpoints.",
        ),
      );
    }
    for (const url of ["/api/users/@me", "/api/personal_api_keys/@current"]) {
      expect((await get(url)).statusCode).toBe(200);
    }
  });

  test("[AC-14] a key bound to a project that was deleted opens nothing", async () => {
    const { id } = (await api.call("POST", "/api/projects", { body: {} })).json();
    const key = await api.keyWith({ scopedProjects: [id] });
    expect((await api.call("DELETE", `/api/projects/${id}`)).statusCode).toBe(204);
    expect((await api.call("GET", `/api/projects/${id}/things`, { key })).statusCode).toBe(404);
    expect((await api.call("GET", things(), { key })).statusCode).toBe(403);
  });
});

describe("organizations in the path", () => {
  const path = (id: string) => `/api/organizations/${id}/things`;

  test("[AC-15] are found by UUID in any case and as @current", async () => {
    const { organizationId } = api.firstBoot.project;
    for (const id of [organizationId, organizationId.toUpperCase(), "@current"]) {
      const answer = await api.call("GET", path(id));
      expect([answer.statusCode, answer.json()]).toEqual([200, { organization: organizationId }]);
    }
  });

  test.each(["abc", "1", "88888888-8888-4888-8888-888888888888", "%00"])(
    "[AC-15] the organization %s is not found",
    async (id) => {
      const answer = await api.call("GET", path(id));
      expect([answer.statusCode, answer.json()]).toEqual(
        refused(404, "not_found", "Organization not found."),
      );
    },
  );

  test("[AC-15] one that the user is no member of is refused", async () => {
    const answer = await api.call("GET", path(api.foreign.organization.id));
    expect([answer.statusCode, answer.json()]).toEqual(
      refused(403, "permission_denied", "You do not have permission to perform this action."),
    );
  });

  test("[AC-14] a key bound to organizations opens those and their projects", async () => {
    const { accounts, firstBoot, foreign } = api;
    await accounts.addMember(foreign.organization.id, firstBoot.admin.id, 15);
    const key = await api.keyWith({ scopedOrganizations: [foreign.organization.id] });
    expect((await api.call("GET", path(foreign.organization.id), { key })).statusCode).toBe(200);
    const theirs = await api.call("GET", `/api/projects/${foreign.project.id}/things`, { key });
    expect(theirs.statusCode).toBe(200);
    for (const url of [path("@current"), things()]) {
      const answer = await api.call("GET", url, { key });
      expect([answer.statusCode, answer.json()]).toEqual(
        refused(
          403,
          "permission_denied",
          `API key does not have access to the requested organization: ID ${firstBoot.project.organizationId}.`,
        ),
      );
    }
    const listed = await api.call("GET", "/api/organizations", { key });
    expect(listed.json().results.map(({ id }: { id: string }) => id)).toEqual([
      foreign.organization.id,
    ]);
    const projects = await api.call("GET", "/api/projects", { key });
    expect(projects.json().results.map(({ id }: { id: number }) => id)).toEqual([
      foreign.project.id,
    ]);
    expect((await api.call("POST", "/api/projects", { key, body: {} })).statusCode).toBe(403);
  });
});

describe("the last use of a key", () => {
  test("[AC-16] is recorded on its first use and then at most once an hour", async () => {
    const key = await api.keyWith({});
    const lastUse = async () => (await api.accounts.personalKeyByHash(hashKey(key)))?.lastUsedAt;
    const begin = api.clock.now;
    expect(await lastUse()).toBeNull();
    await api.call("GET", things(), { key });
    expect(await lastUse()).toEqual(begin);
    api.clock.now = new Date(begin.getTime() + 59 * 60_000);
    await api.call("GET", things(), { key });
    expect(await lastUse()).toEqual(begin);
    api.clock.now = new Date(begin.getTime() + 60 * 60_000);
    await api.call("GET", things(), { key });
    expect(await lastUse()).toEqual(api.clock.now);
    api.clock.now = begin;
  });
});

describe("reading flag definitions", () => {
  const get = (url: string, key: string | null = null) => api.call("GET", url, { key });

  test("[AC-17] the secret key opens its project, in the header or in the query", async () => {
    const { project } = api.firstBoot;
    const secret = project.secretApiToken;
    expect((await get("/definitions", secret)).json()).toEqual({ project: project.id });
    expect((await get(`/definitions?secret_api_key=${secret}`)).json()).toEqual({
      project: project.id,
    });
    const both = await get(`/definitions?token=${project.apiToken}`, secret);
    expect(both.json()).toEqual({ project: project.id });
  });

  test("[AC-17] a secret key does not open another project, nor a management route", async () => {
    const { project } = api.firstBoot;
    const answer = await get("/definitions?token=phc_theirs", project.secretApiToken);
    expect([answer.statusCode, answer.json()]).toEqual(
      refused(401, "authentication_failed", "Incorrect authentication credentials."),
    );
    for (const path of [`${api.foreign.project.id}`, "nonsense"]) {
      const url = `/api/projects/${path}/definitions`;
      expect((await get(url, project.secretApiToken)).statusCode).toBe(401);
    }
    for (const path of [`${project.id}`, "@current"]) {
      const url = `/api/projects/${path}/definitions`;
      expect((await get(url, project.secretApiToken)).json()).toEqual({ project: project.id });
    }
    expect((await get(things(), project.secretApiToken)).statusCode).toBe(401);
    const unknown = await get("/definitions", "phs_unknown");
    expect([unknown.statusCode, unknown.json()]).toEqual(
      refused(
        401,
        "authentication_failed",
        "Personal API key found in request Authorization header is invalid.",
      ),
    );
  });

  test("[AC-17] a personal key reads the project of the token, else of the path, else the current one", async () => {
    const key = await api.keyWith({ scopes: ["feature_flag:read"] });
    const { project } = api.firstBoot;
    const other = await api.accounts.project(otherProjectId);
    const token = other?.apiToken;
    const read = async (url: string) => (await get(url, key)).json();
    expect(await read("/definitions")).toEqual({ project: project.id });
    expect(await read(`/definitions?token=${token}`)).toEqual({ project: otherProjectId });
    expect(await read(`/api/projects/${otherProjectId}/definitions`)).toEqual({
      project: otherProjectId,
    });
    expect(await read("/api/projects/@current/definitions")).toEqual({ project: project.id });
    const overridden = `/api/projects/${project.id}/definitions?token=${token}`;
    expect(await read(overridden)).toEqual({ project: otherProjectId });
  });

  test("[AC-17] everything else is refused", async () => {
    const scopeless = await api.keyWith({ scopes: ["cohort:read"] });
    const bound = await api.keyWith({ scopedProjects: [otherProjectId] });
    const all = api.firstBoot.personalKey;
    const status = async (url: string, key: string | null) => (await get(url, key)).statusCode;
    expect(await status("/definitions", null)).toBe(401);
    expect(await status("/definitions", "phx_unknown")).toBe(401);
    expect(await status(`/definitions?token=${api.firstBoot.projectKey}`, null)).toBe(401);
    expect(await status("/definitions?token=phc_nobodys", all)).toBe(401);
    expect(await status("/definitions", scopeless)).toBe(403);
    expect(await status("/definitions", bound)).toBe(403);
    expect(await status("/api/projects/999999/definitions", all)).toBe(404);
  });
});

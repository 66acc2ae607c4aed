import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { type AccountsApi, openAccountsApi } from "./accounts-api.setup.ts";

let api: AccountsApi;
beforeEach(async () => {
  api = await openAccountsApi();
});
afterEach(() => api.close());

const KEYS = "/api/personal_api_keys";
const create = (body: object, key?: string) =>
  api.call("POST", KEYS, { body, ...(key !== undefined && { key }) });

type Fault = readonly [body: object, code: string, detail: string, attr: string];

describe("the key of the request", () => {
  test("[AC-31] describes itself whatever its scopes, arrays never null and the secret never told", async () => {
    const { project, admin, personalKey } = api.firstBoot;
    const key = await api.keyWith({
      label: "CI",
      scopes: ["cohort:read"],
      scopedProjects: [project.id],
    });
    const answer = await api.call("GET", `${KEYS}/@current/`, { key });
    expect([answer.statusCode, answer.json()]).toEqual([
      200,
      {
        id: expect.any(String),
        label: "CI",
        value: null,
        mask_value: `phx_...${key.slice(-4)}`,
        created_at: "2026-03-01T10:00:00.123000Z",
        last_used_at: null,
        last_rolled_at: null,
        user_id: admin.id,
        scopes: ["cohort:read"],
        scoped_teams: [project.id],
        scoped_organizations: [],
      },
    ]);
    const again = (await api.call("GET", `${KEYS}/@current`, { key })).json();
    expect(again.last_used_at).toBe("2026-03-01T10:00:00.123000Z");
    const first = (await api.call("GET", `${KEYS}/@current`, { key: personalKey })).json();
    expect(first).toMatchObject({ scopes: ["*"], scoped_teams: [], scoped_organizations: [] });
  });
});

describe("making keys", () => {
  test("[AC-32] the answer tells the key once; lists are bare arrays without it", async () => {
    api.clock.now = new Date(api.clock.now.getTime() + 1000);
    const created = await create({ label: " Deploy ", scopes: ["feature_flag:write"] });
    const { id, value, ...rest } = created.json();
    expect([created.statusCode, rest.label, rest.scopes]).toEqual([
      201,
      "Deploy",
      ["feature_flag:write"],
    ]);
    expect(value).toMatch(/^phx_[0-9A-Za-z]{43}$/);
    expect((await api.call("GET", `${KEYS}/@current`, { key: value })).json().id).toBe(id);
    const listed = (await api.call("GET", KEYS)).json();
    expect(listed.map((key: { label: string }) => key.label)).toEqual(["First key", "Deploy"]);
    expect(JSON.stringify(listed)).not.toContain(value);
    const retrieved = (await api.call("GET", `${KEYS}/${id}`)).json();
    expect(retrieved).toMatchObject({ id, value: null });
  });

  test.each<Fault>([
    [{ scopes: ["*"] }, "required", "This field is required.", "label"],
    [{ label: "x" }, "required", "This field is required.", "scopes"],
    [{ label: "  ", scopes: ["*"] }, "blank", "This field may not be blank.", "label"],
    [
      { label: "x".repeat(41), scopes: ["*"] },
      "max_length",
      "Ensure this field has no more than 40 characters.",
      "label",
    ],
    [{ label: "x", scopes: [] }, "empty", "This list may not be empty.", "scopes"],
    [
      { label: "x", scopes: "*" },
      "invalid_input",
      'Expected a list of items but got type "str".',
      "scopes",
    ],
    [{ label: "x", scopes: [7] }, "invalid_input", "Not a valid string.", "scopes__0"],
    ...["flag:read", "feature_flag", "feature_flag:admin", "", "constructor"].map(
      (scope): Fault => [
        { label: "x", scopes: ["*", scope] },
        "invalid_input",
        `Invalid scope: ${scope}`,
        "scopes",
      ],
    ),
    ...[999_999, -1, 1e12].map(
      (id): Fault => [
        { label: "x", scopes: ["*"], scoped_teams: [id] },
        "invalid_input",
        "You must be a member of all teams that you are scoping the key to.",
        "scoped_teams",
      ],
    ),
    [
      { label: "x", scopes: ["*"], scoped_organizations: ["abc"] },
      "invalid_input",
      "Invalid organization UUID",
      "scoped_organizations",
    ],
    [
      { label: "x", scopes: ["*"], scoped_organizations: ["99999999-9999-4999-8999-999999999999"] },
      "invalid_input",
      "You must be a member of all organizations that you are scoping the key to.",
      "scoped_organizations",
    ],
    ...["scopes", "scoped_teams", "scoped_organizations"].map(
      (attr): Fault => [
        { label: "x", scopes: ["*"], [attr]: Array(1_001).fill(attr === "scoped_teams" ? 1 : "*") },
        "invalid_input",
        "Invalid value: must NOT have more than 1000 items.",
        attr,
      ],
    ),
  ])("[AC-33] %j is refused with the field at fault", async (body, code, detail, attr) => {
    const answer = await create(body);
    expect([answer.statusCode, answer.json()]).toEqual([
      400,
      { type: "validation_error", code, detail, attr },
    ]);
    expect(await api.accounts.personalKeys()).toHaveLength(1);
  });

  test("[AC-33] a project of an organization that is not the user's is refused like an unknown one", async () => {
    const body = { label: "x", scopes: ["*"], scoped_teams: [api.foreign.project.id] };
    expect((await create(body)).json().attr).toBe("scoped_teams");
  });

  test("[AC-34] the eleventh key of a user is refused", async () => {
    for (let made = 1; made < 10; made++) {
      expect((await create({ label: `Key ${made}`, scopes: ["*"] })).statusCode).toBe(201);
    }
    const answer = await create({ label: "Key 10", scopes: ["*"] });
    expect([answer.statusCode, answer.json()]).toEqual([
      400,
      {
        type: "validation_error",
        code: "invalid_input",
        detail:
          "You can only have 10 personal API keys. Remove an existing key before creating a new one.",
        attr: null,
      },
    ]);
  });

  test("[AC-35] a key makes no key that opens more than itself", async () => {
    const { project } = api.firstBoot;
    const { id: otherId } = (await api.call("POST", "/api/projects", { body: {} })).json();
    const narrow = await api.keyWith({ scopes: ["user:write", "cohort:write"] });
    const byNarrow = async (scopes: string[]) => {
      const answer = await create({ label: "x", scopes }, narrow);
      return [answer.statusCode, answer.json().detail];
    };
    expect((await byNarrow(["cohort:read", "cohort:write"]))[0]).toBe(201);
    expect(await byNarrow(["cohort:read", "plugin:read"])).toEqual([
      403,
      "API key missing required scope 'plugin:read'",
    ]);
    expect((await byNarrow(["*"]))[0]).toBe(403);

    const bound = await api.keyWith({ scopes: ["*"], scopedProjects: [project.id] });
    const byBound = async (bounds: object) =>
      (await create({ label: "x", scopes: ["cohort:read"], ...bounds }, bound)).statusCode;
    expect(await byBound({ scoped_teams: [project.id] })).toBe(201);
    expect(await byBound({})).toBe(403);
    expect(await byBound({ scoped_teams: null })).toBe(403);
    expect(await byBound({ scoped_teams: [project.id, otherId] })).toBe(403);

    const within = await api.keyWith({ scopedOrganizations: [project.organizationId] });
    expect((await create({ label: "x", scopes: ["*"] }, within)).statusCode).toBe(403);
    const scoped_organizations = [project.organizationId];
    expect(
      (await create({ label: "x", scopes: ["*"], scoped_organizations }, within)).statusCode,
    ).toBe(201);
  });
});

describe("revoking keys", () => {
  test("[AC-36] a revoked key opens nothing from that moment on", async () => {
    const { id, value } = (await create({ label: "x", scopes: ["*"] })).json();
    expect((await api.call("GET", KEYS, { key: value })).statusCode).toBe(200);
    const answer = await api.call("DELETE", `${KEYS}/${id}/`);
    expect([answer.statusCode, answer.body]).toEqual([204, ""]);
    expect((await api.call("GET", KEYS, { key: value })).statusCode).toBe(401);
    expect((await api.call("DELETE", `${KEYS}/${id}`)).statusCode).toBe(404);
  });

  test("[AC-36] keys of other users are neither seen nor revoked", async () => {
    const { accounts, foreign } = api;
    const stranger = await accounts.createUser(
      {
        uuid: "99999999-9999-4999-8999-999999999997",
        distinctId: "stranger",
        email: "stranger@example.org",
        firstName: "",
        lastName: "",
        passwordHash: "none",
        currentOrganizationId: foreign.organization.id,
        currentProjectId: foreign.project.id,
      },
      api.clock.now,
    );
    if (stranger === "duplicate-email") throw new Error(stranger);
    const theirs = await accounts.createPersonalKey(
      {
        id: "their-key",
        userId: stranger.id,
        label: "Theirs",
        hash: "hash",
        maskValue: "phx_...abcd",
        scopes: ["*"],
        scopedProjects: [],
        scopedOrganizations: [],
      },
      api.clock.now,
    );
    expect((await api.call("GET", KEYS)).body).not.toContain("Theirs");
    for (const method of ["GET", "DELETE"] as const) {
      const answer = await api.call(method, `${KEYS}/${theirs.id}`);
      expect([answer.statusCode, answer.json().detail]).toEqual([404, "Not found."]);
    }
    expect(await accounts.personalKeysOf(stranger.id)).toHaveLength(1);
  });
});

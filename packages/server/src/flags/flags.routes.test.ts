import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openFlagsApi } from "./flags-api.setup.ts";

let api: Awaited<ReturnType<typeof openFlagsApi>>;
let projectId: number;
let flagsPath: string;

beforeAll(async () => {
  api = await openFlagsApi();
});
afterAll(() => api.close());

/** A project of its own for each group of tests. */
const inNewProject = () =>
  beforeAll(async () => {
    projectId = await api.newProject();
    flagsPath = `/api/projects/${projectId}/feature_flags`;
  });

const create = async (body: object) => {
  const answer = await api.send("POST", flagsPath, body);
  if (answer.status !== 201) throw new Error(JSON.stringify(answer.body));
  return answer.body;
};
const patch = (id: number, body: object) => api.send("PATCH", `${flagsPath}/${id}`, body);
const refusal = (code: string, detail: string, attr: string | null) => ({
  status: 400,
  body: { type: "validation_error", code, detail, attr },
});
const forEveryone = { groups: [{ properties: [], rollout_percentage: 100 }] };

describe("creating a flag", () => {
  inNewProject();

  test("[FM-8] a new flag answers 201 with its whole record", async () => {
    const { status, body } = await api.send("POST", flagsPath, { key: "plain" });
    const author = {
      id: api.user.id,
      uuid: api.user.uuid,
      distinct_id: api.user.distinctId,
      first_name: "Ada",
      last_name: "",
      email: api.user.email,
      is_email_verified: true,
      hedgehog_config: {},
      role_at_organization: null,
    };
    expect(status).toBe(201);
    expect(body).toEqual({
      id: expect.any(Number),
      team_id: projectId,
      name: "",
      key: "plain",
      filters: { groups: [] },
      deleted: false,
      active: true,
      created_by: author,
      created_at: "2026-03-01T10:00:00.123000Z",
      updated_at: "2026-03-01T10:00:00.123000Z",
      version: 1,
      last_modified_by: author,
      is_simple_flag: false,
      rollout_percentage: null,
      ensure_experience_continuity: false,
      experiment_set: [],
      surveys: [],
      features: [],
      rollback_conditions: null,
      performed_rollback: false,
      can_edit: true,
      tags: [],
      evaluation_tags: [],
      evaluation_contexts: [],
      usage_dashboard: null,
      analytics_dashboards: [],
      has_enriched_analytics: false,
      user_access_level: "editor",
      is_remote_configuration: false,
      has_encrypted_payloads: false,
      status: "ACTIVE",
      evaluation_runtime: "all",
      bucketing_identifier: "distinct_id",
      last_called_at: null,
    });
    expect(await api.send("GET", `${flagsPath}/${body.id}`)).toMatchObject({ status: 200, body });
  });

  test("[FM-8] every writable field is taken as sent, others are ignored", async () => {
    const writable = {
      name: "What it is for ☃",
      key: "all-fields",
      filters: {
        groups: [
          {
            variant: "b",
            properties: [{ key: "plan", type: "person", operator: "exact", value: ["pro"] }],
            rollout_percentage: 33.3,
            sort_key: "x",
          },
        ],
        multivariate: {
          variants: [
            { key: "a", rollout_percentage: 66.6 },
            { key: "b", name: "B", rollout_percentage: 33.4 },
          ],
        },
        payloads: { a: '{"n": 12345678901234567890}', b: [1, { __proto: null }] },
      },
      active: false,
      ensure_experience_continuity: true,
      rollback_conditions: [{ threshold: 5 }],
      performed_rollback: true,
      tags: ["one", "two"],
      evaluation_contexts: ["docs"],
      has_enriched_analytics: true,
      is_remote_configuration: true,
      evaluation_runtime: "server",
      bucketing_identifier: "device_id",
      created_at: "2025-01-02T03:04:05+01:00",
      last_called_at: "2025-02-02T00:00:00.5Z",
    };
    const flag = await create({
      ...writable,
      id: 77,
      version: 9,
      status: "STALE",
      created_by: { id: 1 },
      nonsense: true,
    });
    expect(flag).toMatchObject({
      ...writable,
      evaluation_tags: ["docs"],
      created_at: "2025-01-02T02:04:05Z",
      last_called_at: "2025-02-02T00:00:00.500000Z",
      version: 1,
      status: "INACTIVE",
    });
    expect(flag.id).not.toBe(77);
    expect(flag).not.toHaveProperty("nonsense");
  });

  test("[FM-8] null means the default where a field may be null", async () => {
    const flag = await create({
      key: "nulls",
      ensure_experience_continuity: null,
      performed_rollback: null,
      has_enriched_analytics: null,
      is_remote_configuration: null,
      has_encrypted_payloads: null,
      evaluation_runtime: null,
      bucketing_identifier: null,
      last_called_at: null,
    });
    expect(flag).toMatchObject({
      ensure_experience_continuity: false,
      evaluation_runtime: "all",
      bucketing_identifier: "distinct_id",
    });
  });

  test("[FM-8] keys named like parts of JavaScript are just keys", async () => {
    const { body } = await api.send(
      "POST",
      flagsPath,
      '{"key":"constructor","filters":{"groups":[{"properties":[{"key":"__proto__","type":"person","operator":"exact","value":"x"}]}],"multivariate":{"variants":[{"key":"__proto__","rollout_percentage":100}]},"payloads":{"__proto__":"1"}}}',
    );
    expect(body.key).toBe("constructor");
    expect(Object.entries(body.filters.payloads)).toEqual([["__proto__", "1"]]);
    expect(body.filters.groups[0].properties[0].key).toBe("__proto__");
  });

  test("[FM-19] a single condition on nothing but a rollout is a simple flag", async () => {
    const simple = { is_simple_flag: true, rollout_percentage: 12.5 };
    expect(
      await create({ key: "simple", filters: { groups: [{ rollout_percentage: 12.5 }] } }),
    ).toMatchObject(simple);
    expect(
      await create({
        key: "not-simple",
        filters: {
          groups: [{ rollout_percentage: 12.5 }],
          multivariate: { variants: [{ key: "a", rollout_percentage: 100 }] },
        },
      }),
    ).toMatchObject({ is_simple_flag: false, rollout_percentage: null });
  });

  test.each([
    ["no key", { name: "n" }, "required", "This field is required.", "key"],
    ["a null key", { key: null }, "null", "This field may not be null.", "key"],
    ["an empty key", { key: "" }, "blank", "This field may not be blank.", "key"],
    ["a key that is no text", { key: 1 }, "invalid_input", "Not a valid string.", "key"],
    [
      "a long key",
      { key: "k".repeat(401) },
      "max_length",
      "Ensure this field has no more than 400 characters.",
      "key",
    ],
    [
      "a key with a space",
      { key: "a b" },
      "invalid_key",
      "Only letters, numbers, hyphens (-) & underscores (_) are allowed.",
      "key",
    ],
    [
      "a key in another script",
      { key: "ключ" },
      "invalid_key",
      "Only letters, numbers, hyphens (-) & underscores (_) are allowed.",
      "key",
    ],
    [
      "a key with a line break",
      { key: "a\n" },
      "invalid_key",
      "Only letters, numbers, hyphens (-) & underscores (_) are allowed.",
      "key",
    ],
    [
      "active as text",
      { key: "k", active: "yes" },
      "invalid_input",
      "Must be a valid boolean.",
      "active",
    ],
    [
      "filters as a list",
      { key: "k", filters: [] },
      "invalid_input",
      'Expected a dictionary of items but got type "list".',
      "filters",
    ],
    ["null filters", { key: "k", filters: null }, "null", "This field may not be null.", "filters"],
    [
      "an unknown runtime",
      { key: "k", evaluation_runtime: "edge" },
      "invalid_choice",
      '"edge" is not a valid choice. Possible is server, client, all.',
      "evaluation_runtime",
    ],
    [
      "a tag that is no text",
      { key: "k", tags: ["a", 1] },
      "invalid_input",
      "Not a valid string.",
      "tags__1",
    ],
    [
      "a date that is none",
      { key: "k", created_at: "2025-02-31T25:00:00Z" },
      "invalid_input",
      "Datetime has wrong format. Use one of these formats instead: YYYY-MM-DDThh:mm[:ss[.uuuuuu]][+HH:MM|-HH:MM|Z].",
      "created_at",
    ],
    [
      "encrypted payloads",
      { key: "k", has_encrypted_payloads: true },
      "invalid_input",
      "Only payloads of remote configuration flags can be encrypted.",
      "has_encrypted_payloads",
    ],
  ])("[FM-3] %s is refused with the field named", async (_title, body, code, detail, attr) => {
    expect(await api.send("POST", flagsPath, body)).toMatchObject(refusal(code, detail, attr));
  });

  test("a body that is no object is refused", async () => {
    expect(await api.send("POST", flagsPath, "[]")).toMatchObject(
      refusal("invalid_input", "Invalid data. Expected a dictionary, but got list.", null),
    );
  });

  test("[FM-1] a key in use is refused, also for a renaming, and frees with its flag", async () => {
    const taken = refusal("unique", "There is already a feature flag with this key.", "key");
    const first = await create({ key: "taken" });
    const other = await create({ key: "other" });
    expect(await api.send("POST", flagsPath, { key: "taken" })).toMatchObject(taken);
    expect(await patch(other.id, { key: "taken" })).toMatchObject(taken);
    expect(await patch(first.id, { key: "taken", name: "own key" })).toMatchObject({ status: 200 });
    expect(await patch(first.id, { deleted: true })).toMatchObject({ status: 200 });
    const second = await create({ key: "taken" });
    expect(second.id).not.toBe(first.id);
    expect(await patch(first.id, { deleted: false })).toMatchObject(taken);
    expect(await api.send("GET", `${flagsPath}/${first.id}`)).toMatchObject({
      status: 200,
      body: { key: "taken", name: "own key", deleted: true, status: "DELETED" },
    });
  });
});

describe("changing a flag", () => {
  inNewProject();

  test("[FM-4] PATCH changes what it names and raises the version", async () => {
    const flag = await create({ key: "k", name: "before", tags: ["t"], filters: forEveryone });
    api.clock.now = new Date("2026-03-02T00:00:00Z");
    const { status, body } = await patch(flag.id, { name: "after" });
    expect(status).toBe(200);
    expect(body).toEqual({
      ...flag,
      name: "after",
      version: 2,
      updated_at: "2026-03-02T00:00:00Z",
    });
  });

  test("[FM-6] a change is live when it is answered", async () => {
    const flag = await create({ key: "live", filters: forEveryone });
    const keys = async () => [...(await api.compiledFlags.get(projectId)).flagSet.byKey.keys()];
    expect(await keys()).toContain("live");
    await patch(flag.id, { active: false });
    expect(await keys()).not.toContain("live");
    await patch(flag.id, { active: true, key: "renamed" });
    expect(await keys()).toContain("renamed");
    await patch(flag.id, { deleted: true });
    expect(await keys()).not.toContain("renamed");
  });

  test("[FM-35] a misspelt field in filters is refused and leaves the flag as it was", async () => {
    const filters = { groups: [{ properties: [], rollout_percentage: 0 }] };
    const flag = await create({ key: "spelt", filters });
    for (const [sent, path, meant] of [
      [{ groups: [{ propertes: [] }] }, "filters.groups[0].propertes", "properties"],
      [{ gruops: [{ properties: [] }] }, "filters.gruops", "groups"],
    ] as const) {
      expect(await patch(flag.id, { filters: sent })).toMatchObject(
        refusal("invalid_input", `${path} is not a known field. Did you mean ${meant}?`, "filters"),
      );
    }
    expect((await api.send("GET", `${flagsPath}/${flag.id}`)).body).toEqual(flag);
  });

  test("[FM-5] simultaneous changes of different fields are all kept", async () => {
    const flag = await create({ key: "busy" });
    await Promise.all([
      patch(flag.id, { name: "n" }),
      patch(flag.id, { active: false }),
      patch(flag.id, { tags: ["t"] }),
      patch(flag.id, { filters: forEveryone }),
    ]);
    expect((await api.send("GET", `${flagsPath}/${flag.id}`)).body).toMatchObject({
      name: "n",
      active: false,
      tags: ["t"],
      filters: forEveryone,
      version: 5,
    });
  });

  test("[FM-10] PATCH filters without groups keep the stored filters; PUT replaces them", async () => {
    const flag = await create({ key: "patched", filters: forEveryone });
    const patched = await patch(flag.id, { name: "n", filters: { payloads: { true: "1" } } });
    expect(patched.body).toMatchObject({ name: "n", filters: forEveryone });
    const put = await api.send("PUT", `${flagsPath}/${flag.id}`, { key: "patched", filters: {} });
    expect(put).toMatchObject({ status: 200, body: { name: "n", filters: { groups: [] } } });
    expect(await api.send("PUT", `${flagsPath}/${flag.id}`, { name: "n" })).toMatchObject(
      refusal("required", "This field is required.", "key"),
    );
  });

  test("[FM-9] a flag is deleted by PATCH, hidden from lists, and can be restored", async () => {
    const flag = await create({ key: "gone" });
    const path = `${flagsPath}/${flag.id}`;
    expect(await api.send("DELETE", path)).toMatchObject({
      status: 405,
      body: {
        type: "invalid_request",
        code: "method_not_allowed",
        detail: 'Method "DELETE" not allowed.',
        attr: null,
      },
    });
    expect(await patch(flag.id, { key: "gone", deleted: true })).toMatchObject({
      status: 200,
      body: { deleted: true, status: "DELETED", version: 2 },
    });
    const listed = async () =>
      (await api.send("GET", flagsPath)).body.results.map(({ key }: { key: string }) => key);
    expect(await listed()).not.toContain("gone");
    expect((await api.send("GET", path)).body).toMatchObject({ id: flag.id, deleted: true });
    await patch(flag.id, { deleted: false });
    expect(await listed()).toContain("gone");
  });

  test("[FM-13] a flag that others depend on is not deleted, and they are named", async () => {
    const base = await create({ key: "base", filters: forEveryone });
    const dependent = (value: unknown) => ({
      groups: [
        {
          properties: [
            { key: String(base.id), type: "flag", operator: "flag_evaluates_to", value },
          ],
        },
      ],
    });
    const first = await create({ key: "a-dependent", filters: dependent(true) });
    const second = await create({ key: "b-dependent", active: false, filters: dependent(false) });
    expect(await patch(base.id, { deleted: true })).toMatchObject(
      refusal(
        "invalid_input",
        `Cannot delete this feature flag because other flags depend on it: a-dependent (ID: ${first.id}), b-dependent (ID: ${second.id}). Please update or delete the dependent flags first.`,
        null,
      ),
    );
    expect(await patch(base.id, { active: false })).toMatchObject({ status: 200 });
    await patch(first.id, { deleted: true });
    await patch(second.id, { filters: forEveryone });
    expect(await patch(base.id, { deleted: true })).toMatchObject({ status: 200 });
  });

  test("[FM-36] a flag that persons enrol in is a feature: it is named, and not deleted before that ends", async () => {
    for (const [at, enrolment] of [
      { feature_enrollment: true },
      { super_groups: [{ properties: [] }] },
    ].entries()) {
      const filters = { groups: [], ...enrolment, payloads: { true: '"soon"' } };
      const flag = await create({ key: `early-${at}`, name: "Early bird", filters });
      expect(flag.features).toEqual([
        {
          id: String(flag.id),
          name: "Early bird",
          description: "Early bird",
          stage: "beta",
          documentationUrl: null,
          payload: '"soon"',
          flagKey: `early-${at}`,
        },
      ]);
      const named = expect.stringContaining(`early access features: Early bird (ID: ${flag.id})`);
      expect(await patch(flag.id, { deleted: true })).toMatchObject({
        status: 400,
        body: { code: "invalid_input", attr: null, detail: named },
      });
      const bulk = await api.send("POST", `${flagsPath}/bulk_delete`, { ids: [flag.id] });
      expect(bulk.body).toMatchObject({ deleted: [], errors: [{ id: flag.id, reason: named }] });
      const ended = await patch(flag.id, { filters: { groups: [] } });
      expect(ended.body.features).toEqual([]);
      expect(await patch(flag.id, { deleted: true })).toMatchObject({ status: 200 });
    }
  });

  test("[FM-16] a renaming carries the enrolment property of super groups along", async () => {
    const superGroups = (key: string) => [
      {
        properties: [
          {
            key: `$feature_enrollment/${key}`,
            type: "person",
            operator: "exact",
            value: ["true"],
          },
          { key: "other", type: "person", operator: "is_set", value: "is_set" },
        ],
        rollout_percentage: 100,
      },
    ];
    const flag = await create({
      key: "early",
      filters: { ...forEveryone, super_groups: superGroups("early") },
    });
    const { body } = await patch(flag.id, { key: "later" });
    expect(body.filters.super_groups).toEqual(superGroups("later"));
  });

  test("[FM-17] activating a flag ends its rollback", async () => {
    const flag = await create({ key: "rolled-back", active: false, performed_rollback: true });
    expect((await patch(flag.id, { name: "n" })).body.performed_rollback).toBe(true);
    expect((await patch(flag.id, { active: true })).body.performed_rollback).toBe(false);
  });

  test.each(["0", "999999", "abc", "1.5", "-1", "99999999999999999999"])(
    "[FM-18] the unknown id %s is not found",
    async (id) => {
      const notFound = {
        status: 404,
        body: { type: "invalid_request", code: "not_found", detail: "Not found.", attr: null },
      };
      expect(await api.send("GET", `${flagsPath}/${id}`)).toMatchObject(notFound);
      expect(await api.send("PATCH", `${flagsPath}/${id}`, { name: "n" })).toMatchObject(notFound);
    },
  );

  test("[FM-18] a flag of another project is not found", async () => {
    const flag = await create({ key: "mine" });
    const elsewhere = `/api/projects/${await api.newProject()}/feature_flags/${flag.id}`;
    expect((await api.send("GET", elsewhere)).status).toBe(404);
    expect((await api.send("PATCH", elsewhere, { deleted: true })).status).toBe(404);
    expect((await api.send("GET", `${flagsPath}/${flag.id}`)).body.deleted).toBe(false);
  });
});

describe("listing flags", () => {
  inNewProject();

  test("[FM-11] more flags than fit a page are reached by following next", async () => {
    for (let n = 0; n < 101; n++) await create({ key: `f${n}` });
    let url: string | null = `${flagsPath}/?search=F&active=true`;
    const keys: string[] = [];
    let pages = 0;
    while (url !== null) {
      const { status, body } = await api.send("GET", url);
      expect(status).toBe(200);
      expect(Object.keys(body)).toEqual(["count", "next", "previous", "results"]);
      expect(body.count).toBe(101);
      keys.push(...body.results.map(({ key }: { key: string }) => key));
      url = body.next && new URL(body.next).pathname + new URL(body.next).search;
      pages++;
    }
    expect(pages).toBe(2);
    expect(new Set(keys).size).toBe(101);
    const { body } = await api.send("GET", `${flagsPath}?offset=50&limit=20`);
    expect(body.next).toBe(`http://localhost${flagsPath}?limit=20&offset=70`);
    expect(body.previous).toBe(`http://localhost${flagsPath}?limit=20&offset=30`);
  });

  test("[FM-12] filters and order are read from the query; what means nothing is ignored", async () => {
    await create({ key: "z-off", name: "Checkout", active: false });
    await create({
      key: "y-variants",
      filters: { groups: [], multivariate: { variants: [{ key: "a", rollout_percentage: 100 }] } },
    });
    const keys = async (query: string) =>
      (await api.send("GET", `${flagsPath}?limit=200&${query}`)).body.results.map(
        ({ key }: { key: string }) => key,
      );
    expect(await keys("active=false")).toEqual(["z-off"]);
    expect(await keys("search=CHECK")).toEqual(["z-off"]);
    expect(await keys("type=multivariant")).toEqual(["y-variants"]);
    expect(await keys(`created_by_id=${api.user.id + 1}`)).toEqual([]);
    expect(await keys(`created_by_id=${api.user.id}`)).toHaveLength(103);
    expect((await keys("order=-key")).slice(0, 2)).toEqual(["z-off", "y-variants"]);
    expect((await keys("order=key"))[0]).toBe("f0");
    expect(await keys("evaluation_runtime=client")).toEqual([]);
    for (const nonsense of ["active=maybe", "type=x", "order=__proto__", "created_by_id=x"]) {
      expect(await keys(nonsense)).toHaveLength(103);
    }
    expect(await keys("active=true&active=false")).toEqual(["z-off"]);
  });
});

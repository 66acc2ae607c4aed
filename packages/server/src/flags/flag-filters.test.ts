import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openFlagsApi } from "./flags-api.setup.ts";

let api: Awaited<ReturnType<typeof openFlagsApi>>;
let path: string;
let base: { id: number; key: string };
let keys = 0;

const person = (operator: string, value?: unknown) => ({
  key: "p",
  type: "person",
  operator,
  ...(value === undefined ? {} : { value }),
});
const when = (...properties: object[]) => ({ groups: [{ properties, rollout_percentage: 100 }] });
const inCohort = (value: unknown) => when({ key: "id", type: "cohort", operator: "in", value });
const dependsOn = (key: string, value: unknown = true) =>
  when({ key, type: "flag", operator: "flag_evaluates_to", value });
const variants = (...shares: number[]) => ({
  variants: shares.map((share, at) => ({ key: `v${at}`, rollout_percentage: share })),
});

beforeAll(async () => {
  api = await openFlagsApi();
  const project = `/api/projects/${await api.newProject()}`;
  path = `${project}/feature_flags`;
  base = (await api.send("POST", path, { key: "base", filters: when() })).body;
});
afterAll(() => api.close());

const create = (filters: unknown) => api.send("POST", path, { key: `k${++keys}`, filters });

describe("filters that are refused", () => {
  test.each<[string, () => object, string, string]>([
    [
      "a group property in a person flag",
      () => when({ key: "p", type: "group", group_type_index: 0, operator: "exact", value: "x" }),
      "invalid_input",
      "Filters are not valid (can only use person, cohort, and flag properties)",
    ],
    [
      "a person property in a group flag",
      () => ({ ...when(person("exact", "x")), aggregation_group_type_index: 0 }),
      "invalid_input",
      "Filters are not valid (can only use group properties)",
    ],
    [
      "a property of another group type in a group flag",
      () => ({
        ...when({ key: "p", type: "group", group_type_index: 1, operator: "exact", value: "x" }),
        aggregation_group_type_index: 0,
      }),
      "invalid_input",
      "Filters are not valid (can only use group properties)",
    ],
    ...[[50], [50, 49], [33.3, 33.3, 33.3], [99.999]].map(
      (shares): [string, () => object, string, string] => [
        `variants of ${shares.join(" + ")} %`,
        () => ({ ...when(), multivariate: variants(...shares) }),
        "invalid_input",
        "Invalid variant definitions: Variant rollout percentages must sum to 100.",
      ],
    ),
    [
      "the override of a variant that is not there",
      () => ({ groups: [{ variant: "x" }], multivariate: variants(100) }),
      "invalid_input",
      "Filters are not valid (variant override does not exist)",
    ],
    [
      "an unknown cohort",
      () => inCohort(987654),
      "cohort_does_not_exist",
      "Cohort with id 987654 does not exist",
    ],
    [
      "a date that is none",
      () => when(person("is_date_before", "soon")),
      "invalid_date",
      "Invalid date value: soon",
    ],
    ...["icontains", "not_icontains", "regex", "not_regex"].map(
      (operator): [string, () => object, string, string] => [
        `a number for ${operator}`,
        () => when(person(operator, 5)),
        "invalid_value",
        `Invalid value for operator ${operator}: 5`,
      ],
    ),
    [
      "a value that no number can be compared with",
      () => when(person("gt", "many")),
      "invalid_value",
      "Invalid value for operator gt: many",
    ],
    [
      "more than 1000 values",
      () =>
        when(
          person(
            "exact",
            Array.from({ length: 1001 }, (_, n) => `${n}`),
          ),
        ),
      "invalid_input",
      "Property group expressions of type p cannot contain more than 1000 values.",
    ],
    [
      "payloads that are no object",
      () => ({ ...when(), payloads: ["1"] }),
      "invalid_input",
      "Payloads must be passed as a dictionary",
    ],
    [
      "a payload for no variant",
      () => ({ ...when(), multivariate: variants(100), payloads: { true: "1" } }),
      "invalid_input",
      "Payload keys must match a variant key for multivariate flags",
    ],
    [
      "a payload of a variant for a boolean flag",
      () => ({ ...when(), payloads: { v0: "1" } }),
      "invalid_input",
      "Payload keys must be 'true' for boolean flags",
    ],
    [
      "a dependency on no flag",
      () => dependsOn("987654"),
      "invalid_input",
      "Flag dependency references non-existent flag with ID 987654",
    ],
  ])("[FM-14] %s", async (_title, filters, code, detail) => {
    const answer = await create(filters());
    expect(answer).toMatchObject({
      status: 400,
      body: { type: "validation_error", code, detail, attr: "filters" },
    });
  });

  test("[FM-14] a flag that persons enrol in does not become one of groups", async () => {
    for (const [at, enrolment] of [
      { feature_enrollment: true },
      { super_groups: [{ properties: [] }] },
    ].entries()) {
      const filters = { groups: [], ...enrolment };
      const { body } = await api.send("POST", path, { key: `enrolled-${at}`, filters });
      const ofGroups = { ...filters, aggregation_group_type_index: 0 };
      expect(await api.send("PATCH", `${path}/${body.id}`, { filters: ofGroups })).toMatchObject({
        status: 400,
        body: {
          attr: null,
          code: "invalid_input",
          detail:
            "Cannot change this flag to a group-based when linked to an Early Access Feature.",
        },
      });
    }
  });

  test("[FM-15] a payload that is no JSON is refused, naming its variant", async () => {
    const { status, body } = await create({
      ...when(),
      multivariate: variants(60, 40),
      payloads: { v0: '{"ok": true}', v1: "{bad" },
    });
    expect(status).toBe(400);
    expect(body).toMatchObject({ code: "invalid_input", attr: "filters" });
    expect(body.detail).toMatch(/^Payload value is not valid JSON.*v1/);
  });

  test("[FM-14] a flag cannot come to depend on itself, at once or by a detour", async () => {
    const first = (await create(dependsOn(String(base.id)))).body;
    const second = (await create(dependsOn(String(first.id), "v"))).body;
    const patch = (id: number, filters: object) => api.send("PATCH", `${path}/${id}`, { filters });
    expect(await patch(first.id, dependsOn(String(first.id)))).toMatchObject({
      status: 400,
      body: {
        code: "invalid_input",
        detail: `Feature flag '${first.key}' cannot depend on itself`,
        attr: "filters",
      },
    });
    expect(await patch(base.id, dependsOn(String(second.id)))).toMatchObject({
      status: 400,
      body: {
        code: "invalid_input",
        detail: `Circular dependency detected: base → ${second.key} → ${first.key} → base`,
        attr: "filters",
      },
    });
  });

  test.each<[string, unknown]>([
    ["a rollout above 100", { groups: [{ rollout_percentage: 100.5 }] }],
    ["a negative rollout", { groups: [{ rollout_percentage: -1 }] }],
    ["a rollout as text", { groups: [{ rollout_percentage: "50" }] }],
    ["conditions that are no list", { groups: { 0: {} } }],
    ["a condition that is no object", { groups: [null] }],
    ["properties that are no list", { groups: [{ properties: {} }] }],
    ["an unknown operator", when(person("sounds_like", "x"))],
    ["an operator without its value", when(person("icontains"))],
    ["a group type that cannot be", { groups: [{ aggregation_group_type_index: 1.5 }] }],
    [
      "variants with one key",
      {
        groups: [],
        multivariate: {
          variants: [
            { key: "a", rollout_percentage: 50 },
            { key: "a", rollout_percentage: 50 },
          ],
        },
      },
    ],
    ["rules of another format", { version: 2, groups: [] }],
  ])("[FM-14] %s is refused with a reason", async (_title, filters) => {
    const { status, body } = await create(filters);
    expect(status).toBe(400);
    expect(body).toMatchObject({ type: "validation_error", attr: "filters" });
    expect(body.detail).not.toBe("");
  });

  test("[FM-14] a refused change leaves the flag as it was", async () => {
    const { body: flag } = await create(when(person("exact", "x")));
    const refused = await api.send("PATCH", `${path}/${flag.id}`, {
      name: "new",
      filters: inCohort(987654),
    });
    expect(refused.status).toBe(400);
    expect((await api.send("GET", `${path}/${flag.id}`)).body).toEqual(flag);
  });
});

describe("filters that are taken", () => {
  const stored = async (filters: object) => {
    const { status, body } = await create(filters);
    if (status !== 201) throw new Error(JSON.stringify(body));
    return body.filters;
  };

  test("[FM-15] payloads are kept as sent, but an empty text is no payload", async () => {
    const payloads = { v0: ' {"n": 1.0} ', v1: { a: [1, null] }, v2: 7, v3: "" };
    const { v3: _none, ...kept } = payloads;
    expect(
      (await stored({ ...when(), multivariate: variants(25, 25, 25, 25), payloads })).payloads,
    ).toEqual(kept);
  });

  test("[FM-20] the oldest form becomes one condition, and no filters at all none", async () => {
    const properties = [person("exact", "x")];
    expect(await stored({ properties, rollout_percentage: 30 })).toEqual({
      groups: [{ properties, rollout_percentage: 30 }],
    });
    expect(await stored({ properties })).toEqual({
      groups: [{ properties, rollout_percentage: null }],
    });
    expect(await stored({})).toEqual({ groups: [] });
  });

  test("[FM-21] a dependency sent by key is stored by id", async () => {
    expect(await stored(dependsOn("base"))).toEqual(dependsOn(String(base.id)));
  });

  test("[FM-14] fractional shares that sum to 100 but for binary noise", async () => {
    const multivariate = variants(...Array.from({ length: 3 }, () => 100 / 3));
    expect(await stored({ ...when(), multivariate })).toMatchObject({ multivariate });
  });
});

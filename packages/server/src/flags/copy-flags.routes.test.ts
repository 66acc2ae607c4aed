import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openFlagsApi } from "./flags-api.setup.ts";

let api: Awaited<ReturnType<typeof openFlagsApi>>;
let from: number;
let to: number;

beforeAll(async () => {
  api = await openFlagsApi();
});
afterAll(() => api.close());

const inNewProjects = () =>
  beforeAll(async () => {
    from = await api.newProject();
    to = await api.newProject();
  });
const create = async (project: number, body: object) => {
  const answer = await api.send("POST", `/api/projects/${project}/feature_flags`, body);
  expect(answer.status).toBe(201);
  return answer.body;
};
const cohort = async (project: number, body: object) =>
  (await api.send("POST", `/api/projects/${project}/cohorts`, body)).body;
const copy = (body: object) =>
  api.send("POST", "/api/organizations/@current/feature_flags/copy_flags/", {
    from_project: from,
    target_project_ids: [to],
    ...body,
  });
const plan = { key: "plan", type: "person", operator: "exact", value: "pro" };

describe("copying a flag to other projects", () => {
  inNewProjects();

  test("[FM-34] makes the same flag there, or of the flag that has its key", async () => {
    const flag = await create(from, {
      key: "copied",
      name: "A copy",
      tags: ["a"],
      filters: {
        groups: [{ properties: [plan], rollout_percentage: 30, variant: "x" }],
        multivariate: { variants: [{ key: "x", rollout_percentage: 100 }] },
        payloads: { x: "1" },
      },
    });
    const { status, body } = await copy({ feature_flag_key: "copied" });
    expect(status).toBe(200);
    expect(body.failed).toEqual([]);
    const { key, name, tags, filters } = flag;
    expect(body.success).toMatchObject([{ team_id: to, key, name, tags, filters, version: 1 }]);
    await api.send("PATCH", `/api/projects/${from}/feature_flags/${flag.id}`, { active: false });
    const again = await copy({ feature_flag_key: "copied" });
    expect(again.body.success).toMatchObject([
      { id: body.success[0].id, active: false, version: 2 },
    ]);
  });

  test("[FM-34] takes along cohorts by name, the nested ones too, each once", async () => {
    const inner = await cohort(from, {
      name: "inner",
      filters: { properties: { type: "AND", values: [plan] } },
    });
    const outer = await cohort(from, {
      name: "outer",
      filters: {
        properties: {
          type: "AND",
          values: [{ key: "id", type: "cohort", value: inner.id, negation: false }],
        },
      },
    });
    const inOuter = { key: "id", type: "cohort", operator: "in", value: outer.id };
    for (const key of ["with-cohort", "with-cohort-too"]) {
      await create(from, { key, filters: { groups: [{ properties: [inOuter] }] } });
      const { body } = await copy({ feature_flag_key: key });
      expect(body.failed).toEqual([]);
      const used = body.success[0].filters.groups[0].properties[0].value;
      expect(used).not.toBe(outer.id);
      const there = (await api.send("GET", `/api/projects/${to}/cohorts/${used}`)).body;
      expect(there.name).toBe("outer");
    }
    const { body } = await api.send("GET", `/api/projects/${to}/cohorts`);
    expect(body.results.map(({ name }: { name: string }) => name).toSorted()).toEqual([
      "inner",
      "outer",
    ]);
  });

  test("[FM-34] tells what a project lacks, and copies to the others", async () => {
    const needed = await create(from, { key: "needed" });
    await create(from, {
      key: "needing",
      filters: {
        groups: [
          {
            properties: [
              {
                key: String(needed.id),
                type: "flag",
                operator: "flag_evaluates_to",
                value: true,
              },
            ],
          },
        ],
      },
    });
    const third = await api.newProject();
    const there = await create(third, { key: "needed" });
    const { body } = await copy({
      feature_flag_key: "needing",
      target_project_ids: [to, third],
    });
    expect(body.failed).toEqual([
      { project_id: to, error_message: expect.stringContaining("needed") },
    ]);
    expect(body.success[0]).toMatchObject({ team_id: third });
    expect(body.success[0].filters.groups[0].properties[0].key).toBe(String(there.id));
  });

  test("[FM-34] makes no cohort for a copy that is refused for something else", async () => {
    const rule = {
      properties: {
        type: "AND",
        values: [{ key: "plan", type: "person", operator: "exact", value: ["pro"] }],
      },
    };
    const made = await cohort(from, { name: "only here", filters: rule });
    const byHand = await cohort(from, { name: "listed here", is_static: true });
    const needed = await create(from, { key: "only-here" });
    const isIn = (id: number) => ({ key: "id", type: "cohort", operator: "in", value: id });
    const turnedOn = {
      key: String(needed.id),
      type: "flag",
      operator: "flag_evaluates_to",
      value: true,
    };
    const refused = [
      ["needs-flag", [isIn(made.id), turnedOn]],
      ["needs-list", [isIn(made.id), isIn(byHand.id)]],
    ] as const;
    for (const [key, properties] of refused) {
      await create(from, { key, filters: { groups: [{ properties }] } });
      const { body } = await copy({ feature_flag_key: key });
      expect(body.failed).toHaveLength(1);
    }
    const { body } = await api.send("GET", `/api/projects/${to}/cohorts?search=only%20here`);
    expect(body.count).toBe(0);
  });

  test("[FM-34] does not make static cohorts, whose members are of their project", async () => {
    const person = await api.newPerson(from, ["somebody"]);
    const made = await cohort(from, { name: "by hand", is_static: true });
    expect(person.id).toBeGreaterThan(0);
    await create(from, {
      key: "static",
      filters: {
        groups: [{ properties: [{ key: "id", type: "cohort", operator: "in", value: made.id }] }],
      },
    });
    const { body } = await copy({ feature_flag_key: "static" });
    expect(body.failed[0].error_message).toContain('"by hand"');
    const there = await cohort(to, { name: "by hand", is_static: true });
    const again = await copy({ feature_flag_key: "static" });
    expect(again.body.success[0].filters.groups[0].properties[0].value).toBe(there.id);
  });

  test("[FM-34] names group types by name, not by number", async () => {
    const types = (project: number, index: number, name: string) =>
      api.database.writes
        .insertInto("group_types")
        .values({ project_id: project, index, name })
        .execute();
    await types(from, 0, "company");
    await create(from, {
      key: "of-companies",
      filters: { groups: [{ properties: [] }], aggregation_group_type_index: 0 },
    });
    const lacking = await copy({ feature_flag_key: "of-companies" });
    expect(lacking.body.failed).toHaveLength(1);
    const third = await api.newProject();
    await types(third, 0, "team");
    await types(third, 1, "company");
    const { body } = await copy({ feature_flag_key: "of-companies", target_project_ids: [third] });
    expect(body.success[0].filters.aggregation_group_type_index).toBe(1);
  });

  test("[FM-34] encrypts payloads anew for the other project", async () => {
    await create(from, {
      key: "sealed",
      is_remote_configuration: true,
      has_encrypted_payloads: true,
      filters: { groups: [], payloads: { true: '"a secret"' } },
    });
    const { body } = await copy({ feature_flag_key: "sealed" });
    const { id } = body.success[0];
    expect(body.success[0].has_encrypted_payloads).toBe(true);
    const opened = await api.send("PATCH", `/api/projects/${to}/feature_flags/${id}`, {
      has_encrypted_payloads: false,
    });
    expect(opened.body.filters.payloads).toEqual({ true: '"a secret"' });
  });

  test.each([
    ["no key", { feature_flag_key: undefined }, "feature_flag_key"],
    ["no targets", { feature_flag_key: "copied", target_project_ids: [] }, "target_project_ids"],
    [
      "an unknown target",
      { feature_flag_key: "copied", target_project_ids: [999_999] },
      "target_project_ids",
    ],
    ["an unknown source", { feature_flag_key: "copied", from_project: 999_999 }, "from_project"],
  ])("[FM-34] refuses %s", async (_, body, attr) => {
    expect(await copy(body)).toMatchObject({ status: 400, body: { attr } });
  });

  test("[FM-34] refuses a copy onto itself and finds no unknown flag", async () => {
    expect(await copy({ feature_flag_key: "copied", target_project_ids: [from] })).toMatchObject({
      status: 400,
      body: { attr: "target_project_ids" },
    });
    expect(await copy({ feature_flag_key: "unknown" })).toMatchObject({ status: 404 });
  });
});

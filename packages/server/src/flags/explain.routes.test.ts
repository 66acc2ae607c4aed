import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openFlagsApi } from "./flags-api.setup.ts";

let api: Awaited<ReturnType<typeof openFlagsApi>>;
let path: string;
let projectId: number;

beforeAll(async () => {
  api = await openFlagsApi();
  projectId = await api.newProject();
  path = `/api/projects/${projectId}/feature_flags`;
  await api.newPerson(projectId, ["u1"]);
});
afterAll(() => api.close());

const create = async (body: object) => {
  const answer = await api.send("POST", path, body);
  expect(answer.status).toBe(201);
  return answer.body;
};

describe("explaining a flag over HTTP", () => {
  test("[EX-7] what is stored is told only to keys that may read persons and groups", async () => {
    const { id: personId } = await api.newPerson(projectId, ["secretive"]);
    await api.database.writes
      .updateTable("persons")
      .set({ properties: JSON.stringify({ plan: "a secret", "$feature_enrollment/outer": true }) })
      .where("id", "=", personId)
      .execute();
    await api.database.writes
      .insertInto("flag_hash_key_overrides")
      .values({
        person_id: personId,
        flag_key: "inner",
        hash_key: "a secret",
      })
      .execute();
    const plan = { key: "plan", type: "person", operator: "icontains", value: "secret" };
    const groups = [{ properties: [plan], rollout_percentage: 50 }];
    const inner = await create({
      key: "inner",
      ensure_experience_continuity: true,
      filters: {
        groups,
        multivariate: {
          variants: [
            { key: "a", rollout_percentage: 40 },
            { key: "b", rollout_percentage: 60 },
          ],
        },
      },
    });
    const outer = await create({
      key: "outer",
      filters: {
        groups: [
          {
            properties: [
              { key: String(inner.id), type: "flag", operator: "flag_evaluates_to", value: true },
            ],
          },
        ],
        feature_enrollment: true,
      },
    });
    const ask = async (id: number, more: object = {}) =>
      (await api.send("POST", `${path}/${id}/explain`, { distinct_id: "secretive", ...more })).body;
    const open = [await ask(inner.id), await ask(outer.id)];
    expect(JSON.stringify(open)).toContain("a secret");
    expect(open[0].conditions[0]).toMatchObject({
      filters: [{ value: "a secret", source: "stored" }],
      rollout: { identifier: "a secret" },
    });
    api.granted.scopes = ["feature_flag:read", "feature_flag:write"];
    try {
      const shut = [await ask(inner.id), await ask(outer.id)];
      expect(JSON.stringify(shut)).not.toContain("a secret");
      expect(shut.map(({ value }) => value)).toEqual(open.map(({ value }) => value));
      expect(shut[0].conditions[0]).toMatchObject({
        outcome: open[0].conditions[0].outcome,
        filters: [{ value: null, source: "hidden", outcome: "match" }],
        rollout: { identifier: null },
      });
      expect(shut[0].explanation).toContain('plan icontains "secret", saw a stored value');
      expect(shut[1]).toMatchObject({
        enrollment: { value: null, source: "hidden", decides: true },
        dependencies: [{ conditions: [{ filters: [{ source: "hidden" }] }] }],
        explanation: expect.stringContaining("decides before all conditions: saw a stored value"),
      });
      // What the caller sends is told as it was sent.
      const sent = await ask(inner.id, { person_properties: { plan: "my secret" } });
      expect(sent.conditions[0].filters[0]).toMatchObject({
        value: "my secret",
        source: "override",
      });
    } finally {
      api.granted.scopes = ["*"];
    }
  });

  test("[EX-5] GET explains as things are stored, POST with overrides, both in words too", async () => {
    const filter = (key: string, value: string) => ({
      key,
      type: "person",
      operator: "exact",
      value: [value],
    });
    const flag = await create({
      key: "explained",
      filters: {
        groups: [
          { properties: [filter("plan", "pro"), filter("$geoip_city_name", "City of 1.2.3.4")] },
        ],
        payloads: { true: '{"a":1}' },
      },
    });
    const stored = await api.send("GET", `${path}/${flag.id}/explain?distinct_id=u1`);
    expect(stored).toMatchObject({
      status: 200,
      body: {
        flag: { id: flag.id, key: "explained", version: 1 },
        value: false,
        reason: { code: "no_condition_match", condition_index: 0 },
        conditions: [
          { reached: true, filters: [{ key: "plan", value: null, source: "missing" }, {}] },
        ],
        explanation:
          '"explained" is false for "u1": No matching condition set. Condition 1 did not match: plan exact ["pro"], there was no value.',
      },
    });
    const overridden = await api.send("POST", `${path}/${flag.id}/explain`, {
      distinct_id: "u1",
      person_properties: { plan: "pro" },
      ip: "1.2.3.4",
    });
    expect(overridden).toMatchObject({
      status: 200,
      body: {
        value: true,
        payload: '{"a":1}',
        conditions: [
          {
            outcome: "match",
            rollout: { percentage: 100, hash: null, inside: true },
            filters: [
              { key: "plan", value: "pro", source: "override", outcome: "match" },
              { key: "$geoip_city_name", source: "geo" },
            ],
          },
        ],
      },
    });
  });

  test("[EX-5] a switched-off flag is explained; an unknown one and a missing or odd person are refused", async () => {
    const flag = await create({ key: "off", active: false });
    expect((await api.send("GET", `${path}/${flag.id}/explain?distinct_id=u1`)).body).toMatchObject(
      {
        active: false,
        value: false,
        reason: { code: "flag_disabled" },
      },
    );
    expect((await api.send("GET", `${path}/99999/explain?distinct_id=u1`)).status).toBe(404);
    expect(await api.send("GET", `${path}/${flag.id}/explain`)).toMatchObject({
      status: 400,
      body: { code: "required", attr: "distinct_id" },
    });
    for (const groups of ["[1]", "{bad", '{"company":{}}']) {
      const query = `distinct_id=u1&groups=${encodeURIComponent(groups)}`;
      expect(await api.send("GET", `${path}/${flag.id}/explain?${query}`)).toMatchObject({
        status: 400,
        body: { attr: "groups" },
      });
    }
    expect(
      await api.send("POST", `${path}/${flag.id}/explain`, { distinct_id: "u", groups: [] }),
    ).toMatchObject({ status: 400, body: { attr: "groups" } });
  });

  test("[EX-5] as many groups as a flag request may name are taken, whatever they are, and more refused", async () => {
    const flag = await create({
      key: "many-groups",
      filters: {
        groups: [
          { properties: [{ key: "plan", type: "person", operator: "is_set", value: "is_set" }] },
        ],
      },
    });
    const groups = (count: number) =>
      Object.fromEntries(Array.from({ length: count }, (_, at) => [`type ${at}`, "acme"]));
    const ask = (body: object) =>
      api.send("POST", `${path}/${flag.id}/explain`, { distinct_id: "u1", ...body });
    // What is stored of the person could be read, so that there is nothing, and not nothing known.
    expect(await ask({ groups: groups(1_000) })).toMatchObject({
      status: 200,
      body: { conditions: [{ filters: [{ source: "missing" }] }] },
    });
    for (const attr of ["groups", "group_properties"]) {
      const sent = Object.fromEntries(
        Object.keys(groups(1_001)).map((type) => [type, attr === "groups" ? "a" : {}]),
      );
      expect(await ask({ [attr]: sent })).toMatchObject({
        status: 400,
        body: { code: "invalid_input", attr },
      });
    }
  });

  test("[EX-5] a flag is named by its id or its key, and an id comes before a key of digits", async () => {
    const first = await create({ key: "named" });
    const second = await create({ key: String(first.id) });
    for (const [name, id] of [
      ["named", first.id],
      [first.id, first.id],
      [second.id, second.id],
    ]) {
      const { status, body } = await api.send("GET", `${path}/${name}/explain?distinct_id=u1`);
      expect([status, body.flag?.id]).toEqual([200, id]);
    }
    expect((await api.send("GET", `${path}/unnamed/explain?distinct_id=u1`)).status).toBe(404);
  });

  test("[FM-25] every flag's value and reason are told at once, and keys by ids", async () => {
    const on = await create({ key: "reason-on", filters: { groups: [{ properties: [] }] } });
    const client = await create({
      key: "reason-client",
      evaluation_runtime: "client",
      filters: { groups: [{ properties: [], rollout_percentage: 0 }] },
    });
    await create({ key: "reason-off", active: false });
    const reasons = await api.send("GET", `${path}/evaluation_reasons?distinct_id=u1`);
    expect(reasons).toMatchObject({
      status: 200,
      body: {
        "reason-on": { value: true, evaluation: { reason: "condition_match", condition_index: 0 } },
        "reason-client": { value: false, evaluation: { reason: "out_of_rollout_bound" } },
        "reason-off": { value: false, evaluation: { reason: "disabled", condition_index: null } },
      },
    });
    expect((await api.send("GET", `${path}/evaluation_reasons`)).body.attr).toBe("distinct_id");
    const keys = { [on.id]: "reason-on", [client.id]: "reason-client" };
    const ask = (ids: unknown) => api.send("POST", `${path}/bulk_keys`, { ids });
    expect((await ask([on.id, String(client.id), 99999])).body).toEqual({ keys });
    expect((await ask([on.id, "x"])).body).toEqual({
      keys: { [on.id]: "reason-on" },
      warning: 'Invalid flag IDs ignored: ["x"]',
    });
    expect((await ask([])).body).toEqual({ keys: {} });
    expect(await ask(["x", {}])).toMatchObject({
      status: 400,
      body: { attr: "ids", code: "invalid_input", error: "Invalid flag IDs provided" },
    });
  });
});

import { randomUUID } from "node:crypto";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openFlagsApi } from "./flags-api.setup.ts";

let api: Awaited<ReturnType<typeof openFlagsApi>>;
let projectId: number;
let path: string;

beforeAll(async () => {
  api = await openFlagsApi();
  projectId = await api.newProject();
  path = `/api/projects/${projectId}/feature_flags`;
  for (let number = 0; number < 1203; number += 1) {
    const { id } = await api.newPerson(projectId, [`user-${number}`, `other-${number}`]);
    if (number % 3 > 0) continue;
    await api.database.writes
      .updateTable("persons")
      .set({ properties: JSON.stringify({ plan: "pro", seats: number }), created_at: number })
      .where("id", "=", id)
      .execute();
  }
  const group = (key: string, properties: object) => ({
    project_id: projectId,
    group_type_index: 0,
    group_key: key,
    properties: JSON.stringify(properties),
    property_times: '{"set":{},"setOnce":{}}',
    created_at: 0,
  });
  await api.database.writes
    .insertInto("group_types")
    .values({ project_id: projectId, index: 0, name: "company" })
    .execute();
  await api.database.writes
    .insertInto("groups")
    .values([group("acme", { size: 5 }), group("b", { size: 50 }), group("7", {}), group("d", {})])
    .execute();
});
afterAll(() => api.close());

const plan = { key: "plan", type: "person", operator: "exact", value: "pro" };
const radius = async (condition: unknown, typeIndex?: number | null) =>
  await api.send("POST", `${path}/user_blast_radius`, { condition, group_type_index: typeIndex });
const counted = (users_affected: number, total_users: number) => ({
  status: 200,
  body: { users_affected, total_users, is_estimate: false },
});

describe("counting whom a condition is for", () => {
  test("[FM-31] counts stored persons by the flags' own operators, whatever the rollout", async () => {
    expect(await radius({ properties: [] })).toMatchObject(counted(1203, 1203));
    expect(await radius({ properties: [plan], rollout_percentage: 1 })).toMatchObject(
      counted(401, 1203),
    );
    const seats = { key: "seats", type: "person", operator: "lt", value: "9" };
    expect(await radius({ properties: [plan, seats] })).toMatchObject(counted(3, 1203));
    const id = { key: "distinct_id", type: "person", operator: "exact", value: "other-5" };
    expect(await radius({ properties: [id] })).toMatchObject(counted(1, 1203));
  });

  test("[FM-31] counts groups of a type, also by their key", async () => {
    const key = { key: "$group_key", type: "group", group_type_index: 0, operator: "exact" };
    expect(await radius({ properties: [{ ...key, value: "acme" }] }, 0)).toMatchObject(
      counted(1, 4),
    );
    expect(await radius({ properties: [{ ...key, value: [7, "b"] }] }, 0)).toMatchObject(
      counted(2, 4),
    );
    const size = { key: "size", type: "group", group_type_index: 0, operator: "gt", value: "9" };
    expect(await radius({ properties: [size] }, 0)).toMatchObject(counted(1, 4));
    expect(await radius({ properties: [] }, 3)).toMatchObject(counted(0, 0));
  });

  test("[FM-31] counts members of cohorts, static and dynamic", async () => {
    const person = await api.newPerson(projectId, ["member"]);
    const cohorts = `/api/projects/${projectId}/cohorts`;
    const { id } = (await api.send("POST", cohorts, { name: "some", is_static: true })).body;
    await api.send("PATCH", `${cohorts}/${id}/add_persons_to_static_cohort`, {
      person_ids: [person.uuid],
    });
    const inCohort = { key: "id", type: "cohort", operator: "in", value: id };
    const made = await api.send("POST", cohorts, {
      name: "pro",
      filters: { properties: { type: "AND", values: [plan] } },
    });
    expect(await radius({ properties: [{ ...inCohort, value: made.body.id }] })).toMatchObject({
      body: { users_affected: 401 },
    });
    expect(await radius({ properties: [inCohort] })).toMatchObject({ body: { users_affected: 1 } });
  });

  test.each([
    ["none", undefined, null],
    ["null", null, null],
    ["a list", [], "condition"],
    ["an unknown operator", { properties: [{ ...plan, operator: "like" }] }, "condition"],
    ["an unknown cohort", { properties: [{ key: "id", type: "cohort", value: 999 }] }, "condition"],
    ["a malformed filter", { properties: ["x"] }, "condition"],
    ["a group filter for persons", { properties: [{ ...plan, type: "group" }] }, "condition"],
  ])("[FM-31] refuses %s", async (_, condition, attr) => {
    expect(await radius(condition)).toMatchObject({ status: 400, body: { attr } });
  });

  test("[FM-31] refuses a group type that is none", async () => {
    expect(await radius({ properties: [] }, 7)).toMatchObject({
      status: 400,
      body: { attr: "group_type_index" },
    });
  });

  test("[FM-31] estimates what it would take too long to count", async () => {
    const hurried = await openFlagsApi({ maxCountMs: 0 });
    try {
      const project = await hurried.newProject();
      for (let number = 0; number < 600; number += 1) {
        await hurried.newPerson(project, [`user-${number}`]);
      }
      const url = `/api/projects/${project}/feature_flags/user_blast_radius`;
      const answer = await hurried.send("POST", url, { condition: { properties: [] } });
      expect(answer.body).toEqual({ users_affected: 600, total_users: 600, is_estimate: true });
    } finally {
      await hurried.close();
    }
  });
});

describe("patterns that cost much", () => {
  /** The turns that others had while something was done. */
  async function turnsDuring(work: () => Promise<unknown>): Promise<number> {
    let turns = 0;
    let isDone = false;
    const count = () => {
      turns += 1;
      if (!isDone) setImmediate(count);
    };
    setImmediate(count);
    await work();
    isDone = true;
    return turns;
  }
  const costly = { key: "text", type: "person", operator: "not_regex", value: "^(?=(a|aa)+$b)" };
  let own: number;
  beforeAll(async () => {
    own = await api.newProject();
    const rows = Array.from({ length: 400 }, (_, at) => ({
      project_id: own,
      uuid: `20000000-0000-4000-8000-${String(at).padStart(12, "0")}`,
      properties: JSON.stringify({ text: "a".repeat(3000) }),
      property_times: '{"set":{},"setOnce":{}}',
      created_at: at,
      is_identified: 0,
    }));
    await api.database.writes.insertInto("persons").values(rows).execute();
  });

  test("[FM-31] are counted for some persons only, and others have their turn", async () => {
    const url = `/api/projects/${own}/feature_flags/user_blast_radius`;
    let body: unknown;
    const turns = await turnsDuring(async () => {
      body = (await api.send("POST", url, { condition: { properties: [costly] } })).body;
    });
    expect(body).toMatchObject({ total_users: 400, is_estimate: true });
    expect(turns).toBeGreaterThan(1);
  });

  test("[FM-32] leave others their turn while a cohort is made", async () => {
    const flags = `/api/projects/${own}/feature_flags`;
    const filters = { groups: [{ properties: [costly], rollout_percentage: 100 }] };
    const { id } = (await api.send("POST", flags, { key: "costly", filters })).body;
    const turns = await turnsDuring(() =>
      api.send("POST", `${flags}/${id}/create_static_cohort_for_flag`),
    );
    expect(turns).toBeGreaterThan(1);
  });
});

describe("a static cohort of whom a flag is on for", () => {
  test("[FM-32] holds exactly the stored persons that flag requests answer so", async () => {
    const { body: flag } = await api.send("POST", path, {
      key: "half",
      filters: { groups: [{ properties: [plan], rollout_percentage: 50 }] },
    });
    const { status, body } = await api.send(
      "POST",
      `${path}/${flag.id}/create_static_cohort_for_flag`,
    );
    expect(status).toBe(201);
    expect(body.cohort).toMatchObject({ is_static: true, name: expect.stringContaining("half") });
    let on = 0;
    for (let number = 0; number < 1203; number += 3) {
      const url = `${path}/evaluation_reasons?distinct_id=other-${number}`;
      if (number % 30 === 0) {
        const { value } = (await api.send("GET", url)).body.half;
        const member = await api.database.reads
          .selectFrom("cohort_members as m")
          .innerJoin("person_distinct_ids as d", "d.person_id", "m.person_id")
          .select("d.distinct_id")
          .where("m.cohort_id", "=", body.cohort.id)
          .where("d.distinct_id", "=", `other-${number}`)
          .executeTakeFirst();
        expect(member !== undefined).toBe(value);
        if (value) on += 1;
      }
    }
    expect(on).toBeGreaterThan(5);
    expect(body.cohort.count).toBeGreaterThan(150);
    expect(body.cohort.count).toBeLessThan(250);
  });

  test("[FM-32] of many is answered while they are added, a slice at a time, and then holds all", async () => {
    const slow = await openFlagsApi({ patienceMs: 0 });
    try {
      const project = await slow.newProject();
      const flags = `/api/projects/${project}/feature_flags`;
      const people = 3_000;
      for (let start = 0; start < people; start += 1_000) {
        const rows = await slow.database.writes
          .insertInto("persons")
          .values(
            Array.from({ length: 1_000 }, () => ({
              project_id: project,
              uuid: randomUUID(),
              properties: "{}",
              property_times: "{}",
              created_at: 0,
              is_identified: 0,
            })),
          )
          .returning("id")
          .execute();
        const ids = rows.map(({ id }, at) => ({
          project_id: project,
          distinct_id: `p${start + at}`,
          person_id: id,
        }));
        await slow.database.writes.insertInto("person_distinct_ids").values(ids).execute();
      }
      const filters = { groups: [{ properties: [], rollout_percentage: 100 }] };
      const { id } = (await slow.send("POST", flags, { key: "all", filters })).body;
      const { status, body } = await slow.send(
        "POST",
        `${flags}/${id}/create_static_cohort_for_flag`,
      );
      expect(status).toBe(201);
      expect(body.cohort).toMatchObject({ is_calculating: true, last_error_message: null });
      expect(body.cohort.count).toBeLessThan(people);
      const read = async () =>
        (await slow.send("GET", `/api/projects/${project}/cohorts/${body.cohort.id}`)).body;
      await expect.poll(async () => (await read()).is_calculating).toBe(false);
      expect(await read()).toMatchObject({ count: people, errors_calculating: 0 });
    } finally {
      await slow.close();
    }
  });

  test("[FM-32] is not made of a flag that is unknown or deleted", async () => {
    const { body: flag } = await api.send("POST", path, { key: "gone" });
    await api.send("PATCH", `${path}/${flag.id}`, { deleted: true });
    for (const id of [flag.id, 999_999]) {
      expect(await api.send("POST", `${path}/${id}/create_static_cohort_for_flag`)).toMatchObject({
        status: 404,
      });
    }
  });
});

describe("the flags of the caller", () => {
  test("[FM-33] come newest first with their values, switched-off ones as false", async () => {
    const own = `/api/projects/${await api.newProject()}/feature_flags`;
    const open = { groups: [{ properties: [], rollout_percentage: 100 }] };
    const variants = { multivariate: { variants: [{ key: "a", rollout_percentage: 100 }] } };
    await api.send("POST", own, { key: "on", filters: open });
    await api.send("POST", own, { key: "off", filters: open, active: false });
    await api.send("POST", own, { key: "varied", filters: { ...open, ...variants } });
    const { status, body } = await api.send("GET", `${own}/my_flags?groups={"company":"acme"}`);
    expect(status).toBe(200);
    expect(body.map((entry: { value: unknown }) => entry.value)).toEqual(["a", false, true]);
    expect(Object.keys(body[0].feature_flag)).toEqual(
      expect.arrayContaining(["id", "team_id", "name", "key", "filters", "deleted", "active"]),
    );
    expect(await api.send("GET", `${own}/my_flags?groups=[]`)).toMatchObject({
      status: 400,
      body: { attr: "groups" },
    });
  });
});

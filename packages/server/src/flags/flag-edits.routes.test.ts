import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { openFlagsApi } from "./flags-api.setup.ts";

let api: Awaited<ReturnType<typeof openFlagsApi>>;
let path: string;

beforeAll(async () => {
  api = await openFlagsApi();
  path = `/api/projects/${await api.newProject()}/feature_flags`;
});
afterAll(() => api.close());

let made = 0;
const create = async (body: object = {}) => {
  made += 1;
  const answer = await api.send("POST", path, { key: `edited-${made}`, ...body });
  expect(answer.status).toBe(201);
  return answer.body;
};
const patch = (id: number, body: object) => api.send("PATCH", `${path}/${id}`, body);
const conflict = (fields: string) => ({
  status: 409,
  body: {
    type: "server_error",
    code: "conflict",
    detail: `The feature flag was updated by ${api.user.email} since you started editing it. Please refresh and try again. Fields changed by both: ${fields}.`,
    attr: null,
  },
});
const rollout = (percentage: number) => ({
  groups: [{ properties: [], rollout_percentage: percentage }],
});

describe("an edit that names the version it started from", () => {
  test("[FM-22] is refused when others changed the same fields, naming them and who it was", async () => {
    const flag = await create({ name: "a" });
    expect(await patch(flag.id, { version: 1, name: "b" })).toMatchObject({ status: 200 });
    expect(await patch(flag.id, { version: 1, name: "c", active: false })).toMatchObject(
      conflict("name"),
    );
    const { body } = await api.send("GET", `${path}/${flag.id}`);
    expect(body).toMatchObject({ name: "b", active: true, version: 2 });
  });

  test("[FM-22] is merged where others changed other fields, whatever else it sends along", async () => {
    const flag = await create({ name: "a", filters: rollout(10) });
    await patch(flag.id, { version: 1, name: "b" });
    const { status, body } = await patch(flag.id, {
      version: 1,
      name: "a",
      active: flag.active,
      filters: rollout(20),
    });
    expect(status).toBe(200);
    expect(body).toMatchObject({ name: "b", filters: rollout(20), version: 3 });
  });

  test("[FM-22] agrees with others who made the same change, or undid theirs", async () => {
    const flag = await create({ name: "a", filters: rollout(10) });
    await patch(flag.id, { name: "b", filters: rollout(30) });
    await patch(flag.id, { filters: rollout(10) });
    const edit = { version: 1, name: "b", filters: rollout(20) };
    expect(await patch(flag.id, edit)).toMatchObject({
      status: 200,
      body: { name: "b", filters: rollout(20) },
    });
  });

  test("[FM-22] is compared with the flag as its author read it, where that is sent", async () => {
    const flag = await create({ name: "a" });
    await patch(flag.id, { name: "b", tags: ["x"] });
    const edit = { version: 1, original_flag: flag };
    expect(await patch(flag.id, { ...edit, name: "c" })).toMatchObject(conflict("name"));
    expect(await patch(flag.id, { ...edit, tags: [], active: false })).toMatchObject({
      status: 200,
      body: { name: "b", tags: ["x"], active: false },
    });
  });

  test("[FM-22] names a version that there has been, and takes effect without one as ever", async () => {
    const flag = await create({ name: "a" });
    expect(await patch(flag.id, { version: 9, name: "b" })).toMatchObject({
      status: 400,
      body: { code: "invalid_input", attr: "version" },
    });
    expect(await patch(flag.id, { version: "1" })).toMatchObject({
      status: 400,
      body: { attr: "version" },
    });
    await patch(flag.id, { name: "b" });
    expect((await patch(flag.id, { name: "c" })).body).toMatchObject({ name: "c", version: 3 });
  });

  test("[FM-22] sent twice at once with different values, one is refused; with different fields, both are kept", async () => {
    const flag = await create({ name: "a" });
    const same = await Promise.all(["b", "c"].map((name) => patch(flag.id, { version: 1, name })));
    expect(same.map(({ status }) => status).toSorted()).toEqual([200, 409]);
    const other = await create({ name: "a" });
    await Promise.all([
      patch(other.id, { version: 1, name: "b" }),
      patch(other.id, { version: 1, filters: rollout(5) }),
      patch(other.id, { tags: ["t"] }),
    ]);
    const { body } = await api.send("GET", `${path}/${other.id}`);
    expect(body).toMatchObject({ name: "b", filters: rollout(5), tags: ["t"], version: 4 });
  });
});

describe("finding flags", () => {
  test("[FM-23] the list is filtered by tags and leaves out keys that it is told", async () => {
    await create({ key: "t-1", tags: ["Red", 'with "quotes"'] });
    await create({ key: "t-2", tags: ["blue"] });
    await create({ key: "t-3", tags: ["redder"] });
    const keys = async (query: string) => {
      const { body } = await api.send("GET", `${path}?search=t-&ordering=key&${query}`);
      return (body.results as { key: string }[]).map(({ key }) => key);
    };
    const json = (value: unknown) => encodeURIComponent(JSON.stringify(value));
    expect(await keys(`tags=${json(["red"])}`)).toEqual(["t-1"]);
    expect(await keys(`tags=${json(["RED", "blue"])}`)).toEqual(["t-1", "t-2"]);
    expect(await keys(`tags=${json(['with "quotes"'])}`)).toEqual(["t-1"]);
    expect(await keys(`tags=nonsense`)).toEqual(["t-1", "t-2", "t-3"]);
    expect(await keys(`excluded_properties=${json(["t-1", "t-3"])}`)).toEqual(["t-2"]);
  });
});

describe("large and odd filters", () => {
  const condition = (percentage: unknown, value: unknown = ["x"]) => ({
    properties: [{ key: "ключ ☃", type: "person", operator: "exact", value }],
    rollout_percentage: percentage,
  });
  const variants = (...shares: unknown[]) => ({
    groups: [],
    multivariate: {
      variants: shares.map((share, at) => ({ key: `v${at}`, rollout_percentage: share })),
    },
  });
  const send = (filters: object) => {
    made += 1;
    return api.send("POST", path, { key: `large-${made}`, filters });
  };

  test("[FM-24] a thousand conditions, unicode names, fractions and large payloads are taken", async () => {
    const filters = {
      groups: Array.from({ length: 1000 }, (_, at) => condition(at / 10)),
      payloads: { true: JSON.stringify("p".repeat(1_000_000)) },
    };
    const { status, body } = await send(filters);
    expect(status).toBe(201);
    expect(body.filters.groups).toHaveLength(1000);
    expect(body.filters.payloads).toEqual(filters.payloads);
    expect((await send(variants(33.3, 33.3, 33.4))).status).toBe(201);
  });

  test.each([
    ["1,001 conditions", { groups: Array.from({ length: 1001 }, () => condition(1)) }],
    ["10,000 values in a list", { groups: [condition(1, Array(10_000).fill("v"))] }],
    ["a negative percentage", { groups: [condition(-0.1)] }],
    ["more than all", { groups: [condition(100.01)] }],
    ["a percentage as text", { groups: [condition("50")] }],
    ["variants that sum to 99.999", variants(50, 49.999)],
    ["a negative share", variants(101, -1)],
    ["a payload that is no JSON", { groups: [], payloads: { true: "{bad" } }],
    ["a payload for no variant", { ...variants(100), payloads: { other: "1" } }],
    ["a condition that is no object", { groups: [null] }],
  ])("[FM-24] %s: refused, and the filters named", async (_, filters) => {
    expect(await send(filters)).toMatchObject({
      status: 400,
      body: { type: "validation_error", attr: "filters" },
    });
  });
});

describe("deleting several flags", () => {
  test("[FM-26] deletes what nothing needs and tells why of the rest", async () => {
    const [plain, needed] = [await create(), await create()];
    const dependant = await create({
      filters: {
        groups: [
          {
            properties: [
              { key: needed.key, type: "flag", operator: "flag_evaluates_to", value: true },
            ],
          },
        ],
      },
    });
    const { status, body } = await api.send("POST", `${path}/bulk_delete`, {
      ids: [plain.id, needed.id, 99999, plain.id],
    });
    expect(status).toBe(200);
    expect(body).toEqual({
      deleted: [{ id: plain.id, key: plain.key }],
      errors: [
        {
          id: needed.id,
          reason: expect.stringContaining(`${dependant.key} (ID: ${dependant.id})`),
        },
        { id: 99999, reason: "Not found." },
      ],
    });
    expect((await api.send("GET", `${path}/${plain.id}`)).body.deleted).toBe(true);
    expect((await api.send("GET", `${path}/${needed.id}`)).body.deleted).toBe(false);
    for (const ids of [[], ["x"], undefined]) {
      expect((await api.send("POST", `${path}/bulk_delete`, { ids })).status).toBe(400);
    }
  });
});

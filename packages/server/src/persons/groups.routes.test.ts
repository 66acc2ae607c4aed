import { randomUUID } from "node:crypto";
import type { JsonObject } from "@hedgerow/core/json";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { type ComposedProject, openComposedService } from "./composed-service.setup.ts";

let composed: Awaited<ReturnType<typeof openComposedService>>;
let project: ComposedProject;

beforeAll(async () => {
  composed = await openComposedService();
});
afterAll(() => composed.close());
beforeEach(async () => {
  project = await composed.newProject();
});

const refusal = (attr: string | null, code = "invalid_input") => ({
  status: 400,
  body: { type: "validation_error", code, detail: expect.any(String), attr },
});
const notFound = {
  status: 404,
  body: { type: "invalid_request", code: "not_found", detail: "Not found.", attr: null },
};
const identify = (type: string, key: string | number, properties: JsonObject = {}) =>
  project.capture({
    event: "$groupidentify",
    distinct_id: `$${type}_${key}`,
    properties: { $group_type: type, $group_key: key, $group_set: properties },
  });
const list = (parameters: Record<string, string> = {}) =>
  project.get(`groups/?${new URLSearchParams({ group_type_index: "0", ...parameters })}`);
const keys = async (parameters: Record<string, string> = {}): Promise<string[]> => {
  const { status, body } = await list(parameters);
  if (status !== 200) throw new Error(JSON.stringify(body));
  return body.results.map((group: { group_key: string }) => group.group_key);
};
const filters = (...sent: readonly object[]) => ({ properties: JSON.stringify(sent) });
const named = (key: string, typeIndex = 0) =>
  new URLSearchParams({ group_type_index: String(typeIndex), group_key: key });

describe("group types", () => {
  test("[GR-1] are there with their first event, and are called as people say", async () => {
    expect(await project.get("groups_types/")).toEqual({ status: 200, body: [] });
    await identify("company", "acme");
    await project.capture({ distinct_id: "ann", properties: { $groups: { team: "core" } } });
    const [company, team] = ["company", "team"].map((group_type, group_type_index) => ({
      group_type,
      group_type_index,
      name_singular: null,
      name_plural: null,
      detail_dashboard: null,
      default_columns: null,
      created_at: null,
    }));
    expect((await project.get("groups_types")).body).toEqual([company, team]);
    const rename = (body: unknown) => project.call("PATCH", "groups_types/update_metadata/", body);
    const renamed = await rename([
      { group_type_index: 1, name_singular: "Team", name_plural: "Teams", group_type: "ignored" },
    ]);
    const called = { ...team, name_singular: "Team", name_plural: "Teams" };
    expect(renamed).toEqual({ status: 200, body: [company, called] });
    expect((await rename([{ group_type_index: 1, name_plural: "" }])).body[1]).toEqual({
      ...called,
      name_plural: null,
    });
    expect(
      await rename([{ group_type_index: 0, name_plural: "x" }, { group_type_index: 4 }]),
    ).toEqual(notFound);
    expect((await project.get("groups_types")).body[0]).toEqual(company);
    expect(await rename({})).toEqual(refusal(null));
    expect(await rename([1])).toEqual(refusal("0"));
    expect(await rename([{}])).toEqual(refusal("0__group_type_index", "required"));
    expect(await rename([{ group_type_index: 0, name_singular: 1 }])).toEqual(
      refusal("0__name_singular"),
    );
    expect(await rename([{ group_type_index: 0, name_plural: "x".repeat(401) }])).toEqual(
      refusal("0__name_plural", "max_length"),
    );
  });

  test("[GR-9] are five at most: a sixth is refused with a warning, its events are kept", async () => {
    const five = ["one", "two", "three", "four", "five"];
    for (const type of five) await identify(type, "acme", { tier: type });
    await identify("six", "acme", { tier: "six" });
    await project.capture({
      event: "visit",
      distinct_id: "ann",
      properties: { $groups: { six: "acme", five: "acme" } },
    });
    const types = (await project.get("groups_types")).body;
    expect(types.map((type: { group_type: string }) => type.group_type)).toEqual(five);
    expect((await project.eventNames()).filter((name) => name !== "$groupidentify")).toEqual([
      "visit",
    ]);
    expect((await list({ group_type_index: "5" })).status).toBe(400);
    // Flags of the fifth type work, the sixth stands for nothing.
    await project.createFlag("fifth", {
      aggregation_group_type_index: 4,
      groups: [
        {
          rollout_percentage: 100,
          properties: [
            { key: "tier", type: "group", group_type_index: 4, operator: "exact", value: "five" },
          ],
        },
      ],
    });
    expect(await project.flags("ann", { groups: { five: "acme", six: "acme" } })).toEqual({
      fifth: true,
    });
    expect(await project.flags("ann", { groups: { six: "acme" } })).toEqual({ fifth: false });
    await expect
      .poll(async () => {
        const { body } = await project.get("ingestion_warnings");
        return body.results.map((warning: { type: string }) => warning.type);
      })
      .toContain("group_type_limit_reached");
  });
});

describe("groups", () => {
  test("[GR-2] are listed newest first by type, and the list goes on from a place", async () => {
    expect(await project.get("groups")).toMatchObject({
      status: 400,
      body: { attr: "group_type_index", detail: expect.stringContaining("You must pass") },
    });
    expect(await list({ group_type_index: "x" })).toEqual(refusal("group_type_index"));
    expect((await list()).body).toEqual({ count: 0, next: null, previous: null, results: [] });
    for (const key of ["a", "b", "c", "d"]) await identify("company", key, { name: key });
    await identify("team", "core");
    const first = (await list({ limit: "2" })).body;
    expect(first).toMatchObject({ count: 4, previous: null });
    expect(first.results[0]).toEqual({
      group_type_index: 0,
      group_key: "d",
      group_properties: { name: "d" },
      created_at: expect.stringMatching(/Z$/),
    });
    expect(await project.call("DELETE", `groups?${named("c")}`)).toEqual({
      status: 204,
      body: undefined,
    });
    const next = new URL(first.next);
    const second = (await composed.send("GET", next.pathname + next.search)).body;
    expect(second.results.map((group: { group_key: string }) => group.group_key)).toEqual([
      "b",
      "a",
    ]);
    expect(second.next).toBeNull();
    expect(await project.call("DELETE", `groups?${named("c")}`)).toEqual(notFound);
    expect(await keys({ group_type_index: "1" })).toEqual(["core"]);
  });

  test("[GR-2] are found by search, by part of the key and by properties, the key among them", async () => {
    await identify("company", "acme", { name: "The Acme", seats: 9 });
    await identify("company", "acme-2", { seats: 10 });
    await identify("company", 1, { name: "Number one" });
    expect(await keys({ search: "ACME" })).toEqual(["acme-2", "acme"]);
    expect(await keys({ group_key: "-2" })).toEqual(["acme-2"]);
    expect(await keys(filters({ key: "$group_key", type: "group", value: "acme" }))).toEqual([
      "acme",
    ]);
    expect(
      await keys(filters({ key: "$group_key", operator: "exact", value: ["1", "x"] })),
    ).toEqual(["1"]);
    expect(await keys(filters({ key: "seats", operator: "gt", value: "9" }))).toEqual(["acme-2"]);
    expect(await keys(filters({ key: "seats", operator: "is_not_set" }))).toEqual(["1"]);
    expect(await list(filters({ key: "seats", type: "person", value: 1 }))).toEqual(
      refusal("properties"),
    );
    expect(await list({ properties: "[" })).toEqual(refusal("properties"));
  });

  test("[GR-3] are read by type and key, and created once, of types that are there", async () => {
    await identify("company", "acme/ü?", { name: "Acme" });
    expect(await project.get(`groups/find?${named("acme/ü?")}`)).toEqual({
      status: 200,
      body: {
        group_type_index: 0,
        group_key: "acme/ü?",
        group_properties: { name: "Acme" },
        created_at: expect.any(String),
        notebook: null,
      },
    });
    expect(await project.get(`groups/find?${named("acme")}`)).toEqual(notFound);
    expect(await project.get("groups/find?group_type_index=0")).toEqual(
      refusal("group_key", "required"),
    );
    const group = { group_type_index: 0, group_key: "new", group_properties: { plan: "pro" } };
    const created = await project.call("POST", "groups/", group);
    expect(created).toEqual({ status: 201, body: { ...group, created_at: expect.any(String) } });
    expect(await project.call("POST", "groups", group)).toEqual(refusal("group_key", "unique"));
    expect(await project.call("POST", "groups", { ...group, group_type_index: 3 })).toEqual(
      refusal("group_type_index"),
    );
    expect(await project.call("POST", "groups", { group_type_index: 0 })).toEqual(
      refusal("group_key", "required"),
    );
    expect(
      await project.call("POST", "groups", {
        group_type_index: 0,
        group_key: "bare",
        group_properties: null,
      }),
    ).toMatchObject({ status: 201, body: { group_properties: {} } });
  });

  test("[GR-4] take properties by hand, which the next flag request sees", async () => {
    await identify("company", "acme", { plan: "free" });
    await project.createFlag("pro", {
      aggregation_group_type_index: 0,
      groups: [
        {
          rollout_percentage: 100,
          properties: [
            { key: "plan", type: "group", group_type_index: 0, operator: "exact", value: "pro" },
          ],
        },
      ],
    });
    const flags = () => project.flags("ann", { groups: { company: "acme" } });
    const update = (body: object, key = "acme") =>
      project.call("POST", `groups/update_property?${named(key)}`, body);
    expect(await flags()).toEqual({ pro: false });
    expect(await update({ key: "plan", value: "pro" })).toMatchObject({
      status: 200,
      body: { group_key: "acme", group_properties: { plan: "pro" } },
    });
    expect(await flags()).toEqual({ pro: true });
    const remove = await project.call("POST", `groups/delete_property?${named("acme")}`, {
      $unset: "plan",
    });
    expect(remove).toMatchObject({ status: 200, body: { group_properties: {} } });
    expect(await flags()).toEqual({ pro: false });
    expect(await update({ value: 1 })).toEqual(refusal("key", "required"));
    expect(await update({ key: "a", value: null })).toEqual(refusal("value", "required"));
    expect(await update({ key: "a", value: "x".repeat(700_000) })).toEqual(refusal("value"));
    expect(await update({ key: "a", value: 1 }, "nobody")).toEqual(notFound);
    // What happens later counts more than what was done by hand before.
    await update({ key: "plan", value: "pro" });
    await identify("company", "acme", { plan: "free" });
    expect(await flags()).toEqual({ pro: false });
    const { body } = await project.get(`groups/activity?${named("acme")}`);
    expect(body.results.map(({ activity }: { activity: string }) => activity)).toEqual([
      "update_property",
      "update_property",
      "update_property",
    ]);
    expect(body.results[2]).toMatchObject({
      scope: "Group",
      detail: { name: "acme", changes: [{ field: "plan", before: "free", after: "pro" }] },
    });
  });

  test("[GR-5] tell their properties and the values that most of them have", async () => {
    await identify("company", "a", { plan: "pro", on: true });
    await identify("company", "b", { plan: "pro" });
    await identify("company", "c", { plan: "Free" });
    await identify("team", "x", { size: 3 });
    expect((await project.get("groups/property_definitions")).body).toEqual({
      0: [
        { name: "plan", count: 3 },
        { name: "on", count: 1 },
      ],
      1: [{ name: "size", count: 1 }],
    });
    const values = (query: string) => project.get(`groups/property_values?${query}`);
    expect((await values("group_type_index=0&key=plan")).body).toEqual([
      { name: "pro", count: 2 },
      { name: "Free", count: 1 },
    ]);
    expect((await values("group_type_index=0&key=plan&value=fr")).body).toEqual([
      { name: "Free", count: 1 },
    ]);
    expect(await values("group_type_index=0")).toEqual(refusal("key", "required"));
    expect(await values("key=plan")).toEqual(refusal("group_type_index"));
  });

  test("[GR-6] tell who shares events with them, and persons tell of their groups", async () => {
    await identify("company", "acme");
    await identify("team", "core");
    await project.capture(
      { distinct_id: "ann", properties: { $groups: { company: "acme", team: "core" } } },
      { distinct_id: "bob", properties: { $groups: { company: "acme" } } },
      { distinct_id: "eve", properties: { $groups: { company: "other" } } },
      {
        distinct_id: "old",
        properties: { $groups: { company: "acme" } },
        timestamp: "2020-01-01T00:00:00Z",
      },
    );
    const ann = await project.personOf("ann");
    const of = async (query: Record<string, string>) => {
      const { body } = await project.get(`groups/related?${new URLSearchParams(query)}`);
      return body
        .map(
          (actor: { type: string; name?: string; id: string }) =>
            `${actor.type} ${actor.name ?? actor.id}`,
        )
        .toSorted();
    };
    expect(await of({ group_type_index: "0", id: "acme" })).toEqual([
      "group core",
      "person ann",
      "person bob",
    ]);
    expect(await of({ id: ann.uuid })).toEqual(["group acme", "group core"]);
    expect(await of({ group_type_index: "3", id: "acme" })).toEqual([]);
    expect(await of({ id: randomUUID() })).toEqual([]);
    expect(await project.get("groups/related?id=ann")).toEqual(refusal("id"));
    expect(await project.get("groups/related")).toEqual(refusal("id", "required"));
  });
});

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { type ComposedProject, openComposedService } from "../persons/composed-service.setup.ts";

let service: Awaited<ReturnType<typeof openComposedService>>;
let project: ComposedProject;

beforeAll(async () => {
  service = await openComposedService();
  project = await service.newProject();
  await identify("company", "acme", { plan: "pro", seats: 50 });
  await identify("company", 8795, { plan: "pro" });
  await identify("company", "other", { plan: "free" });
});
afterAll(() => service.close());

async function identify(type: string, key: string | number, properties: object): Promise<void> {
  await project.capture({
    event: "$groupidentify",
    distinct_id: `${type}_${key}`,
    properties: { $group_type: type, $group_key: key, $group_set: properties } as never,
  });
}
const onGroups = (...filters: object[]) => ({
  aggregation_group_type_index: 0,
  groups: [
    {
      properties: filters.map((filter) => ({ type: "group", group_type_index: 0, ...filter })),
      rollout_percentage: 100,
    },
  ],
});
let flags = 0;
async function flagWith(...filters: object[]): Promise<string> {
  const key = `group-flag-${++flags}`;
  await project.createFlag(key, onGroups(...filters) as never);
  return key;
}
const value = async (key: string, groups: object, more: object = {}) =>
  (await project.flags("somebody", { groups, ...more } as never))[key];

describe("targeting groups", () => {
  test("[CO-28] stored properties of the group decide, and those of the request win", async () => {
    const key = await flagWith({ key: "plan", operator: "exact", value: ["pro"] });
    expect(await value(key, { company: "acme" })).toBe(true);
    expect(await value(key, { company: "other" })).toBe(false);
    expect(await value(key, { company: "unheard-of" })).toBe(false);
    expect(await value(key, {})).toBe(false);
    const sent = (plan: string) => ({ group_properties: { company: { plan } } });
    expect(await value(key, { company: "other" }, sent("pro"))).toBe(true);
    expect(await value(key, { company: "acme" }, sent("free"))).toBe(false);
  });

  test("[CO-28] the key of the group is its $group_key, whatever properties say, stored or not", async () => {
    const key = await flagWith({ key: "$group_key", operator: "exact", value: ["1", "acme"] });
    for (const group of ["acme", "1", 1]) expect(await value(key, { company: group })).toBe(true);
    for (const group of ["other", "11", 11]) {
      expect(await value(key, { company: group })).toBe(false);
    }
    const lying = { group_properties: { company: { $group_key: "acme" } } };
    expect(await value(key, { company: "other" }, lying)).toBe(false);
    const part = await flagWith({ key: "$group_key", operator: "icontains", value: "ACM" });
    expect(await value(part, { company: "acme" })).toBe(true);
  });

  test("[CO-28] a number as a key is its text: where it was stored, asked for and compared", async () => {
    const plan = await flagWith({ key: "plan", operator: "exact", value: ["pro"] });
    const byKey = await flagWith({ key: "$group_key", operator: "exact", value: [8795] });
    for (const group of [8795, "8795"]) {
      expect(await value(plan, { company: group })).toBe(true);
      expect(await value(byKey, { company: group })).toBe(true);
    }
    // The same bucket either way.
    const half = {
      ...onGroups(),
      groups: [{ properties: [], rollout_percentage: 50 }],
    };
    await project.createFlag("half", half as never);
    for (const group of [1, 2, 3, 4, 5, 6, 7, 8]) {
      expect(await value("half", { company: group })).toBe(
        await value("half", { company: String(group) }),
      );
    }
  });

  test("[CO-28] a cohort under a group still asks about the person", async () => {
    const { body: cohort } = await project.call("POST", "cohorts", {
      name: "Chosen",
      is_static: true,
    });
    await project.capture({ distinct_id: "somebody" }, { distinct_id: "another" });
    await project.personOf("somebody");
    await project.call("PATCH", `cohorts/${cohort.id}/add_persons_to_static_cohort`, {
      distinct_ids: ["somebody"],
    });
    await project.createFlag("mixed", {
      groups: [
        {
          aggregation_group_type_index: 0,
          properties: [
            { key: "id", type: "cohort", value: cohort.id, operator: "in" },
            { key: "plan", type: "group", group_type_index: 0, operator: "exact", value: "pro" },
          ],
          rollout_percentage: 100,
        },
      ],
    } as never);
    const ask = async (distinctId: string, company: string) =>
      (await project.flags(distinctId, { groups: { company } })).mixed;
    expect(await ask("somebody", "acme")).toBe(true);
    expect(await ask("another", "acme")).toBe(false);
    expect(await ask("somebody", "other")).toBe(false);
  });
});

import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { openDefinitionsApi } from "./definitions-api.setup.ts";

let api: Awaited<ReturnType<typeof openDefinitionsApi>>;
beforeEach(async () => {
  api = await openDefinitionsApi();
});
afterEach(() => api.close());

const PATH = "property_definitions";

const list = async (query = "") => {
  const { status, body } = await api.send("GET", `${PATH}?${query}`);
  if (status !== 200) throw new Error(JSON.stringify(body));
  return body.results as Record<string, unknown>[];
};
const names = async (query = "") => (await list(query)).map(({ name }) => name);
const named = async (name: string) => {
  const [found] = await list(`properties=${encodeURIComponent(name)}`);
  if (!found) throw new Error(`no definition of ${name}`);
  return found;
};
const refusal = async (...request: Parameters<typeof api.send>) => {
  const { status, body } = await api.send(...request);
  return [status, body.code, body.attr];
};

describe("property definitions over HTTP", () => {
  test("[PD-8] a property that came is listed and read with every field", async () => {
    await api.see({ event: "paid", properties: { price: 12.5 } });
    const [listed] = await list();
    expect(listed).toEqual({
      id: expect.stringMatching(/^[\da-f-]{36}$/),
      name: "price",
      description: null,
      tags: [],
      is_numerical: true,
      property_type: "Numeric",
      is_seen_on_filtered_events: null,
      updated_at: null,
      updated_by: null,
      verified: false,
      verified_at: null,
      verified_by: null,
      hidden: false,
    });
    expect((await api.send("GET", `${PATH}/${listed?.id}`)).body).toEqual(listed);
    const other = await api.newProject();
    for (const [id, project] of [
      ["x", api.projectId],
      [String(listed?.id), other],
    ] as const) {
      for (const method of ["GET", "PATCH", "DELETE"] as const) {
        const body = method === "PATCH" ? { hidden: true } : undefined;
        expect(await refusal(method, `${PATH}/${id}`, body, project)).toEqual([
          404,
          "not_found",
          null,
        ]);
      }
    }
  });

  test("[PD-9] lists keep by kind, names, events, values and origin", async () => {
    await api.see(
      {
        event: "paid",
        properties: { price: 1, $browser: "x", "$feature/new": "on", $set: { plan: "pro" } },
      },
      { event: "left", properties: { why: "price" } },
    );
    const all = ["$browser", "$feature/new", "price", "why"];
    expect(await names()).toEqual(all);
    expect(await names("type=person")).toEqual(["plan"]);
    expect(await names("type=session")).toEqual([]);
    expect(await names("type=group&group_type_index=0")).toEqual([]);
    expect(await names("properties=price,why,nothing")).toEqual(["price", "why"]);
    expect(await names("search=PRI")).toEqual(["price"]);
    expect(await names("is_feature_flag=true")).toEqual(["$feature/new"]);
    expect(await names("is_feature_flag=false")).toHaveLength(3);
    expect(await names("is_numerical=true")).toEqual(["price"]);
    expect(await names("exclude_core_properties=true")).toEqual(["price", "why"]);
    expect(await names('excluded_properties=["price"]')).toHaveLength(3);
    const seen = await list('event_names=["left"]');
    expect(seen.map(({ name, is_seen_on_filtered_events: isSeen }) => [name, isSeen])).toEqual([
      ["why", true],
      ["$browser", false],
      ["$feature/new", false],
      ["price", false],
    ]);
    expect(await names('event_names=["left","no"]&filter_by_event_names=true')).toEqual(["why"]);
    const { body } = await api.send("GET", `${PATH}?limit=1&offset=1`);
    expect(body).toMatchObject({ count: 4, results: [{ name: "$feature/new" }] });
  });

  test("[PD-10] it is told which events carry a property", async () => {
    await api.see(
      { event: "paid", properties: { price: 1 } },
      { event: "constructor", properties: { price: 1 } },
      { event: "left" },
    );
    const events = encodeURIComponent('["paid","left","constructor","__proto__"]');
    const path = `${PATH}/seen_together?property_name=price&event_names=${events}`;
    const { body } = await api.send("GET", path);
    expect(Object.entries(body)).toEqual([
      ["paid", true],
      ["left", false],
      ["constructor", true],
      ["__proto__", false],
    ]);
    const without = `${PATH}/seen_together`;
    expect(await refusal("GET", without)).toEqual([400, "required", "property_name"]);
    expect(await refusal("GET", `${without}?property_name=a`)).toEqual([
      400,
      "required",
      "event_names",
    ]);
  });

  test("[PD-11] a change decides description, tags, type, verified and hidden", async () => {
    await api.see({ event: "paid", properties: { price: "12" } });
    const { id } = await named("price");
    const patch = async (body: object) => (await api.send("PATCH", `${PATH}/${id}`, body)).body;
    expect(
      await patch({ description: "d", tags: ["A"], property_type: "Numeric", verified: true }),
    ).toMatchObject({
      description: "d",
      tags: ["a"],
      property_type: "Numeric",
      is_numerical: true,
      verified: true,
      verified_by: { id: api.user.id },
      updated_by: { id: api.user.id },
    });
    expect(await patch({ property_type: "String" })).toMatchObject({ is_numerical: false });
    expect(await patch({ is_numerical: true })).toMatchObject({
      property_type: "String",
      is_numerical: true,
    });
    expect(await patch({ hidden: true })).toMatchObject({ hidden: true, verified: false });
    const { body } = await api.send("GET", `activity_log?scope=PropertyDefinition`);
    expect(body.results).toHaveLength(4);
  });

  test("[PD-11] a type that is taken away comes back with the next value", async () => {
    await api.see({ event: "paid", properties: { price: "12" } });
    const { id } = await named("price");
    await api.send("PATCH", `${PATH}/${id}`, { property_type: null });
    expect(await named("price")).toMatchObject({ property_type: null });
    await api.see({ event: "paid", properties: { price: 12 } });
    expect(await named("price")).toMatchObject({ property_type: "Numeric", is_numerical: true });
  });

  test("[PD-12] a deleted definition is gone, and comes back with the next event", async () => {
    await api.see({ event: "paid", properties: { price: 1 } });
    const { id } = await named("price");
    expect((await api.send("DELETE", `${PATH}/${id}`)).status).toBe(204);
    expect(await names()).toEqual([]);
    await api.see({ event: "paid", properties: { price: 1 } });
    expect(await names('event_names=["paid"]&filter_by_event_names=1')).toEqual(["price"]);
  });

  test("[PD-13] what cannot be understood is refused by its name", async () => {
    await api.see({ event: "paid", properties: { price: 1 } });
    const { id } = await named("price");
    for (const [body, code, attr] of [
      [{ property_type: "Text" }, "invalid_choice", "property_type"],
      [{ is_numerical: "yes" }, "invalid_input", "is_numerical"],
      [{ tags: 7 }, "invalid_input", "tags"],
      [{ verified: true, hidden: true }, "invalid_input", null],
    ] as const) {
      expect(await refusal("PATCH", `${PATH}/${id}`, body)).toEqual([400, code, attr]);
    }
    for (const [query, code, attr] of [
      ["type=cohort", "invalid_choice", "type"],
      ["type=group", "required", "group_type_index"],
      ["type=group&group_type_index=5", "invalid_input", "group_type_index"],
      ["group_type_index=1", "invalid_input", "group_type_index"],
      ["event_names=paid", "invalid_input", "event_names"],
      ["event_names=[1]", "invalid_input", "event_names"],
      ["filter_by_event_names=x", "invalid_input", "filter_by_event_names"],
      ["is_feature_flag=x", "invalid_input", "is_feature_flag"],
      ["is_numerical=x", "invalid_input", "is_numerical"],
    ]) {
      expect(await refusal("GET", `${PATH}?${query}`)).toEqual([400, code, attr]);
    }
  });
});

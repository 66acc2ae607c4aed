import { afterEach, beforeEach, describe, expect, test } from "vitest";
import { createCohortStore } from "../engines/sql/cohort-store.ts";
import { createFlagStore } from "../engines/sql/flag-store.ts";
import { someFlag } from "../flags/flag-store.contract.ts";
import { NOW, openDefinitionsApi } from "./definitions-api.setup.ts";

let api: Awaited<ReturnType<typeof openDefinitionsApi>>;
beforeEach(async () => {
  api = await openDefinitionsApi();
});
afterEach(() => api.close());

const PATH = "event_definitions";
const UNKNOWN = "00000000-0000-4000-8000-000000000000";

const byName = async (name: string) => {
  const { body } = await api.send("GET", `${PATH}/by_name?name=${encodeURIComponent(name)}`);
  return body;
};
const names = async (query = "") => {
  const { status, body } = await api.send("GET", `${PATH}?${query}`);
  if (status !== 200) throw new Error(JSON.stringify(body));
  return (body.results as { name: string }[]).map(({ name }) => name);
};
const declare = async (name: string, fields: object = {}) => {
  const { status, body } = await api.send("POST", PATH, { name, ...fields });
  expect(status).toBe(201);
  return body;
};
const refusal = async (...request: Parameters<typeof api.send>) => {
  const { status, body } = await api.send(...request);
  return [status, body.code, body.attr];
};

describe("event definitions over HTTP", () => {
  test("[ED-20] an event that came is listed and read with every field", async () => {
    await api.see({ event: "paid" });
    const { status, body } = await api.send("GET", PATH);
    expect(status).toBe(200);
    expect(body).toEqual({
      count: 1,
      next: null,
      previous: null,
      results: [
        {
          id: expect.stringMatching(/^[\da-f-]{36}$/),
          name: "paid",
          description: null,
          owner: null,
          tags: [],
          created_at: "2026-03-01T10:00:00.123000Z",
          updated_at: null,
          updated_by: null,
          last_seen_at: "2026-03-01T10:00:00.123000Z",
          last_updated_at: null,
          verified: false,
          verified_at: null,
          verified_by: null,
          hidden: false,
          default_columns: [],
          post_to_slack: false,
          is_action: false,
          action_id: null,
          is_calculating: false,
          last_calculated_at: null,
          created_by: null,
        },
      ],
    });
    const [record] = body.results;
    expect((await api.send("GET", `${PATH}/${record.id.toUpperCase()}`)).body).toEqual(record);
    expect(await byName("paid")).toEqual(record);
  });

  test("[ED-20] unknown and malformed ids and names are 404, also those of other projects", async () => {
    const { id } = await declare("paid");
    const other = await api.newProject();
    for (const path of [`${PATH}/${UNKNOWN}`, `${PATH}/7`, `${PATH}/by_name?name=other`]) {
      expect(await refusal("GET", path)).toEqual([404, "not_found", null]);
    }
    for (const method of ["GET", "PATCH", "PUT", "DELETE"] as const) {
      for (const [of, project] of [
        [id, other],
        ["@me", api.projectId],
      ] as const) {
        const body = method === "GET" || method === "DELETE" ? undefined : { hidden: true };
        expect(await refusal(method, `${PATH}/${of}`, body, project)).toEqual([
          404,
          "not_found",
          null,
        ]);
      }
    }
    for (const part of ["metrics", "used_by"]) {
      expect((await api.send("GET", `${PATH}/${UNKNOWN}/${part}`)).status).toBe(404);
    }
    expect((await byName("paid")).id).toBe(id);
    expect(await refusal("GET", `${PATH}/by_name`)).toEqual([400, "required", "name"]);
  });

  test("[ED-21] an event is declared before it comes, and is the same when it comes", async () => {
    const declared = await declare("paid", {
      description: "Money came in",
      owner: api.user.id,
      tags: [" Core ", "core"],
      verified: true,
      default_columns: ["price"],
    });
    expect(declared).toMatchObject({
      name: "paid",
      description: "Money came in",
      owner: { id: api.user.id, email: api.user.email },
      tags: ["core"],
      verified: true,
      verified_by: { id: api.user.id },
      verified_at: "2026-03-01T10:00:00.123000Z",
      last_seen_at: null,
      default_columns: ["price"],
    });
    await api.see({ event: "paid" });
    expect(await byName("paid")).toEqual({
      ...declared,
      last_seen_at: "2026-03-01T10:00:00.123000Z",
    });
    expect(await refusal("POST", PATH, { name: "paid" })).toEqual([400, "unique", "name"]);
  });

  test("[ED-22] a change decides description, tags, owner, columns; the name stays", async () => {
    const { id } = await declare("paid");
    const change = {
      name: "other",
      description: "d",
      tags: ["A"],
      owner: api.user.id,
      default_columns: ["x"],
      post_to_slack: true,
    };
    const { status, body } = await api.send("PATCH", `${PATH}/${id}`, change);
    expect(status).toBe(200);
    expect(body).toMatchObject({
      ...change,
      name: "paid",
      tags: ["a"],
      owner: { id: api.user.id },
      updated_by: { id: api.user.id },
    });
    const none = { description: null, tags: [], owner: null, default_columns: null, hidden: null };
    const cleared = (await api.send("PUT", `${PATH}/${id}`, none)).body;
    expect(cleared).toMatchObject({ ...none, default_columns: [], hidden: false });
    expect((await api.send("GET", `${PATH}/${id}`)).body).toEqual(cleared);
  });

  test("[ED-23] a verified definition is not hidden, a hidden one not verified, and both is refused", async () => {
    const { id } = await declare("paid", { hidden: true });
    const patch = async (body: object) => (await api.send("PATCH", `${PATH}/${id}`, body)).body;
    expect(await patch({ verified: true })).toMatchObject({
      verified: true,
      verified_by: { id: api.user.id },
      verified_at: expect.any(String),
      hidden: false,
    });
    expect(await patch({ hidden: true })).toMatchObject({
      verified: false,
      verified_by: null,
      verified_at: null,
      hidden: true,
    });
    await patch({ verified: true });
    expect(await patch({ verified: false })).toMatchObject({
      verified: false,
      verified_by: null,
      verified_at: null,
      hidden: false,
    });
    const both = await api.send("PATCH", `${PATH}/${id}`, { verified: true, hidden: true });
    expect(both).toMatchObject({
      status: 400,
      body: { attr: null, detail: "An event cannot be both hidden and verified" },
    });
  });

  test("[ED-24] what cannot be understood is refused by its name", async () => {
    const { id } = await declare("paid");
    const stranger = await api.newUser();
    const bad: [object, string, string][] = [
      [{ description: "x".repeat(401) }, "max_length", "description"],
      [{ description: 7 }, "invalid_input", "description"],
      [{ tags: null }, "null", "tags"],
      [{ tags: "core" }, "invalid_input", "tags"],
      [{ tags: ["a", 7] }, "invalid_input", "tags__1"],
      [{ verified: "yes" }, "invalid_input", "verified"],
      [{ owner: "ada" }, "invalid_input", "owner"],
      [{ owner: stranger }, "invalid_input", "owner"],
      [{ owner: 99_999 }, "invalid_input", "owner"],
      [{ default_columns: {} }, "invalid_input", "default_columns"],
    ];
    for (const [body, code, attr] of bad) {
      expect(await refusal("PATCH", `${PATH}/${id}`, body)).toEqual([400, code, attr]);
      expect(await refusal("POST", PATH, { name: "n", ...body })).toEqual([400, code, attr]);
    }
    expect(await refusal("POST", PATH, {})).toEqual([400, "required", "name"]);
    expect(await refusal("POST", PATH, { name: "" })).toEqual([400, "blank", "name"]);
    const long = { name: "x".repeat(201) };
    expect(await refusal("POST", PATH, long)).toEqual([400, "max_length", "name"]);
    for (const [query, code, attr] of [
      ["event_type=custom", "invalid_choice", "event_type"],
      ["ordering=volume", "invalid_choice", "ordering"],
      ["ordering=constructor", "invalid_choice", "ordering"],
      ["exclude_hidden=maybe", "invalid_input", "exclude_hidden"],
      ["verified=2", "invalid_input", "verified"],
      ["tags=[1]", "invalid_input", "tags"],
      ["excluded_properties=paid", "invalid_input", "excluded_properties"],
      ["excluded_properties=[", "invalid_input", "excluded_properties"],
    ]) {
      expect(await refusal("GET", `${PATH}?${query}`)).toEqual([400, code, attr]);
    }
    expect((await api.send("GET", `${PATH}?event_type=custom`)).body.detail).toMatch(
      /^"custom" is not a valid choice\. Possible is .*event_custom/,
    );
  });

  test("[ED-25] lists are searched, filtered, ordered and paged", async () => {
    const at = (minute: number) => new Date(NOW.getTime() + minute * 60_000);
    await api.see(
      { event: "paid order", receivedAt: at(0) },
      { event: "$pageview", receivedAt: at(9) },
      { event: "Application Opened", receivedAt: at(3) },
    );
    await declare("not yet", { tags: ["core"], hidden: true });
    expect(await names()).toEqual(["$pageview", "Application Opened", "paid order", "not yet"]);
    expect(await names("ordering=last_seen_at")).toEqual([
      "paid order",
      "Application Opened",
      "$pageview",
      "not yet",
    ]);
    expect(await names("ordering=-name")).toEqual([
      "paid order",
      "not yet",
      "Application Opened",
      "$pageview",
    ]);
    expect(await names("ordering=-last_seen_at::date&ordering=name")).toEqual([
      "$pageview",
      "Application Opened",
      "paid order",
      "not yet",
    ]);
    expect(await names("search=ORDER pa")).toEqual(["paid order"]);
    expect(await names("event_type=event_custom&ordering=name")).toEqual(["not yet", "paid order"]);
    expect(await names("event_type=event_posthog")).toEqual(["$pageview", "Application Opened"]);
    expect(await names("event_type=all&exclude_hidden=true")).toHaveLength(3);
    expect(await names("tags=core,other")).toEqual(["not yet"]);
    expect(await names('tags=["Core"]')).toEqual(["not yet"]);
    expect(await names("verified=true")).toEqual([]);
    expect(await names('excluded_properties=["$pageview","not yet"]')).toHaveLength(2);
    const { body } = await api.send("GET", `${PATH}?limit=2&offset=1&ordering=name`);
    expect(body).toMatchObject({
      count: 4,
      results: [{ name: "Application Opened" }, { name: "not yet" }],
      next: expect.stringContaining("offset=3"),
      previous: expect.stringContaining("limit=2"),
    });
  });

  test("[ED-26] a deleted definition is gone, and comes back with the next event", async () => {
    await api.see({ event: "paid" });
    const { id } = await byName("paid");
    const deleted = await api.send("DELETE", `${PATH}/${id}`);
    expect(deleted).toEqual({ status: 204, body: undefined });
    expect((await api.send("DELETE", `${PATH}/${id}`)).status).toBe(404);
    expect(await names()).toEqual([]);
    await api.see({ event: "paid" });
    expect(await names()).toEqual(["paid"]);
    expect((await byName("paid")).id).not.toBe(id);
  });

  test("[ED-27] several are changed and deleted at once, or none where one is unknown", async () => {
    const ids = [(await declare("a")).id, (await declare("b")).id];
    const changed = await api.send("PATCH", PATH, { ids, tags: ["x"], verified: true });
    expect(changed).toMatchObject({
      status: 200,
      body: {
        results: [
          { name: "a", tags: ["x"], verified: true },
          { name: "b", tags: ["x"], verified: true },
        ],
      },
    });
    for (const method of ["PATCH", "DELETE"] as const) {
      const some = { ids: [...ids, UNKNOWN], hidden: true };
      expect(await refusal(method, PATH, some)).toEqual([400, "invalid_input", "ids__2"]);
      const malformed = { ids: [ids[0], "x"] };
      expect(await refusal(method, PATH, malformed)).toEqual([400, "invalid_input", "ids__1"]);
      expect(await refusal(method, PATH, {})).toEqual([400, "required", "ids"]);
      expect(await refusal(method, PATH, { ids: [] })).toEqual([400, "invalid_input", "ids"]);
    }
    expect(await names("verified=true&ordering=name")).toEqual(["a", "b"]);
    expect(await api.send("DELETE", PATH, { ids: [ids[0], ids[0]] })).toEqual({
      status: 200,
      body: { deleted: 1 },
    });
    expect(await names()).toEqual(["b"]);
  });

  test("[ED-28] it is told how often an event came lately", async () => {
    const { id } = await declare("paid");
    const { body } = await api.send("GET", `${PATH}/${id}/metrics`);
    expect(body).toEqual({ query_usage_30_day: 0, volume_30_day: 7 });
    const after = new Date("2026-01-30T10:00:00.123Z");
    expect(api.counted).toEqual([{ projectId: api.projectId, event: "paid", after }]);
  });

  test("[ED-29] it is told which cohorts and flags look at an event, through other cohorts too", async () => {
    const { id } = await declare("paid");
    const cohorts = createCohortStore(api.database);
    const flags = createFlagStore(api.database);
    const revision = async () => (await flags.definitions(api.projectId)).revision;
    const cohort = async (name: string, value: object) => {
      const fields = {
        name,
        description: "",
        isStatic: false,
        deleted: false,
        filters: { properties: { type: "OR", values: [{ type: "AND", values: [value] }] } },
      };
      const made = await cohorts.create(
        api.projectId,
        fields as never,
        { uuids: [], distinctIds: [] },
        { authorId: api.user.id, now: NOW, ifRevision: await revision() },
      );
      if (made === "stale") throw new Error(made);
      return made.cohort.id;
    };
    const flag = async (key: string, properties: object[]) => {
      const fields = someFlag({ key, filters: { groups: [{ properties }] } as never });
      const write = { authorId: api.user.id, now: NOW, ifRevision: await revision() };
      const made = await flags.create(api.projectId, fields, write);
      if (typeof made === "string") throw new Error(made);
      return made.id;
    };
    const behavior = { type: "behavioral", value: "performed_event", event_type: "events" };
    const buyers = await cohort("Buyers", { ...behavior, key: "paid" });
    await cohort("Actions", { ...behavior, event_type: "actions", key: "paid" });
    await cohort("People", { type: "person", key: "paid", value: "paid" });
    const repeated = await cohort("Sequence", {
      ...behavior,
      key: "left",
      seq_event: "paid",
      seq_event_type: "events",
    });
    const outer = await cohort("Outer", { type: "cohort", key: "id", value: buyers });
    const used = await flag("vip", [{ type: "cohort", key: "id", value: outer }]);
    await flag("free", [{ type: "person", key: "paid", value: "paid" }]);
    const { body } = await api.send("GET", `${PATH}/${id}/used_by`);
    expect(body.results).toEqual([
      { type: "cohort", id: buyers, name: "Buyers" },
      { type: "cohort", id: repeated, name: "Sequence" },
      { type: "flag", id: used, name: "vip" },
    ]);
  });

  test("[ED-13] changes are in the activity of the project", async () => {
    const { id } = await declare("paid");
    await api.send("PATCH", `${PATH}/${id}`, { description: "d", owner: api.user.id });
    await api.send("PATCH", `${PATH}/${id}`, { description: "d" });
    await api.send("DELETE", `${PATH}/${id}`);
    const { body } = await api.send("GET", `activity_log?scope=EventDefinition&item_id=${id}`);
    expect(body.results).toMatchObject([
      { activity: "deleted", detail: { name: "paid" }, user: { id: api.user.id } },
      {
        activity: "updated",
        detail: {
          changes: [
            { field: "description", before: null, after: "d" },
            { field: "owner_id", before: null, after: api.user.id },
          ],
        },
      },
      { activity: "created", item_id: id },
    ]);
  });
});

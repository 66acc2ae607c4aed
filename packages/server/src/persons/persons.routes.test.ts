import { randomUUID } from "node:crypto";
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

const refusal = (
  attr: string | null,
  code = "invalid_input",
  detail: unknown = expect.any(String),
) => ({
  status: 400,
  body: { type: "validation_error", code, detail, attr },
});
const notFound = {
  status: 404,
  body: { type: "invalid_request", code: "not_found", detail: "Not found.", attr: null },
};
const list = (parameters: Record<string, string> = {}) =>
  project.get(`persons/?${new URLSearchParams(parameters)}`);
const listed = async (parameters: Record<string, string> = {}): Promise<string[]> => {
  const { status, body } = await list(parameters);
  if (status !== 200) throw new Error(JSON.stringify(body));
  return body.results.map((person: { distinct_ids: string[] }) => person.distinct_ids[0]);
};
const filters = (...sent: readonly object[]) => ({ properties: JSON.stringify(sent) });
const set = (distinctId: string, properties: Record<string, unknown>) => ({
  distinct_id: distinctId,
  properties: { $set: properties } as never,
});
const onFor = (...properties: readonly object[]) => ({
  groups: [{ properties, rollout_percentage: 100 }] as never,
});

describe("listing persons", () => {
  test("[PR-1] shows persons whole, newest first, as soon as their events are acknowledged", async () => {
    await project.capture({
      ...set("ann", { email: "ann@example.org" }),
      timestamp: "2026-01-01T00:00:00Z",
    });
    await project.capture({ ...set("bob", { plan: "pro" }), timestamp: "2026-01-02T00:00:00Z" });
    await project.identify("ann", "0192a000-0000-7000-8000-000000000001");
    const { status, body } = await list();
    expect(status).toBe(200);
    expect(body).toEqual({
      count: 2,
      next: null,
      previous: null,
      results: [
        {
          id: expect.any(Number),
          name: "bob",
          distinct_ids: ["bob"],
          properties: expect.objectContaining({ plan: "pro" }),
          created_at: "2026-01-02T00:00:00Z",
          uuid: expect.stringMatching(/^[0-9a-f-]{36}$/),
          is_identified: false,
        },
        {
          id: expect.any(Number),
          name: "ann@example.org",
          // The chosen id before the one that an SDK made up.
          distinct_ids: ["ann", "0192a000-0000-7000-8000-000000000001"],
          properties: expect.objectContaining({ email: "ann@example.org" }),
          created_at: "2026-01-01T00:00:00Z",
          uuid: expect.any(String),
          is_identified: true,
        },
      ],
    });
    for (const path of [
      `/api/environments/${project.id}/persons`,
      `${project.path}/persons?limit=5`,
    ]) {
      expect((await composed.send("GET", path)).body.results).toEqual(body.results);
    }
  });

  test("[PR-1] answers below the older name for the project of the caller", async () => {
    const current = await composed.send("GET", "/api/projects/@current/persons/");
    expect(await composed.send("GET", "/api/person/")).toEqual(current);
    expect(await composed.send("GET", "/api/person?limit=1")).toMatchObject({ status: 200 });
    expect(await composed.send("GET", "/api/person/999999")).toMatchObject(notFound);
    expect((await composed.send("GET", "/api/persona")).status).toBe(404);
  });

  test("[PR-2] links to a place, so that nobody is left out or doubled when others are deleted", async () => {
    for (let n = 0; n < 7; n++) {
      await project.capture({ distinct_id: `p${n}`, timestamp: `2026-01-01T00:00:0${n}Z` });
    }
    const first = (await list({ limit: "3" })).body;
    expect(first).toMatchObject({ count: 7, previous: null });
    const { uuid } = await project.personOf("p5");
    await project.call("DELETE", `persons/${uuid}`);
    const second = (
      await composed.send("GET", new URL(first.next).pathname + new URL(first.next).search)
    ).body;
    expect(
      second.results.map((person: { distinct_ids: string[] }) => person.distinct_ids[0]),
    ).toEqual(["p3", "p2", "p1"]);
    expect(new URL(second.previous).searchParams.has("cursor")).toBe(false);
    const next = new URL(second.next);
    const third = (await composed.send("GET", next.pathname + next.search)).body;
    expect(third).toMatchObject({ next: null, results: [{ distinct_ids: ["p0"] }] });
    expect(await listed({ limit: "2", offset: "2" })).toEqual(["p3", "p2"]);
    expect((await list({ offset: "50" })).body).toMatchObject({ results: [], next: null });
    expect(await list({ cursor: "x" })).toEqual(
      refusal("cursor", "invalid_input", "Invalid cursor"),
    );
  });

  test("[PR-3] selects by search, distinct id and mail address", async () => {
    await project.capture(set("ann", { email: "Ann@Example.org" }), set("bob", { name: "Bobby" }), {
      distinct_id: "o'clock 💥",
    });
    expect(await listed({ search: "example" })).toEqual(["ann"]);
    expect(await listed({ search: "bob" })).toEqual(["bob"]);
    expect(await listed({ search: (await project.personOf("bob")).uuid })).toEqual(["bob"]);
    expect(await listed({ distinct_id: "o'clock 💥" })).toEqual(["o'clock 💥"]);
    expect(await listed({ distinct_id: "nobody" })).toEqual([]);
    expect(await listed({ email: "Ann@Example.org" })).toEqual(["ann"]);
    expect(await listed({ email: "ann@example.org" })).toEqual([]);
    expect(await listed({ email: "Ann@Example.org", search: "bob" })).toEqual([]);
    expect((await listed({ search: "" })).length).toBe(3);
  });

  test("[PR-3] selects by properties with the operators of flags", async () => {
    await project.capture(
      set("a", { age: 9, plan: "pro", seats: "5" }),
      set("b", { age: 10, plan: "free", joined: "2026-01-05" }),
      set("c", {}),
    );
    const is = (key: string, operator: string, value?: unknown) =>
      listed(filters({ key, type: "person", operator, value })).then((found) => found.toSorted());
    expect(await is("age", "gt", "9")).toEqual(["b"]);
    expect(await is("plan", "exact", ["pro", "x"])).toEqual(["a"]);
    expect(await is("plan", "is_not", "pro")).toEqual(["b", "c"]);
    expect(await is("plan", "is_set")).toEqual(["a", "b"]);
    expect(await is("plan", "is_not_set")).toEqual(["c"]);
    expect(await is("plan", "icontains", "RE")).toEqual(["b"]);
    expect(await is("plan", "regex", "^p(?=r)")).toEqual(["a"]);
    expect(await is("seats", "exact", 5)).toEqual(["a"]);
    expect(await is("joined", "is_date_before", "2026-01-06")).toEqual(["b"]);
    const both = filters(
      { key: "age", value: "5", operator: "gt" },
      { key: "plan", value: "free" },
    );
    expect(await listed(both)).toEqual(["b"]);
    expect((await list(both)).body.count).toBe(1);
    expect(
      (await list({ ...filters({ key: "plan", operator: "is_set" }), limit: "1" })).body.count,
    ).toBeNull();
    expect(
      (
        await list({
          ...filters({ key: "plan", operator: "is_set" }),
          limit: "1",
          include_total: "true",
        })
      ).body.count,
    ).toBe(2);
  });

  test("[PR-3] selects by cohorts of both kinds", async () => {
    await project.capture(set("a", { plan: "pro" }), set("b", { plan: "free" }), set("c", {}));
    const cohort = async (body: object): Promise<string> =>
      String((await project.call("POST", "cohorts", body)).body.id);
    const chosen = await cohort({ name: "chosen", is_static: true, distinct_ids: ["a", "c"] });
    const pro = await cohort({
      name: "pro",
      filters: {
        properties: {
          type: "OR",
          values: [
            {
              type: "AND",
              values: [{ key: "plan", type: "person", operator: "exact", value: "pro" }],
            },
          ],
        },
      },
    });
    const member = (value: string, operator: string) =>
      filters({ key: "id", type: "cohort", value: Number(value), operator });
    expect((await listed({ cohort: chosen })).toSorted()).toEqual(["a", "c"]);
    expect(await listed({ cohort: pro })).toEqual(["a"]);
    expect((await listed(member(pro, "not_in"))).toSorted()).toEqual(["b", "c"]);
    expect(await listed({ cohort: chosen, ...member(pro, "not_in") })).toEqual(["c"]);
    expect(await listed({ ...member(chosen, "not_in"), search: "b" })).toEqual(["b"]);
    expect(await list({ cohort: "999999" })).toEqual(refusal("cohort", "cohort_does_not_exist"));
    expect(await list({ cohort: "x" })).toEqual(refusal("cohort"));
    const { uuid } = await project.personOf("a");
    const { body } = await project.get(`persons/cohorts?person_id=${uuid}`);
    expect(body.results.map(({ name }: { name: string }) => name)).toEqual(["chosen", "pro"]);
    const nobody = await project.get(`persons/cohorts?person_id=${randomUUID()}`);
    expect(nobody).toEqual(notFound);
    expect(await project.get("persons/cohorts")).toEqual(refusal("person_id", "required"));
    const { body: reader } = await composed.send("POST", "/api/personal_api_keys", {
      label: "reader",
      scopes: ["person:read"],
    });
    const path = `${project.path}/persons/cohorts?person_id=${uuid}`;
    const headers = { authorization: `Bearer ${reader.value}` };
    expect(await composed.send("GET", path, undefined, headers)).toMatchObject({
      status: 403,
      body: { detail: "API key missing required scope 'cohort:read'" },
    });
  });

  test("[PR-3] refuses a filter that cannot be read, by its name", async () => {
    for (const text of [
      "{",
      "{}",
      "[1]",
      '[{"key":""}]',
      '[{"key":"a","operator":"bogus","value":1}]',
    ]) {
      expect(await list({ properties: text })).toEqual(refusal("properties"));
    }
    expect(await list(filters({ key: "a", type: "event", value: 1 }))).toEqual(
      refusal("properties"),
    );
    expect(await list(filters({ key: "id", type: "cohort", value: "x" }))).toEqual(
      refusal("properties"),
    );
  });
});

describe("one person", () => {
  test("[PR-4] is read by number and by uuid in any case, in the own project only", async () => {
    await project.capture({ distinct_id: "ann" });
    const person = await project.personOf("ann");
    expect(await project.get(`persons/${person.id}`)).toEqual({ status: 200, body: person });
    expect((await project.get(`persons/${person.uuid.toUpperCase()}/`)).body).toEqual(person);
    const other = await composed.newProject();
    expect(await other.get(`persons/${person.id}`)).toEqual(notFound);
    expect(await other.get(`persons/${person.uuid}`)).toEqual(notFound);
    expect(await project.get("persons/ann")).toEqual(
      refusal(
        null,
        "invalid_input",
        "The ID provided does not look like a personID. If you are using a distinctId, please use /persons?distinct_id=ann instead.",
      ),
    );
    expect((await project.call("POST", "persons", {})).status).toBe(405);
  });

  test("[PR-5] takes properties by hand, which the next flag request sees", async () => {
    await project.createFlag(
      "pro",
      onFor({ key: "plan", type: "person", operator: "exact", value: "pro" }),
    );
    await project.capture(set("ann", { plan: "free", age: 3, __proto: 1 }));
    const { uuid } = await project.personOf("ann");
    expect(await project.flags("ann")).toEqual({ pro: false });
    const changed = await project.call("PATCH", `persons/${uuid}`, {
      properties: { plan: "pro", constructor: [1, { a: null }] },
    });
    expect(changed).toMatchObject({
      status: 202,
      body: { uuid, properties: { plan: "pro", age: 3, constructor: [1, { a: null }] } },
    });
    expect(await project.flags("ann")).toEqual({ pro: true });
    // What happened earlier does not undo it; what happens later does.
    await project.capture({ ...set("ann", { plan: "old" }), timestamp: "2020-01-01T00:00:00Z" });
    expect(await project.flags("ann")).toEqual({ pro: true });
    await project.capture(set("ann", { plan: "free" }));
    expect(await project.flags("ann")).toEqual({ pro: false });
    expect(
      await project.call("POST", `persons/${uuid}/update_property`, { key: "plan", value: "pro" }),
    ).toMatchObject({ status: 202, body: { properties: { plan: "pro" } } });
    expect(await project.flags("ann")).toEqual({ pro: true });
    expect(
      await project.call("POST", `persons/${uuid}/delete_property`, { $unset: "plan" }),
    ).toEqual({
      status: 201,
      body: { success: true },
    });
    expect(await project.flags("ann")).toEqual({ pro: false });
    expect((await project.personOf("ann")).properties).not.toHaveProperty("plan");
  });

  test("[PR-5] refuses bodies and properties that it cannot take", async () => {
    await project.capture({ distinct_id: "ann" });
    const { uuid } = await project.personOf("ann");
    const path = `persons/${uuid}`;
    expect(await project.call("PATCH", path, {})).toEqual(refusal("properties", "required"));
    expect(await project.call("PATCH", path, { properties: [] })).toEqual(refusal("properties"));
    expect(await project.call("PUT", path, { properties: { a: "x".repeat(700_000) } })).toEqual(
      refusal("properties"),
    );
    const update = `${path}/update_property`;
    expect(await project.call("POST", update, { value: 1 })).toEqual(refusal("key", "required"));
    expect(await project.call("POST", update, { key: "a", value: null })).toEqual(
      refusal("value", "required"),
    );
    expect(await project.call("POST", `${path}/delete_property`, {})).toEqual(
      refusal("$unset", "required"),
    );
    const nobody = `persons/${randomUUID()}`;
    expect(await project.call("PATCH", nobody, { properties: {} })).toEqual(notFound);
    expect(await project.call("DELETE", nobody)).toEqual(notFound);
    expect(await project.call("POST", `${nobody}/split`, {})).toEqual(notFound);
  });
});

describe("deleting", () => {
  test("[PR-6] a person goes for flag requests and lists, the events stay; the id makes a new person", async () => {
    await project.createFlag(
      "pro",
      onFor({ key: "plan", type: "person", operator: "exact", value: "pro" }),
    );
    await project.capture({ ...set("ann", { plan: "pro" }), event: "before" });
    const { uuid, id } = await project.personOf("ann");
    expect(await project.flags("ann")).toEqual({ pro: true });
    expect(await project.call("DELETE", `persons/${id}`)).toEqual({ status: 202, body: undefined });
    expect(await project.flags("ann")).toEqual({ pro: false });
    expect(await listed()).toEqual([]);
    expect(await project.get(`persons/${uuid}`)).toEqual(notFound);
    expect((await project.get("events")).body.results).toMatchObject([
      { event: "before", person: null },
    ]);
    await project.capture({ distinct_id: "ann", event: "after" });
    const next = await project.personOf("ann");
    expect(next.uuid).not.toBe(uuid);
    expect(await project.eventNames({ person_id: next.uuid })).toEqual(["after"]);
    expect(await project.eventNames({ person_id: uuid })).toEqual(["before"]);
  });

  test("[PR-7] with their events, those under all ids and of persons who were merged", async () => {
    await project.capture({ distinct_id: "visitor", event: "first" });
    await project.capture({ distinct_id: "ann", event: "second" });
    await project.identify("ann", "visitor");
    await project.capture(
      { distinct_id: "visitor", event: "third" },
      { distinct_id: "bob", event: "other" },
    );
    const { uuid } = await project.personOf("visitor");
    expect(await project.call("DELETE", `persons/${uuid}?delete_events=true`)).toMatchObject({
      status: 202,
    });
    expect(await project.eventNames()).toEqual(["other"]);
    await project.capture({ distinct_id: "visitor", event: "again" });
    expect((await project.eventNames()).toSorted()).toEqual(["again", "other"]);
    const bob = await project.personOf("bob");
    expect(
      (await project.call("DELETE", `persons/${bob.uuid}?delete_events=maybe`)).body,
    ).toMatchObject({
      attr: "delete_events",
    });
    await project.call("DELETE", `persons/${bob.uuid}?delete_events=false`);
    expect((await project.eventNames()).toSorted()).toEqual(["again", "other"]);
  });

  test("[PR-7] only their events, while the persons stay", async () => {
    await project.capture({ ...set("ann", { plan: "pro" }), event: "before" });
    const { uuid } = await project.personOf("ann");
    await project.call("DELETE", `persons/${uuid}?delete_events=true&keep_person=true`);
    expect(await project.eventNames()).toEqual([]);
    expect(await project.personOf("ann")).toMatchObject({ uuid, properties: { plan: "pro" } });
    await project.capture({ distinct_id: "ann", event: "after" });
    expect(await project.eventNames({ person_id: uuid })).toEqual(["after"]);
  });

  test("[PR-6] many at once, by uuids or by distinct ids; nobody's names are left out", async () => {
    await project.capture(
      ...["a", "b", "c", "d"].map((id) => ({ distinct_id: id, event: `of ${id}` })),
    );
    const [a, b] = [await project.personOf("a"), await project.personOf("b")];
    const answer = (found: number, events: boolean) => ({
      status: 202,
      body: {
        persons_found: found,
        persons_deleted: found,
        events_queued_for_deletion: events,
        recordings_queued_for_deletion: false,
        deletion_errors: [],
      },
    });
    const bulk = (body: object) => project.call("POST", "persons/bulk_delete/", body);
    expect(await bulk({ ids: [a.uuid, b.uuid.toUpperCase(), randomUUID()] })).toEqual(
      answer(2, false),
    );
    expect(await bulk({ distinct_ids: ["c", "nobody"], delete_events: true })).toEqual(
      answer(1, true),
    );
    expect(await bulk({ distinct_ids: ["c"], delete_events: true })).toEqual(answer(0, false));
    expect(await listed()).toEqual(["d"]);
    expect((await project.eventNames()).toSorted()).toEqual(["of a", "of b", "of d"]);
    expect(await bulk({})).toEqual(
      refusal(null, "invalid_input", "You need to specify either distinct_ids or ids"),
    );
    expect(await bulk({ ids: ["x"] })).toEqual(refusal("ids__0"));
    expect(await bulk({ distinct_ids: Array.from({ length: 1001 }, String) })).toEqual(
      refusal("distinct_ids", "invalid_input", "You can only pass 1000 distinct_ids in one call"),
    );
  });
});

describe("splitting", () => {
  test("[PR-8] makes a person of every other id, and takes the events of the ids along", async () => {
    await project.createFlag(
      "pro",
      onFor({ key: "plan", type: "person", operator: "exact", value: "pro" }),
    );
    await project.capture(
      { ...set("ann", { plan: "pro" }), event: "of ann" },
      { distinct_id: "bob", event: "of bob" },
    );
    await project.capture({
      event: "$merge_dangerously",
      distinct_id: "ann",
      properties: { alias: "bob" },
    });
    const { uuid } = await project.personOf("bob");
    expect(await project.flags("bob")).toEqual({ pro: true });
    expect(await project.eventNames({ person_id: uuid })).toEqual([
      "of ann",
      "of bob",
      "$merge_dangerously",
    ]);
    expect(
      await project.call("POST", `persons/${uuid}/split`, { main_distinct_id: "eve" }),
    ).toEqual(refusal("main_distinct_id"));
    expect(
      await project.call("POST", `persons/${uuid}/split`, { main_distinct_id: "ann" }),
    ).toEqual({
      status: 201,
      body: { success: true },
    });
    const [ann, bob] = [await project.personOf("ann"), await project.personOf("bob")];
    expect(ann).toMatchObject({ uuid, distinct_ids: ["ann"], properties: { plan: "pro" } });
    expect(bob).toMatchObject({ distinct_ids: ["bob"], properties: {} });
    expect(await project.flags("bob")).toEqual({ pro: false });
    expect(await project.eventNames({ person_id: ann.uuid })).toEqual([
      "of ann",
      "$merge_dangerously",
    ]);
    expect(await project.eventNames({ person_id: bob.uuid })).toEqual(["of bob"]);
    const { body } = await project.get("events?event=of%20bob");
    expect(body.results[0].person).toMatchObject({ uuid: bob.uuid, distinct_ids: ["bob"] });
  });
});

describe("what there is to know about persons", () => {
  test("[PR-11] the values that most have of a property, and the properties there are", async () => {
    await project.capture(
      set("a", { plan: "pro", on: true, tags: ["x", "y"] }),
      set("b", { plan: "pro", tags: ["x"] }),
      set("c", { plan: "Free", nothing: null, big: "x".repeat(2000) }),
    );
    expect((await project.get("persons/values?key=plan")).body).toEqual([
      { name: "pro", count: 2 },
      { name: "Free", count: 1 },
    ]);
    expect((await project.get("persons/values?key=plan&value=fr")).body).toEqual([
      { name: "Free", count: 1 },
    ]);
    expect((await project.get("persons/values?key=on")).body).toEqual([{ name: "true", count: 1 }]);
    expect((await project.get("persons/values?key=tags")).body).toEqual([
      { name: "x", count: 2 },
      { name: "y", count: 1 },
    ]);
    expect((await project.get("persons/values?key=big")).body).toEqual([]);
    expect((await project.get("persons/values?key=nothing")).body).toEqual([]);
    expect((await project.get("persons/values")).body).toEqual([]);
    const { body } = await project.get("persons/properties");
    expect(body).toContainEqual({ name: "plan", count: 3 });
    expect(body).toContainEqual({ name: "tags", count: 2 });
  });

  test("[PR-12] who changed them by hand, without what was deleted with them", async () => {
    await project.capture(set("ann", { email: "ann@example.org" }), { distinct_id: "bob" });
    await project.capture({
      event: "$create_alias",
      distinct_id: "ann",
      properties: { alias: "ann2" },
    });
    const { uuid, id } = await project.personOf("ann");
    await project.call("PATCH", `persons/${uuid}`, { properties: { email: "secret@example.org" } });
    await project.call("POST", `persons/${uuid}/delete_property`, { $unset: "email" });
    await project.call("POST", `persons/${uuid}/split`, { main_distinct_id: "ann" });
    const { body } = await project.get(`persons/${id}/activity`);
    expect(body.results.map(({ activity }: { activity: string }) => activity)).toEqual([
      "split_person",
      "delete_property",
      "updated",
    ]);
    expect(body.results[2]).toMatchObject({
      scope: "Person",
      item_id: String(id),
      user: { email: expect.any(String) },
      detail: { name: uuid, changes: [{ field: "properties", before: [], after: ["email"] }] },
    });
    await project.call("DELETE", `persons/${uuid}`);
    expect(await project.get(`persons/${id}/activity`)).toEqual(notFound);
    const all = (await project.get("persons/activity")).body;
    expect(all.count).toBe(4);
    expect(all.results[0]).toMatchObject({ activity: "deleted", item_id: String(id) });
    expect(JSON.stringify(all)).not.toContain("secret@");
  });
});

import { randomUUID } from "node:crypto";
import { evaluateFlags } from "@hedgerow/core/flags/evaluate-flags";
import type { FlagSelection } from "@hedgerow/core/flags/evaluation-request";
import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import { createPersonStore } from "../engines/sql/person-store.ts";
import { openFlagsApi } from "../flags/flags-api.setup.ts";
import type { PersonStore } from "../persons/person-store.ts";

let api: Awaited<ReturnType<typeof openFlagsApi>>;
let persons: PersonStore;
let projectId: number;
let project: string;

beforeAll(async () => {
  api = await openFlagsApi();
  persons = createPersonStore(api.database, {
    continuityFlagKeys: async () => [],
    onGroupTypeAdded: async () => {},
    reportFault: (error) => {
      throw error;
    },
  });
});
afterAll(() => api.close());
beforeEach(async () => {
  projectId = await api.newProject();
  project = `/api/projects/${projectId}`;
});

const create = async (body: object) => {
  const answer = await api.send("POST", `${project}/cohorts`, body);
  if (answer.status !== 201) throw new Error(JSON.stringify(answer.body));
  return answer.body;
};
const createFlag = async (key: string, cohortId: number) => {
  const properties = [{ key: "id", type: "cohort", operator: "in", value: cohortId }];
  const answer = await api.send("POST", `${project}/feature_flags`, {
    key,
    filters: { groups: [{ properties, rollout_percentage: 100 }] },
  });
  if (answer.status !== 201) throw new Error(JSON.stringify(answer.body));
  return answer.body;
};
const send = (method: "GET" | "PATCH" | "PUT" | "DELETE", id: number, body?: object, action = "") =>
  api.send(method, `${project}/cohorts/${id}${action}`, body);
const refusal = (code: string, detail: string, attr: string | null) => ({
  status: 400,
  body: { type: "validation_error", code, detail, attr },
});
const notFound = (detail = "Not found.") => ({
  status: 404,
  body: { type: "invalid_request", code: "not_found", detail, attr: null },
});

/** A flag's value for a stored person, as a flag request would give it now. */
const valueFor = async (distinctId: string, key: string) => {
  const { flagSet } = await api.compiledFlags.get(projectId);
  const stored = await persons.factsFor({
    projectId,
    distinctId,
    anonDistinctId: null,
    person: true,
    staticCohorts: true,
    hashKeyOverrides: false,
    groups: {},
  });
  const selection: FlagSelection = {
    keys: null,
    contexts: null,
    runtime: "server",
    onlySurveyFlags: false,
  };
  const { evaluations } = evaluateFlags(flagSet, {
    now: new Date(),
    distinctId,
    deviceId: null,
    anonDistinctId: null,
    groups: {},
    personProperties: {},
    groupProperties: {},
    geoProperties: {},
    stored,
    selection,
  });
  return evaluations.find(({ flag }) => flag.key === key)?.value;
};

const leaf = { key: "email", type: "person", value: "@work", operator: "icontains" };
const ruleOf = (...leaves: object[]) => ({
  properties: { type: "OR", values: [{ type: "AND", values: leaves }] },
});

describe("cohorts", () => {
  test("[CO-3] a dynamic cohort answers 201 with its whole record", async () => {
    const body = await create({ name: "Work", description: "d", filters: ruleOf(leaf), x: 1 });
    expect(body).toEqual({
      id: expect.any(Number),
      team_id: projectId,
      name: "Work",
      description: "d",
      groups: [],
      deleted: false,
      filters: ruleOf(leaf),
      query: null,
      is_calculating: true,
      created_by: expect.objectContaining({ id: api.user.id, email: api.user.email }),
      created_at: "2026-03-01T10:00:00.123000Z",
      last_calculation: null,
      errors_calculating: 0,
      last_error_message: null,
      count: null,
      is_static: false,
      cohort_type: "person_property",
      experiment_set: [],
      unknown_person_ids: [],
      unknown_distinct_ids: [],
      unknown_count: 0,
    });
    const { unknown_person_ids, unknown_distinct_ids, unknown_count, ...record } = body;
    expect(await send("GET", body.id)).toMatchObject({ status: 200, body: record });
    expect((await api.send("GET", `${project}/cohorts/`)).body).toEqual({
      count: 1,
      next: null,
      previous: null,
      results: [record],
    });
  });

  test("[CO-5] the older form, any of several groups, becomes filters", async () => {
    const groups = [{ properties: [leaf] }, { properties: [{ ...leaf, value: "@home" }] }];
    expect((await create({ name: "Old", groups })).filters).toEqual({
      properties: {
        type: "OR",
        values: [
          { type: "AND", values: [leaf] },
          { type: "AND", values: [{ ...leaf, value: "@home" }] },
        ],
      },
    });
  });

  test("a list is filtered by kind, name and author", async () => {
    await create({ name: "Rule" });
    await create({ name: "Chosen", is_static: true });
    const names = async (query: string) =>
      (await api.send("GET", `${project}/cohorts?${query}`)).body.results.map(
        ({ name }: { name: string }) => name,
      );
    expect(await names("")).toEqual(["Chosen", "Rule"]);
    expect(await names("type=static")).toEqual(["Chosen"]);
    expect(await names("type=dynamic")).toEqual(["Rule"]);
    expect(await names("search=rul")).toEqual(["Rule"]);
    expect(await names(`created_by_id=${api.user.id + 1}`)).toEqual([]);
    expect(await names("limit=1&offset=1")).toEqual(["Rule"]);
  });

  test("PATCH and PUT change what they name, live at once", async () => {
    const cohort = await create({ name: "Before", filters: ruleOf(leaf) });
    await createFlag("k", cohort.id);
    await api.newPerson(projectId, ["ann"]);
    expect(await valueFor("ann", "k")).toBe(false);
    const rule = ruleOf({ key: "email", type: "person", operator: "is_not_set" });
    expect(await send("PATCH", cohort.id, { filters: rule })).toMatchObject({
      status: 200,
      body: { name: "Before", filters: rule },
    });
    expect(await valueFor("ann", "k")).toBe(true);
    expect(await send("PUT", cohort.id, { name: "After" })).toMatchObject({
      status: 200,
      body: { name: "After", filters: rule },
    });
  });

  test.each<[string, object, string, string, string | null]>([
    ["a name that is no text", { name: 1 }, "invalid_input", "Not a valid string.", "name"],
    [
      "a long name",
      { name: "n".repeat(401) },
      "max_length",
      "Ensure this field has no more than 400 characters.",
      "name",
    ],
    [
      "is_static as text",
      { is_static: "true" },
      "invalid_input",
      "Must be a valid boolean.",
      "is_static",
    ],
    [
      "a nested cohort that is not there",
      { filters: ruleOf({ type: "cohort", key: "id", value: 987654 }) },
      "cohort_does_not_exist",
      "Cohort with id 987654 does not exist",
      "filters",
    ],
    [
      "a date that is none",
      { filters: ruleOf({ ...leaf, operator: "is_date_after", value: "x" }) },
      "invalid_date",
      "Invalid date value: x",
      "filters",
    ],
    [
      "members of a dynamic cohort",
      { distinct_ids: ["ann"] },
      "invalid_input",
      "Only static cohorts have members of their own.",
      "is_static",
    ],
    [
      "a member's uuid that is none",
      { is_static: true, _create_static_person_ids: [randomUUID(), "x"] },
      "invalid_input",
      "Must be a valid UUID.",
      "_create_static_person_ids__1",
    ],
    [
      "too many members at once",
      { is_static: true, distinct_ids: Array.from({ length: 10_001 }, (_, n) => `${n}`) },
      "invalid_input",
      "List size exceeds limit",
      "distinct_ids",
    ],
  ])("[CO-6] %s is refused", async (_title, body, code, detail, attr) => {
    expect(await api.send("POST", `${project}/cohorts`, body)).toMatchObject(
      refusal(code, detail, attr),
    );
  });

  test("[CO-6] rules of a form that cannot be read are refused with a reason", async () => {
    for (const properties of [[], { type: "XOR", values: [] }, { type: "AND", values: [1] }]) {
      const { status, body } = await api.send("POST", `${project}/cohorts`, {
        filters: { properties },
      });
      expect(status).toBe(400);
      expect(body).toMatchObject({ code: "invalid_input", attr: "filters" });
    }
  });

  test("[CO-6] cohorts do not refer to one another in a loop", async () => {
    const nesting = (value: number) => ruleOf({ type: "cohort", key: "id", value });
    const first = await create({ name: "First" });
    const second = await create({ name: "Second", filters: nesting(first.id) });
    for (const [id, through] of [
      [first.id, ""],
      [second.id, ` → Second (ID: ${second.id})`],
    ] as const) {
      expect(await send("PATCH", first.id, { filters: nesting(id) })).toMatchObject(
        refusal(
          "invalid_input",
          `Cohorts cannot reference other cohorts in a loop: this cohort${through} → this cohort (ID: ${first.id}).`,
          "filters",
        ),
      );
    }
  });

  test("[CO-9] a cohort that flags reach may ask for past behavior, and what cannot be calculated is refused", async () => {
    const behavior = {
      type: "behavioral",
      key: "bought",
      value: "performed_event",
      event_type: "events",
    };
    const cohort = await create({ name: "Buyers", filters: ruleOf(leaf) });
    await createFlag("k", cohort.id);
    const changed = await send("PATCH", cohort.id, { filters: ruleOf(behavior) });
    expect(changed).toMatchObject({ status: 200, body: { cohort_type: "behavioral" } });
    expect(
      await send("PATCH", cohort.id, {
        filters: ruleOf({ ...behavior, value: "performed_event_at_night" }),
      }),
    ).toMatchObject(
      refusal(
        "invalid_input",
        'behavioral conditions of kind "performed_event_at_night" are not supported',
        "filters",
      ),
    );
  });

  test("[CO-4] a cohort in use is not deleted, and what uses it is named", async () => {
    const cohort = await create({ name: "Used", is_static: true });
    const other = await create({
      name: "Other",
      filters: ruleOf({ type: "cohort", key: "id", value: cohort.id }),
    });
    const flag = await createFlag("user-of-it", cohort.id);
    const refused = refusal(
      "invalid_input",
      `This cohort is used in 1 feature flag(s): user-of-it and in 1 cohort(s): Other (ID: ${other.id}). Please remove the cohort from these before deleting it.`,
      null,
    );
    expect(await send("DELETE", cohort.id)).toMatchObject(refused);
    expect(await send("PATCH", cohort.id, { deleted: true })).toMatchObject(refused);
    await api.send("PATCH", `${project}/feature_flags/${flag.id}`, { deleted: true });
    expect(await send("DELETE", other.id)).toMatchObject({ status: 204, body: undefined });
    expect((await send("DELETE", cohort.id)).status).toBe(204);
    expect(await send("DELETE", cohort.id)).toMatchObject(notFound());
    expect((await send("GET", cohort.id)).body).toMatchObject({ deleted: true });
    expect((await api.send("GET", `${project}/cohorts`)).body.count).toBe(0);
    expect(
      await api.send("PATCH", `${project}/feature_flags/${flag.id}`, { deleted: false }),
    ).toMatchObject(
      refusal("cohort_does_not_exist", `Cohort with id ${cohort.id} does not exist`, "filters"),
    );
  });

  test("[CO-7] a cohort stays static or dynamic", async () => {
    const cohort = await create({ name: "Chosen", is_static: true });
    expect(await send("PATCH", cohort.id, { is_static: true, name: "n" })).toMatchObject({
      status: 200,
    });
    expect(await send("PATCH", cohort.id, { is_static: false })).toMatchObject(
      refusal(
        "invalid_input",
        "A cohort cannot change between static and dynamic. Create another one.",
        "is_static",
      ),
    );
  });

  test("[CO-8] cohorts of other projects and unknown ids are not found", async () => {
    const { id } = await create({ name: "c", is_static: true });
    const elsewhere = `/api/projects/${await api.newProject()}/cohorts`;
    for (const path of [`${elsewhere}/${id}`, `${project}/cohorts/0`, `${project}/cohorts/x`]) {
      expect(await api.send("GET", path)).toMatchObject(notFound());
      expect(await api.send("PATCH", path, { name: "n" })).toMatchObject(notFound());
      expect(await api.send("DELETE", path)).toMatchObject(notFound());
      expect(
        await api.send("PATCH", `${path}/add_persons_to_static_cohort`, { distinct_ids: ["a"] }),
      ).toMatchObject(notFound());
    }
  });
});

describe("members of static cohorts", () => {
  const add = (id: number, body: object) =>
    send("PATCH", id, body, "/add_persons_to_static_cohort");
  const remove = (id: number, body: object) =>
    send("PATCH", id, body, "/remove_person_from_static_cohort");

  test("[CO-1] a new static cohort works in the very next flag request", async () => {
    await api.newPerson(projectId, ["ann"]);
    const bob = await api.newPerson(projectId, ["bob"]);
    await api.newPerson(projectId, ["eve"]);
    const stranger = randomUUID();
    const cohort = await create({
      name: "Chosen",
      is_static: true,
      filters: ruleOf(leaf),
      _create_static_person_ids: [bob.uuid, stranger],
      distinct_ids: ["ann", "nobody"],
    });
    expect(cohort).toMatchObject({
      is_static: true,
      cohort_type: "static",
      count: 2,
      is_calculating: false,
      last_calculation: "2026-03-01T10:00:00.123000Z",
      filters: { properties: { type: "OR", values: [] } },
      unknown_person_ids: [stranger],
      unknown_distinct_ids: ["nobody"],
    });
    await createFlag("chosen", cohort.id);
    expect(await valueFor("ann", "chosen")).toBe(true);
    expect(await valueFor("bob", "chosen")).toBe(true);
    expect(await valueFor("eve", "chosen")).toBe(false);
    expect(await valueFor("nobody", "chosen")).toBe(false);
  });

  test("[CO-2] persons come and go, seen by the next flag request", async () => {
    const ann = await api.newPerson(projectId, ["ann", "ann-2"]);
    const cohort = await create({ name: "Chosen", is_static: true });
    await createFlag("chosen", cohort.id);
    expect(await valueFor("ann", "chosen")).toBe(false);
    expect(await add(cohort.id, { person_ids: [ann.uuid], distinct_ids: ["x"] })).toMatchObject({
      status: 200,
      body: { success: true, added: 1, unknown_person_ids: [], unknown_distinct_ids: ["x"] },
    });
    expect(await valueFor("ann-2", "chosen")).toBe(true);
    expect((await send("GET", cohort.id)).body.count).toBe(1);
    expect(await remove(cohort.id, { person_id: ann.uuid })).toMatchObject({
      status: 200,
      body: { success: true },
    });
    expect(await valueFor("ann", "chosen")).toBe(false);
    await add(cohort.id, { distinct_ids: ["ann"] });
    expect((await remove(cohort.id, { distinct_id: "ann-2" })).status).toBe(200);
    expect(await valueFor("ann", "chosen")).toBe(false);
  });

  test("[CO-2] names that lead nowhere are refused", async () => {
    const ann = await api.newPerson(projectId, ["ann"]);
    const { id } = await create({ name: "Chosen", is_static: true });
    const { id: dynamic } = await create({ name: "Rule" });
    const required = refusal("required", "This field is required.", "person_ids");
    expect(await add(id, {})).toMatchObject(required);
    expect(await add(id, { person_ids: [] })).toMatchObject(
      refusal("invalid_input", "person_ids cannot be empty", "person_ids"),
    );
    expect(await add(id, { person_ids: ["x"] })).toMatchObject(
      refusal("invalid_input", "Must be a valid UUID.", "person_ids__0"),
    );
    expect(await add(id, { person_ids: [randomUUID()] })).toMatchObject(
      refusal("invalid_input", "No valid users to add to cohort", null),
    );
    expect(await add(dynamic, { person_ids: [ann.uuid] })).toMatchObject(
      refusal("invalid_input", "Can only add users to static cohorts", null),
    );
    expect(await remove(id, {})).toMatchObject(
      refusal("required", "This field is required.", "person_id"),
    );
    expect(await remove(id, { person_id: randomUUID() })).toMatchObject(
      notFound("Person with this UUID does not exist in the cohort's team"),
    );
    expect(await remove(id, { person_id: ann.uuid })).toMatchObject(
      notFound("Person is not part of the cohort"),
    );
    expect(await remove(dynamic, { person_id: ann.uuid })).toMatchObject(
      refusal("invalid_input", "Can only remove users from static cohorts", null),
    );
  });
});

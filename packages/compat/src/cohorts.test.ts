import { afterAll, expect, test } from "vitest";
import { eventually } from "./eventually.ts";
import { type Management, openManagement, type Wire, type WireList } from "./management.ts";
import { NODE_SDKS, type NodeClient } from "./node-clients.ts";
import { PERSONAL_KEY, type ServerUnderTest, serveTests } from "./server-under-test.ts";

let server: ServerUnderTest;
let management: Management;
let client: NodeClient;
let project: string;

serveTests(async (started) => {
  server = started;
  management = openManagement(server);
  const { body } = await management.call<WireList<Wire>>("GET", "/api/projects/");
  project = `/api/projects/${body.results[0]?.id}`;
  const [sdk] = NODE_SDKS;
  if (!sdk) throw new Error("there is no SDK");
  client = sdk.open({ host: server.url });
});
afterAll(async () => {
  await client?.close();
});

const rule = (...values: object[]) => ({
  filters: { properties: { type: "OR", values: [{ type: "AND", values }] } },
});
async function create(fields: Wire): Promise<number> {
  const { status, body } = await management.call("POST", `${project}/cohorts/`, fields);
  expect(status).toBe(201);
  return body.id as number;
}
const calculated = (id: number) =>
  eventually("the cohort to be calculated", async () => {
    const { body } = await management.call("GET", `${project}/cohorts/${id}/`);
    return body.is_calculating === false && body;
  });
async function flagOn(key: string, cohortId: number): Promise<void> {
  const properties = [{ key: "id", type: "cohort", operator: "in", value: cohortId }];
  await management.createFlag(key, { groups: [{ properties, rollout_percentage: 100 }] });
}
const isOn = (key: string, distinctId: string) => client.isFeatureEnabled(key, distinctId);
/** A file as a form, as a browser sends it. */
async function upload(method: string, path: string, fields: Record<string, string>, csv: string) {
  const form = new FormData();
  for (const [name, value] of Object.entries(fields)) form.set(name, value);
  form.set("csv", new Blob([csv], { type: "text/csv" }), "members.csv");
  const response = await fetch(new URL(path, server.url), {
    method,
    headers: { authorization: `Bearer ${PERSONAL_KEY}` },
    body: form,
  });
  return { status: response.status, body: (await response.json()) as Wire };
}

test("[CP-50] flags follow cohorts of every kind, from events as an SDK sends them", async () => {
  client.identify({ distinctId: "ann", properties: { plan: "pro" } });
  client.identify({ distinctId: "bob", properties: { plan: "free" } });
  for (let times = 0; times < 3; times++) client.capture({ distinctId: "ann", event: "bought" });
  client.capture({ distinctId: "bob", event: "bought", properties: { price: 500 } });
  await client.sendQueued();
  await management.eventsArrived({ event: "bought" }, 4);

  const did = (more: object = {}) => ({
    type: "behavioral",
    key: "bought",
    value: "performed_event",
    event_type: "events",
    time_value: 7,
    time_interval: "day",
    ...more,
  });
  const often = { value: "performed_event_multiple", operator: "gte", operator_value: 2 };
  const dear = { event_filters: [{ key: "price", operator: "gt", value: 100, type: "event" }] };
  const pro = { key: "plan", type: "person", operator: "exact", value: ["pro"] };
  const cohorts = {
    pro: await create({ name: "Pro", ...rule(pro) }),
    often: await create({ name: "Often", ...rule(did(often)) }),
    dear: await create({ name: "Dear", ...rule(did(dear)) }),
    without: await create({ name: "Without", ...rule(did({ ...often, negation: true })) }),
    both: await create({ name: "Both", ...rule(did(), { ...pro, negation: true }) }),
    listed: await create({ name: "Listed", is_static: true, distinct_ids: ["bob"] }),
  };
  const wanted: Record<keyof typeof cohorts, readonly string[]> = {
    pro: ["ann"],
    often: ["ann"],
    dear: ["bob"],
    without: ["bob"],
    both: ["bob"],
    listed: ["bob"],
  };
  for (const [key, members] of Object.entries(wanted)) {
    const id = cohorts[key as keyof typeof cohorts];
    expect(await calculated(id)).toMatchObject({ count: members.length, errors_calculating: 0 });
    await flagOn(key, id);
    for (const person of ["ann", "bob"]) {
      expect([key, person, await isOn(key, person)]).toEqual([
        key,
        person,
        members.includes(person),
      ]);
    }
    expect(await isOn(key, "stranger")).toBe(false);
    const { body } = await management.call<WireList<{ distinct_ids: string[] }>>(
      "GET",
      `${project}/cohorts/${id}/persons/`,
    );
    expect(body.results.flatMap(({ distinct_ids }) => distinct_ids)).toEqual(members);
  }
});

test("[CP-50] a calculated membership is there after a crash, and follows what comes then", async () => {
  const { body } = await management.call<WireList<Wire>>("GET", `${project}/cohorts/?search=often`);
  const often = body.results[0]?.id as number;
  await server.kill();
  await server.startAgain();
  expect(await isOn("often", "ann")).toBe(true);
  client.capture({ distinctId: "bob", event: "bought" });
  await client.sendQueued();
  const filters = (await management.call("GET", `${project}/cohorts/${often}/`)).body
    .filters as object;
  // The same rule, written otherwise, is calculated at once and not only when it is due.
  await management.call("PATCH", `${project}/cohorts/${often}/`, {
    filters: { ...filters, note: "again" },
  });
  await calculated(often);
  expect(await isOn("often", "bob")).toBe(true);
});

test("[CP-51] members come as a file, and leave one by one", async () => {
  const made = await upload(
    "POST",
    `${project}/cohorts/`,
    { name: "From a file", is_static: "true" },
    "distinct_id,plan\nann,pro\nunheard-of,free\n",
  );
  expect(made).toMatchObject({
    status: 201,
    body: { count: 1, unknown_distinct_ids: ["unheard-of"], is_static: true },
  });
  const id = made.body.id as number;
  await flagOn("from-a-file", id);
  expect([await isOn("from-a-file", "ann"), await isOn("from-a-file", "bob")]).toEqual([
    true,
    false,
  ]);
  expect(await upload("PATCH", `${project}/cohorts/${id}/`, {}, "bob")).toMatchObject({
    status: 200,
    body: { count: 2, unknown_count: 0 },
  });
  expect(await isOn("from-a-file", "bob")).toBe(true);
  const path = `${project}/cohorts/${id}/remove_person_from_static_cohort/`;
  await management.call("PATCH", path, { distinct_id: "ann" });
  expect(await isOn("from-a-file", "ann")).toBe(false);
});

test.each(NODE_SDKS)(
  "[CP-52] $name leaves flags on past behavior to the server, never to a guess",
  async ({ open }) => {
    const local = open({ host: server.url, personalApiKey: PERSONAL_KEY });
    try {
      await local.reloadFeatureFlags();
      for (const [key, person, value] of [
        ["often", "ann", true],
        ["dear", "ann", false],
        ["without", "ann", false],
      ] as const) {
        const only = { onlyEvaluateLocally: true, sendFeatureFlagEvents: false };
        expect(await local.getFeatureFlag(key, person, only)).toBeUndefined();
        const asked = { sendFeatureFlagEvents: false };
        expect([key, await local.getFeatureFlag(key, person, asked)]).toEqual([key, value]);
      }
    } finally {
      await local.close();
    }
  },
);

import { randomUUID } from "node:crypto";
import { expect, test } from "vitest";
import {
  type Management,
  openManagement,
  personIs,
  type Wire,
  type WireList,
  where,
} from "./management.ts";
import { openCurrentClient } from "./node-clients.ts";
import { type ServerUnderTest, serveTests } from "./server-under-test.ts";

interface WirePerson extends Wire {
  readonly id: number;
  readonly uuid: string;
  readonly distinct_ids: readonly string[];
  readonly properties: Wire;
}

let server: ServerUnderTest;
let management: Management;

serveTests(async (started) => {
  server = started;
  management = openManagement(server);
  await management.createFlag("gold-only", where(personIs("tier", "exact", ["gold"])));
});

const PROJECT = "/api/projects/@current";
async function personsWith(
  query: Readonly<Record<string, string>>,
): Promise<readonly WirePerson[]> {
  const path = `${PROJECT}/persons/?${new URLSearchParams(query)}`;
  const { status, body } = await management.call<WireList<WirePerson>>("GET", path);
  expect(status).toBe(200);
  return body.results;
}
async function personOf(distinctId: string): Promise<WirePerson> {
  const [person] = await personsWith({ distinct_id: distinctId });
  if (!person) throw new Error(`nobody has ${distinctId}`);
  return person;
}
const eventsOf = async (person: WirePerson): Promise<readonly string[]> =>
  (await management.events({ person_id: person.uuid })).map(({ event }) => event).toSorted();

test("[CP-60] persons whom an SDK identifies and merges are read, changed, split and deleted over the API, also across a crash", async () => {
  const client = openCurrentClient({ host: server.url });
  const anonymous = randomUUID();
  client.capture({ distinctId: anonymous, event: "looked around" });
  client.identify({
    distinctId: "ada",
    properties: { $set: { tier: "gold", email: "ada@example.org" }, $anon_distinct_id: anonymous },
  });
  client.alias({ distinctId: "ada", alias: "ada@phone" });
  client.capture({ distinctId: "ada@phone", event: "called" });
  client.capture({ distinctId: "bob", event: "passed by" });
  await client.flush();
  await client.shutdown();

  const ada = await personOf("ada@phone");
  expect(ada).toMatchObject({
    name: "ada@example.org",
    is_identified: true,
    properties: { tier: "gold", email: "ada@example.org" },
  });
  expect(ada.distinct_ids).toContain("ada");
  expect(ada.distinct_ids).toContain("ada@phone");
  expect((await personsWith({ email: "ada@example.org" })).map(({ uuid }) => uuid)).toEqual([
    ada.uuid,
  ]);
  expect((await personsWith({ search: "ADA@EX" })).map(({ uuid }) => uuid)).toEqual([ada.uuid]);
  expect(await eventsOf(ada)).toContain("called");

  const flagFor = async (distinctId: string): Promise<unknown> => {
    const flags = openCurrentClient({ host: server.url });
    try {
      return await flags.isFeatureEnabled("gold-only", distinctId, {
        sendFeatureFlagEvents: false,
      });
    } finally {
      await flags.shutdown();
    }
  };
  expect(await flagFor("ada@phone")).toBe(true);
  const changed = await management.call("PATCH", `${PROJECT}/persons/${ada.uuid}/`, {
    properties: { tier: "silver" },
  });
  expect(changed).toMatchObject({ status: 202, body: { properties: { tier: "silver" } } });
  expect(await flagFor("ada@phone")).toBe(false);

  const split = await management.call("POST", `${PROJECT}/persons/${ada.id}/split/`, {
    main_distinct_id: "ada",
  });
  expect(split).toMatchObject({ status: 201, body: { success: true } });
  // Whatever was acknowledged is carried out after a crash, if it was not before.
  await server.kill();
  await server.startAgain();
  const phone = await personOf("ada@phone");
  expect(phone).toMatchObject({ distinct_ids: ["ada@phone"], properties: {} });
  expect(phone.uuid).not.toBe(ada.uuid);
  await expect.poll(() => eventsOf(phone)).toContain("called");
  expect(await eventsOf(ada)).not.toContain("called");
  expect((await personOf("ada")).uuid).toBe(ada.uuid);

  const deleted = await management.call("POST", `${PROJECT}/persons/bulk_delete/`, {
    ids: [ada.uuid, phone.uuid],
    delete_events: true,
  });
  expect(deleted).toMatchObject({ status: 202, body: { persons_found: 2, persons_deleted: 2 } });
  await server.kill();
  await server.startAgain();
  const left = async () => (await management.events({})).map(({ event }) => event).toSorted();
  await expect.poll(left).toEqual(["looked around", "passed by"]);
  const persons = await personsWith({});
  expect(persons.flatMap(({ distinct_ids }) => distinct_ids).toSorted()).toEqual(
    [anonymous, "bob"].toSorted(),
  );
});

test("[CP-61] groups that an SDK identifies are read over the API, and flags see what is changed there", async () => {
  const client = openCurrentClient({ host: server.url });
  client.groupIdentify({ groupType: "company", groupKey: "acme", properties: { plan: "free" } });
  client.capture({ distinctId: "bob", event: "worked", groups: { company: "acme" } });
  await client.flush();

  const { body: types } = await management.call<readonly Wire[]>("GET", `${PROJECT}/groups_types/`);
  expect(types).toMatchObject([{ group_type: "company", group_type_index: 0 }]);
  await management.createFlag("paying", {
    aggregation_group_type_index: 0,
    groups: [
      {
        properties: [
          { key: "plan", type: "group", group_type_index: 0, operator: "exact", value: ["pro"] },
        ],
        rollout_percentage: 100,
      },
    ],
  });
  const isPaying = () =>
    client.isFeatureEnabled("paying", "bob", {
      groups: { company: "acme" },
      sendFeatureFlagEvents: false,
    });
  expect(await isPaying()).toBe(false);
  const named = "group_type_index=0&group_key=acme";
  expect(await management.call("GET", `${PROJECT}/groups/find/?${named}`)).toMatchObject({
    status: 200,
    body: { group_key: "acme", group_properties: { plan: "free" } },
  });
  await management.call("POST", `${PROJECT}/groups/update_property/?${named}`, {
    key: "plan",
    value: "pro",
  });
  expect(await isPaying()).toBe(true);
  const related = await management.call<readonly Wire[]>(
    "GET",
    `${PROJECT}/groups/related/?group_type_index=0&id=acme`,
  );
  expect(related.body).toMatchObject([{ type: "person", distinct_ids: ["bob"] }]);
  await client.shutdown();
});

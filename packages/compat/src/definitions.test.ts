import { describe, expect, test } from "vitest";
import { eventually } from "./eventually.ts";
import { openManagement, type Wire, type WireList } from "./management.ts";
import { openCurrentClient } from "./node-clients.ts";
import { type ServerUnderTest, serveTests } from "./server-under-test.ts";

let server: ServerUnderTest;
serveTests((started) => {
  server = started;
});

const PROJECT = "/api/projects/@current";

/** Items of a list by name; fails unless the list answers 200. */
async function listed(path: string): Promise<ReadonlyMap<string, Wire>> {
  const api = openManagement(server);
  const { status, body } = await api.call<WireList<Wire>>("GET", `${PROJECT}/${path}`);
  if (status !== 200) throw new Error(`${path} answered ${status}`);
  return new Map(body.results.map((item) => [String(item.name), item]));
}

describe("definitions of what posthog-node captures", () => {
  test("[ED-14] are there within ten seconds, with types and last-seen times", async () => {
    const before = Date.now();
    const client = openCurrentClient({ host: server.url });
    client.capture({
      distinctId: "ada",
      event: "order paid",
      properties: {
        total: 12.5,
        coupon: null,
        paid_at: "2026-03-01T10:00:00Z",
        first: true,
        method: "card",
        $set: { plan: "pro" },
      },
    });
    client.groupIdentify({ groupType: "company", groupKey: "acme", properties: { seats: 12 } });
    await client.shutdown();
    const events = await eventually("definitions of events", async () => {
      const found = await listed("event_definitions?event_type=all");
      return found.has("order paid") && found.has("$groupidentify") && found;
    });
    const definition = events.get("order paid");
    expect(definition).toMatchObject({ hidden: false, verified: false, owner: null });
    const seenMs = Date.parse(String(definition?.last_seen_at));
    expect(Math.abs(seenMs - before)).toBeLessThan(60_000);
    expect(definition?.created_at).toBe(definition?.last_seen_at);

    const names = encodeURIComponent('["order paid"]');
    const properties = await listed(
      `property_definitions?event_names=${names}&filter_by_event_names=true`,
    );
    const types = Object.fromEntries(
      [...properties].map(([name, { property_type: type }]) => [name, type]),
    );
    expect(types).toMatchObject({
      total: "Numeric",
      coupon: null,
      paid_at: "DateTime",
      first: "Boolean",
      method: "String",
      $lib: "String",
    });
    expect(types).not.toHaveProperty("$set");
    const ofPersons = await listed("property_definitions?type=person");
    expect(ofPersons.get("plan")).toMatchObject({ property_type: "String" });
    const ofGroups = await listed("property_definitions?type=group&group_type_index=0");
    expect(ofGroups.get("seats")).toMatchObject({ property_type: "Numeric", is_numerical: true });
  });

  test("[ED-15] a declared event joins up with the one that comes, and what was decided stays", async () => {
    const api = openManagement(server);
    const declared = await api.call("POST", `${PROJECT}/event_definitions/`, {
      name: "trial started",
      description: "A trial began",
      tags: ["growth"],
      verified: true,
    });
    expect(declared).toMatchObject({ status: 201, body: { last_seen_at: null, verified: true } });
    const client = openCurrentClient({ host: server.url });
    client.capture({ distinctId: "ada", event: "trial started" });
    await client.shutdown();
    const path = `${PROJECT}/event_definitions/${declared.body.id}/`;
    const seen = await eventually("the declared event", async () => {
      const { body } = await api.call("GET", path);
      return body.last_seen_at !== null && body;
    });
    expect(seen).toEqual({ ...declared.body, last_seen_at: expect.any(String) });
    expect((await api.call("DELETE", path)).status).toBe(204);
    expect((await api.call("GET", path)).status).toBe(404);
  });

  test("[ED-10] survive a server that is killed before they are written", async () => {
    const client = openCurrentClient({ host: server.url });
    client.capture({ distinctId: "ada", event: "just in time", properties: { depth: 3 } });
    await client.shutdown();
    await openManagement(server).eventsArrived({ event: "just in time" });
    await server.kill();
    await server.startAgain();
    await eventually("the definition of the last event", async () =>
      (await listed("event_definitions?limit=1000")).has("just in time"),
    );
    const properties = await listed("property_definitions?properties=depth");
    expect(properties.get("depth")).toMatchObject({ property_type: "Numeric" });
  });
});

import { randomUUID } from "node:crypto";
import { afterAll, describe, expect, test } from "vitest";
import { openCurrentClient } from "./node-clients.ts";
import { PERSONAL_KEY, type ServerUnderTest, serveTests } from "./server-under-test.ts";

let server: ServerUnderTest;
let modeBefore: string | undefined;

serveTests(async (started) => {
  server = started;
  modeBefore = process.env.POSTHOG_CAPTURE_MODE;
  // Read by the SDK when a client is made.
  process.env.POSTHOG_CAPTURE_MODE = "v1";
});
afterAll(async () => {
  if (modeBefore === undefined) delete process.env.POSTHOG_CAPTURE_MODE;
  else process.env.POSTHOG_CAPTURE_MODE = modeBefore;
});

async function read(path: string) {
  const response = await fetch(`${server.url}/api/projects/@current/${path}`, {
    headers: { authorization: `Bearer ${PERSONAL_KEY}` },
  });
  // biome-ignore lint/suspicious/noExplicitAny: tests look into answers of every shape
  return { status: response.status, body: (await response.json()) as any };
}

describe("posthog-node with POSTHOG_CAPTURE_MODE=v1", () => {
  test("[CA-61] captures through v1, and every event is stored once with all it says", async () => {
    const sent: string[] = [];
    const spy: typeof fetch = (input, init) => {
      sent.push(new URL(String(input)).pathname);
      return fetch(input, init);
    };
    const client = openCurrentClient({ host: server.url, fetch: spy });
    const errors: unknown[] = [];
    client.on("error", (error: unknown) => errors.push(error));
    const uuids = Array.from({ length: 120 }, () => randomUUID());
    for (const [index, uuid] of uuids.entries()) {
      client.capture({
        distinctId: "v1 user",
        event: "v1 event",
        uuid,
        properties: { index, $session_id: "session", $process_person_profile: false },
      });
    }
    client.identify({ distinctId: "v1 user", properties: { plan: "pro" } });
    await client.shutdown();
    expect(errors).toEqual([]);
    expect(new Set(sent)).toEqual(new Set(["/i/v1/analytics/events"]));
    const { body } = await read("events/?event=v1%20event&limit=1000");
    expect(body.results.map(({ uuid }: { uuid: string }) => uuid).toSorted()).toEqual(
      uuids.toSorted(),
    );
    expect(body.results[0]).toMatchObject({
      distinct_id: "v1 user",
      properties: { $session_id: "session", $process_person_profile: false, $lib: "posthog-node" },
    });
    const receipt = await read(`event_receipts/${uuids[7]}`);
    expect(receipt).toMatchObject({ status: 200, body: { outcome: "stored", duplicates: 0 } });
    const { body: identified } = await read("events/?event=%24identify");
    expect(identified.results[0].person.properties).toMatchObject({ plan: "pro" });
  });

  test("[CA-61] is told which events were dropped, and keeps no others back", async () => {
    const client = openCurrentClient({ host: server.url });
    const errors: { drops?: readonly { uuid: string }[] }[] = [];
    client.on("error", (error: object) => errors.push(error));
    const [taken, again] = [randomUUID(), randomUUID()];
    client.capture({ distinctId: "ann", event: "first", uuid: taken });
    await client.flush();
    client.capture({ distinctId: "ann", event: "second", uuid: taken });
    client.capture({ distinctId: "ann", event: "second", uuid: again });
    await client.shutdown();
    expect(errors).toHaveLength(1);
    expect(errors[0]?.drops?.map(({ uuid }) => uuid)).toEqual([taken]);
    const { body } = await read("events/?event=second");
    expect(body.results.map(({ uuid }: { uuid: string }) => uuid)).toEqual([again]);
  });
});

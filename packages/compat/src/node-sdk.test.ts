import { randomUUID } from "node:crypto";
import { afterEach, describe, expect, test } from "vitest";
import { eventually } from "./eventually.ts";
import {
  everyone,
  groupIs,
  type Management,
  openManagement,
  personIs,
  variants,
  type WireFlag,
  where,
  whereGroup,
} from "./management.ts";
import {
  type ClientOptions,
  NODE_SDKS,
  type NodeClient,
  type NodeSdk,
  openCurrentClient,
} from "./node-clients.ts";
import { PERSONAL_KEY, type ServerUnderTest, serveTests } from "./server-under-test.ts";

let server: ServerUnderTest;
let management: Management;

serveTests(async (started) => {
  server = started;
  management = openManagement(server);
  await management.createFlag("on");
  await management.createFlag("off", everyone(0));
  await management.createFlag("switched-off", everyone(), { active: false });
  await management.createFlag(
    "colour",
    variants(
      { red: 0, green: 100, blue: 0 },
      { payloads: { green: JSON.stringify({ hex: "#0f0", names: ["vert", "grün"] }) } },
    ),
  );
  await management.createFlag("with-payload", {
    ...everyone(),
    payloads: { true: '"plain text"' },
  });
  await management.createFlag("gold-only", where(personIs("tier", "exact", ["gold"])));
  // The first group captured gives its type the first index.
  const groups = openCurrentClient({ host: server.url });
  await groups.groupIdentifyImmediate({
    groupType: "company",
    groupKey: "acme",
    properties: { seats: 50 },
  });
  await groups.shutdown();
  await management.createFlag("big-companies", whereGroup(groupIs("seats", "gt", "10")));
});

const quietly = { sendFeatureFlagEvents: false } as const;
const locally = { ...quietly, onlyEvaluateLocally: true } as const;

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  await Promise.all(closing.splice(0).map((close) => close().catch(() => {})));
});

function track<Client extends { shutdown(): Promise<void> }>(client: Client): Client {
  closing.push(() => client.shutdown());
  return client;
}

function clientsOf(sdk: NodeSdk) {
  return (options: Partial<ClientOptions> = {}): NodeClient => {
    const client = sdk.open({ host: server.url, ...options });
    closing.push(() => client.close());
    return client;
  };
}

describe.each(NODE_SDKS)("$name", (sdk) => {
  const client = clientsOf(sdk);

  test("[CP-1] gets the value and the payload of every kind of flag", async () => {
    const asked = client();
    const id = randomUUID();
    expect(await asked.getFeatureFlag("on", id)).toBe(true);
    expect(await asked.getFeatureFlag("off", id)).toBe(false);
    expect(await asked.getFeatureFlag("colour", id)).toBe("green");
    expect(await asked.isFeatureEnabled("colour", id)).toBe(true);
    expect(await asked.isFeatureEnabled("off", id)).toBe(false);
    expect(await asked.getFeatureFlag("switched-off", id)).toBeFalsy();
    expect(await asked.getFeatureFlag("no-such-flag", id)).toBeFalsy();
    expect(await asked.getFeatureFlagPayload("colour", id)).toEqual({
      hex: "#0f0",
      names: ["vert", "grün"],
    });
    expect(await asked.getFeatureFlagPayload("with-payload", id)).toBe("plain text");
    expect(await asked.getFeatureFlagPayload("on", id)).toBeNull();

    const all = await asked.getAllFlagsAndPayloads(id);
    expect(all.featureFlags).toMatchObject({
      on: true,
      off: false,
      colour: "green",
      "gold-only": false,
      "big-companies": false,
    });
    expect(all.featureFlags).not.toHaveProperty("switched-off");
    // posthog-node 3 leaves it to the caller to parse the payloads of this one method.
    const payloads = Object.entries(all.featureFlagPayloads ?? {}).map(([key, payload]) => [
      key,
      asked.getLibraryVersion().startsWith("3.") ? JSON.parse(String(payload)) : payload,
    ]);
    expect(Object.fromEntries(payloads)).toEqual({
      colour: { hex: "#0f0", names: ["vert", "grün"] },
      "with-payload": "plain text",
    });
  });

  test("[CP-2] properties given with the question count before stored ones", async () => {
    const asked = client();
    const id = randomUUID();
    asked.capture({ distinctId: id, event: "upgraded", properties: { $set: { tier: "gold" } } });
    await asked.sendQueued();
    const ask = (tier?: string) =>
      asked.getFeatureFlag("gold-only", id, tier ? { personProperties: { tier } } : {});
    expect(await ask()).toBe(true);
    expect(await ask("silver")).toBe(false);
    expect(await ask("gold")).toBe(true);
    expect(
      await asked.getFeatureFlag("gold-only", randomUUID(), { personProperties: { tier: "gold" } }),
    ).toBe(true);
  });

  test("[CP-3] a property captured before the question counts at once", async () => {
    const asked = client();
    for (let round = 0; round < 5; round++) {
      const id = randomUUID();
      expect(await asked.getFeatureFlag("gold-only", id, quietly)).toBe(false);
      asked.capture({ distinctId: id, event: "upgraded", properties: { $set: { tier: "gold" } } });
      await asked.sendQueued();
      expect(await asked.getFeatureFlag("gold-only", id, quietly)).toBe(true);
    }
  });

  test("[CP-3] properties set by identify count at once, and $set_once never overwrites", async () => {
    const asked = client();
    const id = randomUUID();
    asked.identify({ distinctId: id, properties: { tier: "gold" } });
    await asked.sendQueued();
    expect(await asked.getFeatureFlag("gold-only", id, quietly)).toBe(true);
    asked.capture({
      distinctId: id,
      event: "seen",
      properties: { $set_once: { tier: "silver" } },
    });
    await asked.sendQueued();
    expect(await asked.getFeatureFlag("gold-only", id, quietly)).toBe(true);
  });

  test("[CP-4] an alias makes two ids one person", async () => {
    const asked = client();
    const anonymous = randomUUID();
    const user = randomUUID();
    asked.capture({
      distinctId: anonymous,
      event: "bought",
      properties: { $set: { tier: "gold" } },
    });
    asked.capture({ distinctId: user, event: "registered" });
    await asked.sendQueued();
    expect(await asked.getFeatureFlag("gold-only", user, quietly)).toBe(false);
    asked.alias({ distinctId: user, alias: anonymous });
    await asked.sendQueued();
    expect(await asked.getFeatureFlag("gold-only", user, quietly)).toBe(true);
  });

  test("[CP-5] group flags follow the group's stored properties and those given", async () => {
    const asked = client();
    const id = randomUUID();
    const company = `company-${randomUUID()}`;
    const ask = (groupProperties?: Record<string, Record<string, string>>) =>
      asked.getFeatureFlag("big-companies", id, {
        groups: { company },
        ...(groupProperties && { groupProperties }),
      });
    expect(await ask()).toBe(false);
    asked.groupIdentify({ groupType: "company", groupKey: company, properties: { seats: 11 } });
    await asked.sendQueued();
    expect(await ask()).toBe(true);
    expect(await ask({ company: { seats: "3" } })).toBe(false);
    expect(await asked.getFeatureFlag("big-companies", id)).toBe(false);
  });

  test("[CP-6] captured events are stored once with their id, time, properties and groups", async () => {
    const asked = client();
    const distinctId = randomUUID();
    const uuid = randomUUID();
    const timestamp = new Date(Date.now() - 3_600_000);
    const properties = { price: 12.5, tags: ["a", "b"], nested: { deep: { ü: "✓" } }, empty: null };
    asked.capture({
      distinctId,
      event: "bought 🛒",
      properties,
      groups: { company: "acme" },
      timestamp,
      uuid,
    });
    await asked.sendQueued();
    const [stored, ...others] = await management.eventsArrived({ distinct_id: distinctId });
    expect(others).toEqual([]);
    expect(stored).toMatchObject({
      id: uuid,
      event: "bought 🛒",
      distinct_id: distinctId,
      properties: {
        ...properties,
        $groups: { company: "acme" },
        $lib: "posthog-node",
        $lib_version: asked.getLibraryVersion(),
      },
    });
    expect(Date.parse(stored?.timestamp ?? "")).toBe(timestamp.getTime());
  });

  test("[CP-6] a queue of events arrives whole and in order", async () => {
    const asked = client();
    const distinctId = randomUUID();
    const startMs = Date.now() - 60_000;
    for (let index = 0; index < 120; index++) {
      asked.capture({
        distinctId,
        event: "counted",
        properties: { index },
        timestamp: new Date(startMs + index),
      });
    }
    await asked.close();
    const stored = await management.eventsArrived({ distinct_id: distinctId }, 120);
    expect(stored.map(({ properties }) => properties.index)).toEqual(
      Array.from({ length: 120 }, (_, index) => 119 - index),
    );
  });

  test("[CP-7] checking a flag stores one $feature_flag_called with the answer", async () => {
    const asked = client();
    const distinctId = randomUUID();
    await asked.getFeatureFlag("colour", distinctId);
    await asked.getFeatureFlag("colour", distinctId);
    await asked.getFeatureFlag("off", distinctId);
    await asked.close();
    const stored = await management.eventsArrived(
      { distinct_id: distinctId, event: "$feature_flag_called" },
      2,
    );
    expect(
      Object.fromEntries(
        stored.map(({ properties }) => [
          properties.$feature_flag,
          properties.$feature_flag_response,
        ]),
      ),
    ).toEqual({ colour: "green", off: false });
  });

  test("[CP-7] events ask for their flags and carry them", async () => {
    const asked = client();
    const distinctId = randomUUID();
    asked.capture({ distinctId, event: "paid", sendFeatureFlags: true });
    await asked.close();
    const [stored] = await management.eventsArrived({ distinct_id: distinctId });
    expect(stored?.properties).toMatchObject({ "$feature/on": true, "$feature/colour": "green" });
    expect(stored?.properties.$active_feature_flags).toEqual(
      expect.arrayContaining(["on", "colour", "with-payload"]),
    );
  });

  test("[CP-8] a changed flag has its new value in the next answer", async () => {
    const asked = client();
    const id = randomUUID();
    const key = `changing-${randomUUID()}`;
    const flag = await management.createFlag(key, everyone(0));
    expect(await asked.getFeatureFlag(key, id, quietly)).toBe(false);
    await management.patchFlag(flag.id, { filters: everyone(100) });
    expect(await asked.getFeatureFlag(key, id, quietly)).toBe(true);
    await management.patchFlag(flag.id, { active: false });
    expect(await asked.getFeatureFlag(key, id, quietly)).toBeFalsy();
    await management.patchFlag(flag.id, { active: true });
    expect(await asked.getFeatureFlag(key, id, quietly)).toBe(true);
    await management.patchFlag(flag.id, { deleted: true });
    expect(await asked.getFeatureFlag(key, id, quietly)).toBeFalsy();
  });

  test("[CP-9] a wrong project key is an error the SDK reports, and no flag is on", async () => {
    const asked = client({ projectKey: "phc_ofSomebodyElse0123456789" });
    const errors: unknown[] = [];
    asked.onError((error) => errors.push(error));
    expect(await asked.getFeatureFlag("on", randomUUID(), quietly)).toBeFalsy();
    asked.capture({ distinctId: randomUUID(), event: "lost" });
    await asked.sendQueued().catch((error: unknown) => errors.push(error));
    await eventually("an error with the status", () =>
      errors.some((error) => (error as { response?: Response }).response?.status === 401),
    );
  });

  describe("with local evaluation", () => {
    test("[CP-10] answers from downloaded definitions, and asks for what it cannot decide", async () => {
      const requests: string[] = [];
      const asked = client({
        personalApiKey: PERSONAL_KEY,
        fetch: (input, init) => {
          requests.push(new URL(String(input)).pathname);
          return fetch(input, init);
        },
      });
      await asked.reloadFeatureFlags();
      const id = randomUUID();
      requests.length = 0;
      expect(await asked.getFeatureFlag("on", id, locally)).toBe(true);
      expect(await asked.getFeatureFlag("off", id, locally)).toBe(false);
      // A flag that is switched off is known to be so: no question goes out (UR-16).
      expect(await asked.getFeatureFlag("switched-off", id, quietly)).toBe(false);
      expect(await asked.getFeatureFlag("colour", id, locally)).toBe("green");
      expect(await asked.getFeatureFlagPayload("colour", id, undefined, locally)).toEqual({
        hex: "#0f0",
        names: ["vert", "grün"],
      });
      expect(
        await asked.getFeatureFlag("big-companies", id, {
          ...quietly,
          groups: { company: "acme" },
          groupProperties: { company: { seats: 11 as unknown as string } },
        }),
      ).toBe(true);
      expect(requests).toEqual([]);

      asked.capture({ distinctId: id, event: "upgraded", properties: { $set: { tier: "gold" } } });
      await asked.sendQueued();
      expect(await asked.getFeatureFlag("gold-only", id, locally)).toBeUndefined();
      expect(await asked.getFeatureFlag("gold-only", id, quietly)).toBe(true);
      expect(requests.filter((path) => /^\/(flags|decide)\/$/.test(path))).toHaveLength(1);
    });

    test("[CP-10] polling brings a changed flag without a reload", async () => {
      const key = `polled-${randomUUID()}`;
      const flag: WireFlag = await management.createFlag(key, everyone(0));
      const asked = client({ personalApiKey: PERSONAL_KEY, featureFlagsPollingInterval: 100 });
      await asked.reloadFeatureFlags();
      expect(await asked.getFeatureFlag(key, "somebody", locally)).toBe(false);
      await management.patchFlag(flag.id, { filters: everyone(100) });
      await eventually(
        "the polled value",
        async () => (await asked.getFeatureFlag(key, "somebody", locally)) === true,
        // Sooner than an interval of the SDK's own.
        20_000,
      );
    });

    test("[CP-9] a wrong personal key is reported, and flags are asked for instead", async () => {
      const asked = client({ personalApiKey: "phx_ofSomebodyElse0123456789" });
      const errors: unknown[] = [];
      asked.onError((error) => errors.push(error));
      await asked.reloadFeatureFlags();
      await eventually("the SDK to report the key", () =>
        errors.some((error) => /key is invalid/i.test(String((error as Error).message))),
      );
      expect(await asked.getFeatureFlag("colour", randomUUID(), quietly)).toBe("green");
    });
  });
});

describe("posthog-node 5 alone", () => {
  test("[CP-10] unchanged definitions are answered with 304, changed ones anew", async () => {
    const statuses: number[] = [];
    const asked = track(
      openCurrentClient({
        host: server.url,
        personalApiKey: PERSONAL_KEY,
        fetch: async (input, init) => {
          const response = await fetch(input, init);
          if (String(input).includes("/flags/definitions")) statuses.push(response.status);
          return response;
        },
      }),
    );
    // Joins the download that the client started by itself.
    await asked.reloadFeatureFlags();
    expect(asked.isLocalEvaluationReady()).toBe(true);
    await asked.reloadFeatureFlags();
    expect(statuses).toEqual([200, 304]);
    const key = `tagged-${randomUUID()}`;
    await management.createFlag(key);
    await asked.reloadFeatureFlags();
    await asked.reloadFeatureFlags();
    expect(statuses).toEqual([200, 304, 200, 304]);
    expect(await asked.getFeatureFlag(key, "somebody", locally)).toBe(true);
  });

  test("[CP-6] captureImmediate resolves when the event is stored for good", async () => {
    const asked = track(openCurrentClient({ host: server.url }));
    const distinctId = randomUUID();
    await asked.captureImmediate({
      distinctId,
      event: "paid",
      properties: { $set: { tier: "gold" } },
    });
    expect(await asked.getFeatureFlag("gold-only", distinctId, quietly)).toBe(true);
    await asked.setPersonProperties({ distinctId, properties: { tier: "silver" } });
    await asked.flush();
    expect(await asked.getFeatureFlag("gold-only", distinctId, quietly)).toBe(false);
    await asked.aliasImmediate({ distinctId, alias: `${distinctId}-old` });
    await asked.unsetPersonProperties({ distinctId, properties: "tier" });
    await asked.flush();
    const stored = await management.eventsArrived({ distinct_id: distinctId }, 4);
    expect(stored.map(({ event }) => event).sort()).toEqual([
      "$create_alias",
      "$set",
      "$set",
      "paid",
    ]);
  });

  test("[CP-6] events of language models, which take a route of their own, are stored too", async () => {
    const asked = track(openCurrentClient({ host: server.url }));
    const distinctId = randomUUID();
    const properties = { $ai_model: "small", $ai_input: [{ role: "user", content: "Grüezi" }] };
    const uuid = await asked.captureAiImmediate({
      distinctId,
      event: "$ai_generation",
      properties,
    });
    const stored = await management.eventsArrived({ distinct_id: distinctId });
    expect(stored).toMatchObject([{ id: uuid, event: "$ai_generation", properties }]);
  });

  test("[CP-1] one snapshot of several flags costs one question and attributes an event", async () => {
    const asked = track(openCurrentClient({ host: server.url }));
    const distinctId = randomUUID();
    const flags = await asked.evaluateFlags(distinctId, { flagKeys: ["on", "colour"] });
    expect(flags.keys.toSorted()).toEqual(["colour", "on"]);
    expect(flags.getFlag("colour")).toBe("green");
    expect(flags.isEnabled("on")).toBe(true);
    expect(flags.getFlagPayload("colour")).toEqual({ hex: "#0f0", names: ["vert", "grün"] });
    await asked.captureImmediate({ distinctId, event: "paid", flags });
    const [stored] = await management.eventsArrived({ distinct_id: distinctId, event: "paid" });
    expect(stored?.properties).toMatchObject({
      "$feature/on": true,
      "$feature/colour": "green",
      $active_feature_flags: ["colour", "on"],
    });
    await asked.flush();
    const called = await management.eventsArrived(
      { distinct_id: distinctId, event: "$feature_flag_called" },
      2,
    );
    const colour = called.find(({ properties }) => properties.$feature_flag === "colour");
    expect(colour?.properties).toMatchObject({
      $feature_flag_response: "green",
      $feature_flag_reason: "Matched condition set 1",
      $feature_flag_version: 1,
      locally_evaluated: false,
    });
    expect(colour?.properties.$feature_flag_request_id).toMatch(/^[0-9a-f-]{36}$/);
    expect(colour?.properties.$feature_flag_id).toBeTypeOf("number");
    expect(colour?.properties.$feature_flag_evaluated_at).toBeTypeOf("number");
  });

  test("[CP-2] flags for other places are left out, as the SDK's settings say", async () => {
    const key = `placed-${randomUUID().slice(0, 8)}`;
    await management.createFlag(`${key}-client`, everyone(), { evaluation_runtime: "client" });
    await management.createFlag(`${key}-server`, everyone(), { evaluation_runtime: "server" });
    await management.createFlag(`${key}-docs`, everyone(), { evaluation_contexts: ["docs"] });
    const plain = track(openCurrentClient({ host: server.url }));
    const docs = track(openCurrentClient({ host: server.url, evaluationContexts: ["docs"] }));
    const app = track(openCurrentClient({ host: server.url, evaluationContexts: ["app"] }));
    const keysOf = async (asked: typeof plain) =>
      Object.keys(await asked.getAllFlags("somebody"))
        .filter((found) => found.startsWith(key))
        .sort();
    expect(await keysOf(plain)).toEqual([`${key}-docs`, `${key}-server`]);
    expect(await keysOf(docs)).toEqual([`${key}-docs`, `${key}-server`]);
    expect(await keysOf(app)).toEqual([`${key}-server`]);
  });

  test("[CP-2] a flag bucketed by device follows the device, not the person", async () => {
    const key = `device-${randomUUID().slice(0, 8)}`;
    await management.createFlag(key, variants({ a: 50, b: 50 }), {
      bucketing_identifier: "device_id",
    });
    const asked = track(openCurrentClient({ host: server.url }));
    const ask = (person: string, $device_id: string) =>
      asked.getFeatureFlag(key, person, { ...quietly, personProperties: { $device_id } });
    const byDevice = new Map<string, unknown>();
    for (let device = 0; device < 20; device++) {
      byDevice.set(`device-${device}`, await ask(`one-${device}`, `device-${device}`));
    }
    expect(new Set(byDevice.values())).toEqual(new Set(["a", "b"]));
    for (const [device, variant] of byDevice) {
      expect(await ask(`another-${device}`, device)).toBe(variant);
    }
  });

  test("[CP-1] a remote configuration is read by its key", async () => {
    const key = `settings-${randomUUID()}`;
    await management.createFlag(
      key,
      { ...everyone(), payloads: { true: JSON.stringify({ limit: 3 }) } },
      { is_remote_configuration: true },
    );
    const asked = track(openCurrentClient({ host: server.url, personalApiKey: PERSONAL_KEY }));
    expect(await asked.getRemoteConfigPayload(key)).toEqual({ limit: 3 });
  });
});

import { randomUUID } from "node:crypto";
import { isDeepStrictEqual } from "node:util";
import { afterEach, describe, expect, test } from "vitest";
import { createLocalFlags, type LocalFlag } from "./local-flags.ts";
import { type Management, openManagement, personIs, where } from "./management.ts";
import {
  type AskOptions,
  type FlagValue,
  NODE_SDKS,
  type NodeClient,
  openCurrentClient,
} from "./node-clients.ts";
import { type RandomUser, randomUsers } from "./random-users.ts";
import { PERSONAL_KEY, type ServerUnderTest, serveTests } from "./server-under-test.ts";

const USERS = 1_000;
/** Older SDKs share the definitions; fewer persons show the same. */
const USERS_OF_OLDER_SDKS = 300;
const AT_ONCE = 24;

let server: ServerUnderTest;
let management: Management;
let flags: readonly LocalFlag[];

serveTests(async (started) => {
  server = started;
  management = openManagement(server);
  const client = openCurrentClient({ host: server.url });
  // Group types take their index in order of arrival.
  await client.groupIdentifyImmediate({ groupType: "company", groupKey: "company-1" });
  await client.groupIdentifyImmediate({ groupType: "project", groupKey: "project-1" });
  await client.shutdown();
  flags = await createLocalFlags(management);
});

const closing: (() => Promise<unknown>)[] = [];
afterEach(async () => {
  await Promise.all(closing.splice(0).map((close) => close().catch(() => {})));
});

describe.each(NODE_SDKS)("$name", (sdk) => {
  const open = (personalApiKey?: string): NodeClient => {
    const client = sdk.open({ host: server.url, ...(personalApiKey && { personalApiKey }) });
    closing.push(() => client.close());
    return client;
  };

  test("[CP-11] decides locally for random users as the server does", async () => {
    const local = open(PERSONAL_KEY);
    const remote = open();
    await local.reloadFeatureFlags();
    const compared = flags.filter(
      ({ olderSdksDiffer }) => sdk.era === "newer SDKs" || !olderSdksDiffer,
    );
    const mustDecide = new Set(
      flags
        .filter(({ decidedBy }) => (decidedBy === undefined ? true : decidedBy === sdk.era))
        .map(({ key }) => key),
    );
    const seen = new Map([...mustDecide].map((key) => [key, new Set<FlagValue>()]));
    const differences: Difference[] = [];
    const users = randomUsers(sdk.era === "newer SDKs" ? USERS : USERS_OF_OLDER_SDKS).filter(
      ({ distinctId }) => !sdk.hashesOnlyAscii || /^[ -~]*$/.test(distinctId),
    );
    await forEachUser(users, async (user) => {
      const options = askAs(user);
      const [here, there] = await Promise.all([
        local.getAllFlagsAndPayloads(user.distinctId, { ...options, onlyEvaluateLocally: true }),
        remote.getAllFlagsAndPayloads(user.distinctId, options),
      ]);
      for (const { key } of compared) {
        const value = here.featureFlags?.[key];
        // The server leaves out flags that are switched off, definitions list them as off.
        const expected = there.featureFlags?.[key] ?? (key === "inactive" ? false : undefined);
        if (value === undefined) {
          // What an SDK does not know it must leave to the server, never guess.
          if (mustDecide.has(key))
            differences.push({ key, local: "undecided", server: expected, user });
          continue;
        }
        seen.get(key)?.add(value);
        const isSamePayload =
          sdk.era === "older SDKs" ||
          isDeepStrictEqual(here.featureFlagPayloads?.[key], there.featureFlagPayloads?.[key]);
        if (value !== expected || !isSamePayload) {
          differences.push({ key, local: value, server: expected ?? "absent", user });
        }
      }
    });
    expect(summarize(differences)).toEqual([]);
    // A comparison of constants would show nothing: most flags must have gone both ways, which
    // takes many persons where a share is close to nobody or everybody.
    const constant = [...seen].filter(([, values]) => values.size < 2).map(([key]) => key);
    if (users.length < USERS) return;
    expect(constant.toSorted()).toEqual(CONSTANT_FLAGS);
  });
});

/** Flags that by their definition have one value for everybody. */
const CONSTANT_FLAGS: readonly string[] = [
  "inactive",
  "needs-inactive-off",
  "needs-inactive-on",
  "no-conditions",
  "nothing-exact-0",
  "nothing-gt-3",
  "nothing-icontains-1",
  "nothing-is_set-2",
  "plan-is_not_set-0",
  "plan-is_set-3",
  "share-0",
  "share-100",
  "share-unset",
];

describe("what cannot be decided locally", () => {
  test("[CP-12] a static cohort is left to the server, never taken for everybody", async () => {
    const [member, stranger] = [randomUUID(), randomUUID()];
    const client = openCurrentClient({ host: server.url, personalApiKey: PERSONAL_KEY });
    closing.push(() => client.shutdown());
    await client.identifyImmediate({ distinctId: member });
    const cohort = await management.createCohort({
      name: "invited",
      is_static: true,
      distinct_ids: [member],
    });
    await management.createFlag(
      "invited-only",
      where({ key: "id", type: "cohort", value: cohort.id, operator: "in" }),
    );
    await client.reloadFeatureFlags();
    const ask = (distinctId: string, onlyEvaluateLocally = false) =>
      client.getFeatureFlag("invited-only", distinctId, {
        onlyEvaluateLocally,
        sendFeatureFlagEvents: false,
      });
    expect(await ask(member, true)).toBeUndefined();
    expect(await ask(stranger, true)).toBeUndefined();
    expect(await ask(member)).toBe(true);
    expect(await ask(stranger)).toBe(false);
  });

  test("[CP-12] an empty cohort holds nobody, locally too", async () => {
    const cohort = await management.createCohort({
      name: "nobody",
      filters: { properties: { type: "OR", values: [] } },
    });
    await management.createFlag(
      "nobody-only",
      where({ key: "id", type: "cohort", value: cohort.id, operator: "in" }),
    );
    for (const sdk of NODE_SDKS) {
      const client = sdk.open({ host: server.url, personalApiKey: PERSONAL_KEY });
      closing.push(() => client.close());
      await client.reloadFeatureFlags();
      const options = { sendFeatureFlagEvents: false } as const;
      expect(
        await client.getFeatureFlag("nobody-only", "u", { ...options, onlyEvaluateLocally: true }),
        sdk.name,
      ).not.toBe(true);
      expect(await client.getFeatureFlag("nobody-only", "u", options), sdk.name).toBe(false);
    }
  });

  test("[CP-12] continuity and enrolment are the server's to decide", async () => {
    const enrolment = {
      key: "$feature_enrollment/joinable",
      type: "person",
      operator: "exact",
      value: ["true"],
    };
    await management.createFlag("steady", where(personIs("plan", "exact", "pro")), {
      ensure_experience_continuity: true,
    });
    await management.createFlag("joinable", {
      groups: [{ properties: [], rollout_percentage: 0 }],
      super_groups: [{ properties: [enrolment], rollout_percentage: 100 }],
    });
    const client = openCurrentClient({ host: server.url, personalApiKey: PERSONAL_KEY });
    closing.push(() => client.shutdown());
    await client.reloadFeatureFlags();
    const distinctId = randomUUID();
    const personProperties = { plan: "pro" };
    const quietly = { sendFeatureFlagEvents: false, personProperties };
    expect(
      await client.getFeatureFlag("steady", distinctId, { ...quietly, onlyEvaluateLocally: true }),
    ).toBeUndefined();
    expect(await client.getFeatureFlag("steady", distinctId, quietly)).toBe(true);

    const remote = openCurrentClient({ host: server.url });
    closing.push(() => remote.shutdown());
    await remote.captureImmediate({
      distinctId,
      event: "$feature_enrollment_update",
      properties: { $set: { "$feature_enrollment/joinable": true } },
    });
    expect(await remote.getFeatureFlag("joinable", distinctId, quietly)).toBe(true);
    expect(await remote.getFeatureFlag("joinable", randomUUID(), quietly)).toBe(false);
  });
});

interface Difference {
  readonly key: string;
  readonly local: FlagValue;
  readonly server: FlagValue | undefined;
  readonly user: RandomUser;
}

/** One line per flag that differs, with one person to look at. */
function summarize(differences: readonly Difference[]): readonly string[] {
  const byKey = new Map<string, Difference[]>();
  for (const difference of differences) {
    byKey.set(difference.key, [...(byKey.get(difference.key) ?? []), difference]);
  }
  return [...byKey].map(([key, [first, ...others]]) => {
    const { local, server, user } = first ?? {};
    return `${key}: ${others.length + 1} persons, local ${local}, server ${server}: ${JSON.stringify(user)}`;
  });
}

/** SDKs declare property values as text but send on whatever they are given. */
function askAs({ groups, personProperties, groupProperties }: RandomUser): AskOptions {
  return {
    groups,
    personProperties: personProperties as Record<string, string>,
    groupProperties: groupProperties as Record<string, Record<string, string>>,
    disableGeoip: true,
  };
}

async function forEachUser(
  users: readonly RandomUser[],
  act: (user: RandomUser) => Promise<void>,
): Promise<void> {
  const waiting = users.values();
  await Promise.all(
    Array.from({ length: AT_ONCE }, async () => {
      for (const user of waiting) await act(user);
    }),
  );
}

import { isDeepStrictEqual } from "node:util";
import fc from "fast-check";
import { expect, test } from "vitest";
import { type Management, openManagement, type Wire } from "./management.ts";
import { openCurrentClient } from "./node-clients.ts";
import {
  type Placeholder,
  type RandomFlag,
  randomCohort,
  randomFlag,
  withIds,
} from "./random-flags.ts";
import { randomUsers } from "./random-users.ts";
import { PERSONAL_KEY, type ServerUnderTest, serveTests } from "./server-under-test.ts";

/** Pairs of a flag and a person that are compared; `HEDGEROW_RANDOM_PAIRS` asks for more. */
const PAIRS = Number(process.env.HEDGEROW_RANDOM_PAIRS ?? 2_500);
/** `HEDGEROW_RANDOM_SEED` draws others. */
const SEED = Number(process.env.HEDGEROW_RANDOM_SEED ?? 20_260_301);
const FLAGS = Math.ceil(Math.sqrt(PAIRS));
const USERS = Math.ceil(PAIRS / FLAGS);
const COHORTS = 12;
const AT_ONCE = 8;

let server: ServerUnderTest;
let management: Management;

serveTests(async (started) => {
  server = started;
  management = openManagement(server);
  const client = openCurrentClient({ host: server.url });
  await client.groupIdentifyImmediate({ groupType: "company", groupKey: "company-1" });
  await client.groupIdentifyImmediate({ groupType: "project", groupKey: "project-1" });
  await client.shutdown();
});

const draw = <Value>(arbitrary: fc.Arbitrary<Value>, at: number): Value => {
  const [drawn] = fc.sample(arbitrary, { numRuns: 1, seed: SEED + at });
  if (drawn === undefined) throw new Error("nothing was drawn");
  return drawn;
};

test("[CP-48] for flags drawn from every construct that it decides locally, posthog-node decides as the server", {
  timeout: 60_000 + PAIRS * 20,
}, async () => {
  const cohortIds: number[] = [];
  const flagIds: number[] = [];
  const idOf = (placeholder: Placeholder) =>
    "cohort" in placeholder ? cohortIds[placeholder.cohort] : String(flagIds[placeholder.flag]);
  for (let at = 0; at < COHORTS; at += 1) {
    const properties = withIds(draw(randomCohort(at), at), idOf);
    const { id } = await management.createCohort({ name: `cohort ${at}`, filters: { properties } });
    cohortIds.push(id);
  }
  const flags = new Map<string, RandomFlag>();
  for (let at = 0; at < FLAGS; at += 1) {
    const flag = draw(randomFlag({ cohorts: COHORTS, flags: at }), 1000 + at);
    const key = `flag-${at}`;
    const { id } = await management.createFlag(
      key,
      withIds(flag.filters, idOf) as Wire,
      flag.fields,
    );
    flagIds.push(id);
    flags.set(key, flag);
  }

  const local = openCurrentClient({ host: server.url, personalApiKey: PERSONAL_KEY });
  const remote = openCurrentClient({ host: server.url });
  const differences: unknown[] = [];
  let decided = 0;
  const values = new Set<unknown>();
  try {
    await local.reloadFeatureFlags();
    const users = randomUsers(USERS);
    const waiting = users.values();
    const compare = async () => {
      for (const user of waiting) {
        const options = {
          groups: user.groups,
          personProperties: user.personProperties as Record<string, string>,
          groupProperties: user.groupProperties as Record<string, Record<string, string>>,
          disableGeoip: true,
        };
        const [here, there] = await Promise.all([
          local.getAllFlagsAndPayloads(user.distinctId, { ...options, onlyEvaluateLocally: true }),
          remote.getAllFlagsAndPayloads(user.distinctId, options),
        ]);
        for (const [key, flag] of flags) {
          const isActive = flag.fields.active === true;
          const value = here.featureFlags?.[key];
          const expected = there.featureFlags?.[key] ?? (isActive ? undefined : false);
          const payloads = [here.featureFlagPayloads?.[key], there.featureFlagPayloads?.[key]];
          decided += value === undefined ? 0 : 1;
          values.add(value);
          if (value === expected && isDeepStrictEqual(payloads[0], payloads[1])) continue;
          differences.push({ key, local: value, server: expected, payloads, flag, user });
        }
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, compare));
    expect(differences.length, JSON.stringify(differences.slice(0, 3))).toBe(0);
    // Undecided flags would have differed from the server's answers already; constants show nothing.
    expect(decided).toBe(FLAGS * users.length);
    expect(values.size).toBeGreaterThan(4);
  } finally {
    await Promise.all([local.shutdown(), remote.shutdown()]);
  }
});

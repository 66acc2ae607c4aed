// A static cohort of a million members on the embedded database: how long it takes to add them, what
// it costs to look one person's membership up, and how long a calculation of as many takes. The figures
// are CPU time of the process. Prints JSON on stdout.
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createCohortStore } from "../packages/server/dist/engines/sql/cohort-store.js";
import { createMembershipStore } from "../packages/server/dist/engines/sql/membership-store.js";
import { openMetadata } from "../packages/server/dist/engines/sql/open-metadata.js";
import { createPersonStore } from "../packages/server/dist/engines/sql/person-store.js";

const MEMBERS = Number(process.env.BENCH_COHORT_MEMBERS ?? 1_000_000);
const ASKED = 5_000;
const ROUNDS = 11;
const NAMES_PER_CALL = 10_000;

const folder = mkdtempSync(join(tmpdir(), "hedgerow-cohorts-"));
const database = await openMetadata({ databaseUrl: null, file: join(folder, "metadata.sqlite") });
const cpuMs = () => {
  const { user, system } = process.cpuUsage();
  return (user + system) / 1000;
};
async function timed(work) {
  const before = cpuMs();
  await work();
  return cpuMs() - before;
}
const insert = (table, rows) => database.writes.insertInto(table).values(rows).execute();

try {
  const at = 1_700_000_000_000;
  await insert("organizations", [
    { id: "o", name: "o", slug: "o", created_at: at, updated_at: at },
  ]);
  await insert("projects", [
    {
      id: 1,
      uuid: "u",
      organization_id: "o",
      name: "p",
      api_token: "t",
      secret_api_token: "s",
      time_zone: "UTC",
      anonymize_ips: 0,
      created_at: at,
      updated_at: at,
    },
  ]);
  const uuidOf = (n) => `00000000-0000-5000-8000-${n.toString(16).padStart(12, "0")}`;
  for (let start = 1; start <= MEMBERS; start += 4000) {
    const numbers = Array.from(
      { length: Math.min(4000, MEMBERS + 1 - start) },
      (_, n) => start + n,
    );
    await insert(
      "persons",
      numbers.map((n) => ({
        id: n,
        project_id: 1,
        uuid: uuidOf(n),
        properties: "{}",
        property_times: "{}",
        created_at: at,
        is_identified: 0,
      })),
    );
    await insert(
      "person_distinct_ids",
      numbers.map((n) => ({ project_id: 1, distinct_id: `user-${n}`, person_id: n })),
    );
  }

  const cohorts = createCohortStore(database);
  const memberships = createMembershipStore(database);
  const persons = createPersonStore(database, {
    continuityFlagKeys: () => [],
    onGroupTypeAdded: () => {},
    reportFault: (error) => {
      throw error;
    },
  });
  const { cohort } = await cohorts.create(
    1,
    { name: "members", description: "", isStatic: true, filters: {}, deleted: false },
    { uuids: [], distinctIds: [] },
    { authorId: null, now: new Date(), ifRevision: 0 },
  );
  const addingMs = await timed(async () => {
    for (let start = 1; start <= MEMBERS; start += NAMES_PER_CALL) {
      const length = Math.min(NAMES_PER_CALL, MEMBERS + 1 - start);
      const distinctIds = Array.from({ length }, (_, n) => `user-${start + n}`);
      await cohorts.addMembers(1, cohort.id, { uuids: [], distinctIds }, new Date());
    }
  });
  const { memberCount } = await cohorts.cohort(1, cohort.id);
  if (memberCount !== MEMBERS) throw new Error(`${memberCount} members instead of ${MEMBERS}`);

  // Persons are remembered after the first question, as they are while flags are asked for: what is
  // left of a second one is the membership.
  let seed = 1;
  const asked = Array.from({ length: ASKED }, () => {
    seed = (seed * 48_271) % 0x7fffffff;
    return `user-${(seed % MEMBERS) + 1}`;
  });
  const ask = async (staticCohorts) => {
    for (const distinctId of asked) {
      const { person } = await persons.factsFor({
        projectId: 1,
        distinctId,
        anonDistinctId: null,
        person: true,
        staticCohorts,
        hashKeyOverrides: false,
        groups: {},
      });
      if (staticCohorts && !person.staticCohortIds.has(cohort.id)) throw new Error("no member");
    }
  };
  const remembered = [];
  const read = [];
  await ask(true);
  for (let round = 0; round < ROUNDS; round++) {
    const without = await timed(() => ask(false));
    remembered.push((await timed(() => ask(true))) - without);
    // As after any change of memberships.
    database.membershipChanges.count++;
    read.push((await timed(() => ask(true))) - without);
  }
  const microseconds = (rounds) =>
    (rounds.toSorted((a, b) => a - b)[Math.floor(ROUNDS / 2)] * 1000) / ASKED;

  const countingMs = await timed(async () => {
    for (let after = 0, ids = [0]; ids.length > 0; after = ids.at(-1) ?? after) {
      ids = await memberships.memberIds(cohort.id, { after, upTo: null }, 5_000);
    }
  });
  console.log(
    JSON.stringify({
      members: MEMBERS,
      checkMicroseconds: microseconds(remembered),
      firstCheckMicroseconds: microseconds(read),
      addingSeconds: addingMs / 1000,
      addedPerSecond: MEMBERS / (addingMs / 1000),
      countingSeconds: countingMs / 1000,
    }),
  );
} finally {
  await database.close();
  rmSync(folder, { recursive: true, force: true });
}

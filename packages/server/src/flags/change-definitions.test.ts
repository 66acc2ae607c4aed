import { randomBytes } from "node:crypto";
import { compileFlags } from "@hedgerow/core/flags/compile-flags";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { createAccountStore } from "../engines/sql/account-store.ts";
import { createActivityLog } from "../engines/sql/activity-log.ts";
import { createFlagStore } from "../engines/sql/flag-store.ts";
import { projectsAndUsers } from "../engines/sql/projects-and-users.setup.ts";
import type { SqlDatabase } from "../engines/sql/sql-database.ts";
import { describeEachSqlEngine, openTemporarySqlite } from "../engines/sql/sql-engines.contract.ts";
import { createChangeDefinitions } from "./change-definitions.ts";
import { createCompiledFlags, watchRevisions } from "./compiled-flags.ts";
import { createPayloadSeal } from "./encrypted-payloads.ts";
import { flagsDependingOnFlag } from "./flag-dependants.ts";
import type { FlagStore } from "./flag-store.ts";
import { createFlags, type Flags } from "./flags.ts";

const throwFault = (error: unknown) => {
  throw error;
};

/** One process's use cases over a store that others share. */
const processOn = (
  flagStore: FlagStore,
  database: SqlDatabase,
  reportFault: (error: unknown) => void = throwFault,
) => {
  const compiledFlags = createCompiledFlags({
    flagStore,
    compile: (definitions) => compileFlags(definitions),
    reportFault,
  });
  const changeDefinitions = createChangeDefinitions({ compiledFlags, reportFault });
  const flags = createFlags({
    flagStore,
    activityLog: createActivityLog(database),
    accounts: createAccountStore(database),
    dependants: [flagsDependingOnFlag],
    changeDefinitions,
    seal: createPayloadSeal(randomBytes(32), randomBytes),
    clock: () => new Date(),
  });
  return { flags, changeDefinitions, compiledFlags };
};

const dependsOn = (key: string) => ({
  groups: [{ properties: [{ key, type: "flag", operator: "flag_evaluates_to", value: true }] }],
});

describeEachSqlEngine("[FM-5] changes by several processes", (open) => {
  let flagStore: FlagStore;
  let newProject: () => Promise<number>;
  let author: number;
  let close: () => Promise<void>;
  let processes: Flags[];

  beforeAll(async () => {
    const database = await open();
    flagStore = createFlagStore(database);
    const made = await projectsAndUsers(database);
    newProject = made.newProject;
    author = await made.newUser();
    close = () => database.close();
    processes = [1, 2].map(() => processOn(flagStore, database).flags);
  });
  afterAll(() => close());

  test("simultaneous writers all succeed, each on the definitions the other left", async () => {
    const projectId = await newProject();
    const [a, b] = processes as [Flags, Flags];
    await Promise.all(
      Array.from({ length: 6 }, (_, n) =>
        (n % 2 === 0 ? a : b).create(projectId, { key: `k${n}` }, author),
      ),
    );
    const { flags, revision } = await flagStore.definitions(projectId);
    expect(flags.map(({ key }) => key).toSorted()).toEqual(["k0", "k1", "k2", "k3", "k4", "k5"]);
    expect(revision).toBe(6);
  });

  test("two changes that are each sound but together a cycle do not both pass", async () => {
    const projectId = await newProject();
    const [a, b] = processes as [Flags, Flags];
    const x = await a.create(projectId, { key: "x" }, author);
    const y = await a.create(projectId, { key: "y" }, author);
    const options = { authorId: author, keepsFiltersWithoutGroups: true };
    const outcomes = await Promise.allSettled([
      a.update(projectId, x.id, { filters: dependsOn("y") }, options),
      b.update(projectId, y.id, { filters: dependsOn("x") }, options),
    ]);
    expect(outcomes.map(({ status }) => status).toSorted()).toEqual(["fulfilled", "rejected"]);
  });

  test("of two flags of one key created at once one is refused", async () => {
    const projectId = await newProject();
    const outcomes = await Promise.allSettled(
      processes.map((flags) => flags.create(projectId, { key: "same" }, author)),
    );
    expect(outcomes.map(({ status }) => status).toSorted()).toEqual(["fulfilled", "rejected"]);
    expect(outcomes.find(({ status }) => status === "rejected")).toMatchObject({
      reason: { code: "unique", attr: "key" },
    });
  });
});

describe("a change", () => {
  test("that always meets a newer revision is given up with a conflict", async () => {
    const database = await openTemporarySqlite();
    const { newProject } = await projectsAndUsers(database);
    const { changeDefinitions } = processOn(createFlagStore(database), database);
    let attempts = 0;
    const change = changeDefinitions(await newProject(), async () => {
      attempts++;
      return "stale" as const;
    });
    await expect(change).rejects.toMatchObject({ code: "conflict", status: 409 });
    expect(attempts).toBeGreaterThan(1);
    await database.close();
  });

  test("[FM-5] that is stored but not read back is done, and live once it can be read", async () => {
    const database = await openTemporarySqlite();
    const { newProject, newUser } = await projectsAndUsers(database);
    const flagStore = createFlagStore(database);
    let failuresToCome = 0;
    const faults: unknown[] = [];
    const failing: FlagStore = {
      ...flagStore,
      // The definitions cannot be read for a while after the change is stored.
      create: async (...args) => {
        const outcome = await flagStore.create(...args);
        failuresToCome = 2;
        return outcome;
      },
      definitions: async (...args) => {
        if (failuresToCome === 0) return flagStore.definitions(...args);
        failuresToCome--;
        throw new Error("not now");
      },
    };
    const { flags, compiledFlags } = processOn(failing, database, (error) => faults.push(error));
    const projectId = await newProject();
    const stop = watchRevisions(compiledFlags, 10);
    const flag = await flags.create(projectId, { key: "late" }, await newUser());
    expect(flag.key).toBe("late");
    await expect
      .poll(async () => (await compiledFlags.get(projectId)).definitions.flags.length)
      .toBe(1);
    expect(faults).toEqual([new Error("not now"), new Error("not now")]);
    await stop();
    await database.close();
  });

  test("that fails does not hold up the next one", async () => {
    const database = await openTemporarySqlite();
    const { newProject } = await projectsAndUsers(database);
    const { changeDefinitions } = processOn(createFlagStore(database), database);
    const projectId = await newProject();
    const failing = changeDefinitions(projectId, async () => {
      throw new Error("refused");
    });
    const next = changeDefinitions(projectId, async ({ revision }) => revision);
    await expect(failing).rejects.toThrow("refused");
    expect(await next).toBe(0);
    await database.close();
  });
});

import { compileFlags } from "@hedgerow/core/flags/compile-flags";
import { afterAll, beforeAll, beforeEach, describe, expect, test, vi } from "vitest";
import { createFlagStore } from "../engines/sql/flag-store.ts";
import { projectsAndUsers } from "../engines/sql/projects-and-users.setup.ts";
import type { SqlDatabase } from "../engines/sql/sql-database.ts";
import { openTemporarySqlite } from "../engines/sql/sql-engines.contract.ts";
import { type CompiledFlags, createCompiledFlags, watchRevisions } from "./compiled-flags.ts";
import { someFlag } from "./flag-store.contract.ts";
import type { FlagStore } from "./flag-store.ts";

let database: SqlDatabase;
let flagStore: FlagStore;
let newProject: () => Promise<number>;

beforeAll(async () => {
  database = await openTemporarySqlite();
  flagStore = createFlagStore(database);
  ({ newProject } = await projectsAndUsers(database));
});
afterAll(() => database.close());

/** What the cache asked of the store, and whether the store answers. */
const store = { loads: 0, checks: 0, failure: undefined as Error | undefined };
const faults: [unknown, string][] = [];

beforeEach(() => {
  Object.assign(store, { loads: 0, checks: 0, failure: undefined });
  faults.length = 0;
});

const compiledFlags = (maxProjects = 10): CompiledFlags =>
  createCompiledFlags({
    flagStore: {
      async definitions(projectId, earlier) {
        store.loads++;
        if (store.failure) throw store.failure;
        return flagStore.definitions(projectId, earlier);
      },
      async revisions(projectIds) {
        store.checks++;
        if (store.failure) throw store.failure;
        return flagStore.revisions(projectIds);
      },
    },
    compile: (definitions) => compileFlags(definitions),
    maxProjects,
    reportFault: (error, context) => faults.push([error, context]),
  });

const createFlag = async (projectId: number, key: string) => {
  const ifRevision = (await flagStore.revisions([projectId])).get(projectId) ?? 0;
  const write = { authorId: null, now: new Date(), ifRevision };
  const flag = await flagStore.create(projectId, someFlag({ key }), write);
  if (typeof flag === "string") throw new Error(flag);
  return flag;
};
const keysIn = async (flags: CompiledFlags, projectId: number) => [
  ...(await flags.get(projectId)).flagSet.byKey.keys(),
];

describe("getting a project's flags", () => {
  test("the first request loads and compiles them, later ones get the same snapshot at once", async () => {
    const projectId = await newProject();
    await createFlag(projectId, "a");
    const flags = compiledFlags();
    const first = await flags.get(projectId);
    expect([...first.flagSet.byKey.keys()]).toEqual(["a"]);
    expect(first.revision).toBe(1);
    expect(flags.get(projectId)).toBe(first);
    expect(store.loads).toBe(1);
  });

  test("simultaneous first requests share one load", async () => {
    const projectId = await newProject();
    const flags = compiledFlags();
    const [a, b, c] = await Promise.all([1, 2, 3].map(() => flags.get(projectId)));
    expect(a).toBe(b);
    expect(b).toBe(c);
    expect(store.loads).toBe(1);
  });

  test("a failed first load is told to its callers and tried again by the next", async () => {
    const projectId = await newProject();
    await createFlag(projectId, "a");
    const flags = compiledFlags();
    store.failure = new Error("disk gone");
    await expect(flags.get(projectId)).rejects.toThrow("disk gone");
    store.failure = undefined;
    expect(await keysIn(flags, projectId)).toEqual(["a"]);
  });

  test("the project unused for longest is let go when there are too many", async () => {
    const [a, b, c] = [await newProject(), await newProject(), await newProject()];
    const flags = compiledFlags(2);
    const first = await flags.get(a);
    await flags.get(b);
    await flags.get(a);
    await flags.get(c);
    expect(store.loads).toBe(3);
    expect(flags.get(a)).toBe(first);
    await flags.get(b);
    expect(store.loads).toBe(4);
  });
});

describe("taking changes in", () => {
  test("[FM-6] after a refresh every change committed before it is live", async () => {
    const projectId = await newProject();
    const flags = compiledFlags();
    expect(await keysIn(flags, projectId)).toEqual([]);
    await createFlag(projectId, "a");
    expect(await keysIn(flags, projectId)).toEqual([]);
    await flags.refresh(projectId);
    expect(await keysIn(flags, projectId)).toEqual(["a"]);
  });

  test("a refresh during a load does not settle for what that load may have missed", async () => {
    const projectId = await newProject();
    const flags = compiledFlags();
    const loading = flags.get(projectId);
    const created = createFlag(projectId, "late");
    await created;
    const [, refreshed, alsoRefreshed] = await Promise.all([
      loading,
      flags.refresh(projectId),
      flags.refresh(projectId),
    ]);
    expect([...refreshed.flagSet.byKey.keys()]).toEqual(["late"]);
    expect(alsoRefreshed).toBe(refreshed);
    expect(flags.get(projectId)).toBe(refreshed);
  });

  test("a refresh without a change keeps the snapshot", async () => {
    const projectId = await newProject();
    const flags = compiledFlags();
    const snapshot = await flags.get(projectId);
    expect(await flags.refresh(projectId)).toBe(snapshot);
  });

  test("[FM-7] changes of other processes are taken in by a look at the revisions", async () => {
    const [changed, unchanged, unloaded] = [
      await newProject(),
      await newProject(),
      await newProject(),
    ];
    const flags = compiledFlags();
    await flags.get(changed);
    const kept = await flags.get(unchanged);
    await createFlag(changed, "a");
    await createFlag(unloaded, "b");
    store.loads = 0;
    await flags.checkRevisions();
    expect(store).toMatchObject({ loads: 1, checks: 1 });
    expect(await keysIn(flags, changed)).toEqual(["a"]);
    expect(flags.get(unchanged)).toBe(kept);
    await flags.checkRevisions();
    expect(store).toMatchObject({ loads: 1, checks: 2 });
  });

  test("a store that cannot be read leaves the earlier flags in place and is reported", async () => {
    const projectId = await newProject();
    await createFlag(projectId, "a");
    const flags = compiledFlags();
    const snapshot = await flags.get(projectId);
    await createFlag(projectId, "b");
    store.failure = new Error("disk gone");
    await flags.checkRevisions();
    expect(faults).toEqual([[store.failure, expect.any(String)]]);
    await expect(flags.refresh(projectId)).rejects.toThrow("disk gone");
    expect(flags.get(projectId)).toBe(snapshot);
    store.failure = undefined;
    await flags.checkRevisions();
    expect(await keysIn(flags, projectId)).toEqual(["a", "b"]);
  });

  test("watching checks again and again until it is stopped", async () => {
    vi.useFakeTimers();
    try {
      const stop = watchRevisions(compiledFlags(), 500);
      await vi.advanceTimersByTimeAsync(1600);
      expect(store.checks).toBe(3);
      await stop();
      await vi.advanceTimersByTimeAsync(5000);
      expect(store.checks).toBe(3);
    } finally {
      vi.useRealTimers();
    }
  });
});

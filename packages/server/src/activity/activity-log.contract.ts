import { afterAll, beforeAll, expect, test } from "vitest";
import type { CohortRecord, CohortStore } from "../cohorts/cohort-store.ts";
import { someFlag } from "../flags/flag-store.contract.ts";
import type { FlagRecord, FlagStore } from "../flags/flag-store.ts";
import type { ActivityLog, ActivityQuery } from "./activity-log.ts";
import { describeChanges } from "./describe-change.ts";

/** A log over a fresh database, and the stores that write it. */
export interface ActivityLogFixture {
  readonly activityLog: ActivityLog;
  readonly flagStore: FlagStore;
  readonly cohortStore: CohortStore;
  newProject(): Promise<number>;
  newUser(): Promise<number>;
  close(): Promise<void>;
}

const now = new Date("2026-03-01T10:00:00.123Z");
const describeFlag = describeChanges<FlagRecord>({
  scope: "FeatureFlag",
  nameOf: ({ key }) => key,
  fields: ["key", "name", "filters", "deleted", "lastCalledAt"],
});
const describeCohort = describeChanges<CohortRecord>({
  scope: "Cohort",
  nameOf: ({ name }) => name,
  fields: ["name", "filters", "deleted"],
});
const everything: ActivityQuery = {
  scope: null,
  itemId: null,
  authorId: null,
  limit: 100,
  offset: 0,
};

/** What every {@link ActivityLog} must do, together with the stores that write it. */
export function activityLogContract(open: () => Promise<ActivityLogFixture>): void {
  let fixture: ActivityLogFixture;
  beforeAll(async () => {
    fixture = await open();
  });
  afterAll(() => fixture.close());

  const revision = async (projectId: number) =>
    (await fixture.flagStore.revisions([projectId])).get(projectId) ?? 0;
  const createFlag = async (projectId: number, key: string, authorId: number | null = null) => {
    const ifRevision = await revision(projectId);
    const flag = await fixture.flagStore.create(projectId, someFlag({ key }), {
      authorId,
      now,
      ifRevision,
      describe: describeFlag,
    });
    if (typeof flag === "string") throw new Error(flag);
    return flag;
  };
  const updateFlag = async (flag: FlagRecord, change: Partial<FlagRecord>, authorId: number) =>
    fixture.flagStore.update(flag.projectId, flag.id, change, {
      authorId,
      now,
      ifRevision: await revision(flag.projectId),
      describe: describeFlag,
    });
  const listed = async (projectId: number, query: Partial<ActivityQuery> = {}) =>
    (await fixture.activityLog.list(projectId, { ...everything, ...query })).activities;

  test("[AL-1] a change is kept with author, time, version and each field before and after", async () => {
    const projectId = await fixture.newProject();
    const [ada, bob] = [await fixture.newUser(), await fixture.newUser()];
    const flag = await createFlag(projectId, "a", ada);
    await updateFlag(flag, { key: "b", lastCalledAt: now }, bob);
    expect(await listed(projectId)).toEqual([
      {
        id: expect.any(Number),
        projectId,
        scope: "FeatureFlag",
        itemId: String(flag.id),
        itemVersion: 2,
        activity: "updated",
        name: "b",
        changes: [
          { field: "key", before: "a", after: "b" },
          { field: "lastCalledAt", before: null, after: "2026-03-01T10:00:00.123Z" },
        ],
        authorId: bob,
        at: now,
      },
      expect.objectContaining({ activity: "created", itemVersion: 1, authorId: ada, changes: [] }),
    ]);
  });

  test("[AL-6] an update that changes nothing is not listed, and is there for its version", async () => {
    const projectId = await fixture.newProject();
    const author = await fixture.newUser();
    const flag = await createFlag(projectId, "a");
    await updateFlag(flag, { key: "a" }, author);
    await updateFlag(flag, { key: "b" }, author);
    const { count, activities } = await fixture.activityLog.list(projectId, everything);
    expect([count, ...activities.map(({ itemVersion }) => itemVersion)]).toEqual([2, 3, 1]);
    const item = { scope: "FeatureFlag", itemId: String(flag.id) } as const;
    const since = await fixture.activityLog.since(projectId, item, 1);
    expect(since.map(({ itemVersion }) => itemVersion)).toEqual([2, 3]);
  });

  test("[FM-22] what was changed since a version is not told where it is too long to look through", async () => {
    const projectId = await fixture.newProject();
    const author = await fixture.newUser();
    const flag = await createFlag(projectId, "a");
    const item = { scope: "FeatureFlag", itemId: String(flag.id) } as const;
    for (const letter of ["a", "b", "c"]) {
      await updateFlag(flag, { filters: { note: letter.repeat(2_400_000) } }, author);
    }
    // Each change holds what was before and what was after it.
    expect(await fixture.activityLog.since(projectId, item, 1)).toEqual([]);
    expect(await fixture.activityLog.since(projectId, item, 2)).toHaveLength(2);
  });

  test("[AL-1] deleting and restoring are told apart from other changes", async () => {
    const projectId = await fixture.newProject();
    const author = await fixture.newUser();
    const flag = await createFlag(projectId, "a");
    await updateFlag(flag, { deleted: true }, author);
    await updateFlag(flag, { deleted: false }, author);
    const activities = (await listed(projectId)).map(({ activity }) => activity);
    expect(activities).toEqual(["restored", "deleted", "created"]);
  });

  test("[AL-2] a change that fails leaves no activity", async () => {
    const projectId = await fixture.newProject();
    const author = await fixture.newUser();
    await createFlag(projectId, "taken");
    const flag = await createFlag(projectId, "other");
    expect(await updateFlag(flag, { key: "taken" }, author)).toBe("duplicate-key");
    const stale = { authorId: author, now, ifRevision: 0, describe: describeFlag };
    expect(await fixture.flagStore.update(projectId, flag.id, { name: "n" }, stale)).toBe("stale");
    expect(await listed(projectId)).toHaveLength(2);
  });

  test("[AL-3] the log is read by kind, item and author, newest first, in pages", async () => {
    const projectId = await fixture.newProject();
    const [ada, bob] = [await fixture.newUser(), await fixture.newUser()];
    const flag = await createFlag(projectId, "a", ada);
    await updateFlag(flag, { name: "1" }, bob);
    await updateFlag(flag, { name: "2" }, ada);
    const other = await createFlag(projectId, "z", bob);
    const fields = { name: "C", description: "", isStatic: false, filters: {}, deleted: false };
    const made = await fixture.cohortStore.create(
      projectId,
      fields,
      { uuids: [], distinctIds: [] },
      { authorId: ada, now, ifRevision: await revision(projectId), describe: describeCohort },
    );
    if (made === "stale") throw new Error(made);
    await fixture.cohortStore.update(
      projectId,
      made.cohort.id,
      { name: "D" },
      { authorId: bob, now, ifRevision: await revision(projectId), describe: describeCohort },
    );
    expect(await listed(await fixture.newProject())).toEqual([]);
    const cohorts = await listed(projectId, { scope: "Cohort" });
    expect(cohorts.map(({ name, authorId, itemVersion }) => [name, authorId, itemVersion])).toEqual(
      [
        ["D", bob, null],
        ["C", ada, null],
      ],
    );
    expect(cohorts[0]?.changes).toEqual([{ field: "name", before: "C", after: "D" }]);
    const ofItem = { scope: "FeatureFlag", itemId: String(flag.id) } as const;
    expect((await listed(projectId, ofItem)).map(({ itemVersion }) => itemVersion)).toEqual([
      3, 2, 1,
    ]);
    expect(await listed(projectId, { authorId: bob, limit: 1, offset: 1 })).toMatchObject([
      { itemId: String(other.id) },
    ]);
    expect((await fixture.activityLog.list(projectId, { ...everything, limit: 1 })).count).toBe(6);
    const since = await fixture.activityLog.since(projectId, ofItem, 1);
    expect(since.map(({ itemVersion }) => itemVersion)).toEqual([2, 3]);
  });
}

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type {
  DefinitionWrite,
  FlagFields,
  FlagListQuery,
  FlagRecord,
  FlagStore,
} from "./flag-store.ts";

/** A store over a fresh database, and the things of other features that definitions read. */
export interface FlagStoreFixture {
  readonly store: FlagStore;
  /** A new project in the given time zone; its id. */
  newProject(timeZone?: string): Promise<number>;
  newUser(): Promise<number>;
  addGroupType(projectId: number, index: number, name: string): Promise<void>;
  changeTimeZone(projectId: number, timeZone: string): Promise<void>;
  close(): Promise<void>;
}

const now = new Date("2026-03-01T10:00:00.123Z");
const later = new Date("2026-03-02T11:30:00.000Z");

export const someFlag = (fields: Partial<FlagRecord> = {}) =>
  ({
    key: "a-flag",
    name: "",
    active: true,
    deleted: false,
    filters: { groups: [{ properties: [], rollout_percentage: 50 }] },
    ensureExperienceContinuity: false,
    bucketingIdentifier: "distinct_id",
    evaluationRuntime: "all",
    evaluationContexts: [],
    tags: [],
    isRemoteConfiguration: false,
    sealedPayloads: null,
    rollbackConditions: null,
    performedRollback: false,
    hasEnrichedAnalytics: false,
    createdAt: now,
    lastCalledAt: null,
    creationContext: "feature_flags",
    ...fields,
  }) satisfies FlagFields & { creationContext: string };

const everything: FlagListQuery = {
  active: null,
  notCalledSince: null,
  hasPayload: null,
  search: null,
  type: null,
  createdById: null,
  evaluationRuntime: null,
  tags: [],
  excludedKeys: [],
  order: { by: "createdAt", descending: true },
  limit: 100,
  offset: 0,
};

/** What every {@link FlagStore} must do. */
export function flagStoreContract(open: () => Promise<FlagStoreFixture>): void {
  let fixture: FlagStoreFixture;
  let store: FlagStore;

  beforeAll(async () => {
    fixture = await open();
    store = fixture.store;
  });
  afterAll(() => fixture.close());

  const writing = async (
    projectId: number,
    write: Partial<DefinitionWrite> = {},
  ): Promise<DefinitionWrite> => ({
    authorId: null,
    now,
    ifRevision: (await store.revisions([projectId])).get(projectId) ?? 0,
    ...write,
  });
  const create = async (
    projectId: number,
    fields: Partial<FlagRecord> = {},
    write: Partial<DefinitionWrite> = {},
  ): Promise<FlagRecord> => {
    const created = await store.create(
      projectId,
      someFlag(fields),
      await writing(projectId, write),
    );
    if (typeof created === "string") throw new Error(created);
    return created;
  };
  const update = async (
    flag: FlagRecord,
    change: Partial<FlagFields>,
    write: Partial<DefinitionWrite> = {},
  ): Promise<FlagRecord> => {
    const updated = await store.update(
      flag.projectId,
      flag.id,
      change,
      await writing(flag.projectId, write),
    );
    if (typeof updated === "string") throw new Error(updated);
    return updated;
  };
  const listedKeys = async (projectId: number, query: Partial<FlagListQuery> = {}) =>
    (await store.list(projectId, { ...everything, ...query })).flags.map(({ key }) => key);

  describe("writing flags", () => {
    test("a new flag has version 1 and reads back as it was written", async () => {
      const projectId = await fixture.newProject();
      const userId = await fixture.newUser();
      const fields = someFlag({
        key: "full",
        name: "Ünï ☃",
        active: false,
        filters: JSON.parse(
          '{"groups":[],"__proto__":{"a":1},"constructor":2,"payloads":{"true":"{\\"n\\": 12345678901234567890}"}}',
        ),
        ensureExperienceContinuity: true,
        bucketingIdentifier: "device_id",
        evaluationRuntime: "server",
        evaluationContexts: ["docs", "app"],
        tags: ["b", "a"],
        isRemoteConfiguration: true,
        rollbackConditions: [{ threshold: 1.5 }],
        performedRollback: true,
        hasEnrichedAnalytics: true,
        createdAt: now,
        lastCalledAt: later,
        creationContext: "web_experiments",
      });
      const created = await create(projectId, fields, { authorId: userId, now: later });
      expect(created).toEqual({
        ...fields,
        id: expect.any(Number),
        projectId,
        version: 1,
        updatedAt: later,
        createdById: userId,
        lastModifiedById: userId,
        hasExperiment: false,
        isSurveyFlag: false,
      });
      expect(await store.flag(projectId, created.id)).toEqual(created);
      expect(Object.hasOwn(created.filters, "__proto__")).toBe(true);
    });

    test("[FM-4] an update changes only the given fields and raises the version by one", async () => {
      const projectId = await fixture.newProject();
      const userId = await fixture.newUser();
      const created = await create(projectId, { key: "k", name: "before", tags: ["t"] });
      const updated = await update(
        created,
        { name: "after", filters: { groups: [] } },
        { authorId: userId, now: later },
      );
      expect(updated).toEqual({
        ...created,
        name: "after",
        filters: { groups: [] },
        version: 2,
        updatedAt: later,
        lastModifiedById: userId,
      });
      expect(await store.flag(projectId, created.id)).toEqual(updated);
    });

    test("[FM-1] a key belongs to one live flag of a project", async () => {
      const projectId = await fixture.newProject();
      const elsewhere = await fixture.newProject();
      const first = await create(projectId, { key: "taken" });
      const other = await create(projectId, { key: "other" });
      expect(
        await store.create(projectId, someFlag({ key: "taken" }), await writing(projectId)),
      ).toBe("duplicate-key");
      expect(
        await store.update(projectId, other.id, { key: "taken" }, await writing(projectId)),
      ).toBe("duplicate-key");
      await create(elsewhere, { key: "taken" });
      await create(projectId, { key: "Taken" });
      expect(await store.flag(projectId, first.id)).toEqual(first);
    });

    test("[FM-2] a deleted flag frees its key and keeps its own record", async () => {
      const projectId = await fixture.newProject();
      const first = await create(projectId, { key: "again" });
      const deleted = await update(first, { deleted: true });
      const second = await create(projectId, { key: "again" });
      expect(second.id).not.toBe(first.id);
      expect(await store.flag(projectId, first.id)).toEqual(deleted);
      expect(await store.flagsById(projectId, [first.id, 999_999, first.id])).toEqual(
        new Map([[first.id, deleted]]),
      );
      expect(await store.flagsById(projectId + 1, [first.id])).toEqual(new Map());
      await update(second, { deleted: true });
      const other = await create(projectId, { key: "other" });
      expect((await update(other, { key: "again" })).key).toBe("again");
      expect(
        await store.update(projectId, first.id, { deleted: false }, await writing(projectId)),
      ).toBe("duplicate-key");
    });

    test("flags of another project do not exist", async () => {
      const projectId = await fixture.newProject();
      const elsewhere = await fixture.newProject();
      const flag = await create(projectId);
      expect(await store.flag(elsewhere, flag.id)).toBeUndefined();
      expect(await store.update(elsewhere, flag.id, { name: "x" }, await writing(elsewhere))).toBe(
        "not-found",
      );
      expect(await store.flag(projectId, flag.id)).toEqual(flag);
    });
  });

  describe("revisions", () => {
    test("every write moves the project on, and no other project", async () => {
      const projectId = await fixture.newProject();
      const elsewhere = await fixture.newProject();
      expect(await store.revisions([projectId, elsewhere])).toEqual(new Map());
      const flag = await create(projectId);
      expect(await store.revisions([projectId, elsewhere])).toEqual(new Map([[projectId, 1]]));
      await update(flag, { name: "n" });
      expect(await store.revisions([projectId, elsewhere])).toEqual(new Map([[projectId, 2]]));
      expect(await store.revisions([])).toEqual(new Map());
    });

    test("a refused write does not move the project on", async () => {
      const projectId = await fixture.newProject();
      await create(projectId, { key: "k" });
      await store.create(projectId, someFlag({ key: "k" }), await writing(projectId));
      await store.update(projectId, 0, { name: "n" }, await writing(projectId));
      expect(await store.revisions([projectId])).toEqual(new Map([[projectId, 1]]));
    });

    test("[FM-5] a write decided on earlier definitions is stale and changes nothing", async () => {
      const projectId = await fixture.newProject();
      const fresh = await writing(projectId);
      const flag = await create(projectId, { key: "first" });
      expect(await store.create(projectId, someFlag({ key: "late" }), fresh)).toBe("stale");
      expect(await store.update(projectId, flag.id, { name: "late" }, fresh)).toBe("stale");
      expect(await listedKeys(projectId)).toEqual(["first"]);
      expect(await store.flag(projectId, flag.id)).toEqual(flag);
    });

    test("of simultaneous writes decided on the same definitions one wins", async () => {
      const projectId = await fixture.newProject();
      const write = await writing(projectId);
      const outcomes = await Promise.all(
        ["a", "b", "c"].map((key) => store.create(projectId, someFlag({ key }), write)),
      );
      expect(outcomes.filter((outcome) => outcome !== "stale")).toHaveLength(1);
      expect(await listedKeys(projectId)).toHaveLength(1);
    });
  });

  describe("lists", () => {
    test("[FM-11] live flags are listed newest first, page by page", async () => {
      const projectId = await fixture.newProject();
      for (let day = 1; day <= 5; day++) {
        await create(projectId, { key: `f${day}`, createdAt: new Date(Date.UTC(2026, 0, day)) });
      }
      const gone = await create(projectId, { key: "gone" });
      await update(gone, { deleted: true });
      await create(await fixture.newProject(), { key: "elsewhere" });
      expect(await listedKeys(projectId)).toEqual(["f5", "f4", "f3", "f2", "f1"]);
      const page = await store.list(projectId, { ...everything, limit: 2, offset: 3 });
      expect(page.count).toBe(5);
      expect(page.flags.map(({ key }) => key)).toEqual(["f2", "f1"]);
      expect((await store.list(projectId, { ...everything, offset: 9 })).flags).toEqual([]);
    });

    test("[FM-12] each filter keeps the flags it names", async () => {
      const projectId = await fixture.newProject();
      const userId = await fixture.newUser();
      await create(projectId, { key: "off", active: false });
      await create(projectId, {
        key: "abc",
        name: "50% of_All\\",
        filters: {
          groups: [],
          multivariate: { variants: [{ key: "a", rollout_percentage: 100 }] },
        },
      });
      await create(projectId, { key: "remote", isRemoteConfiguration: true });
      await create(projectId, { key: "browser", evaluationRuntime: "client" });
      await create(projectId, { key: "mine", name: "ÜBER" }, { authorId: userId });
      await create(projectId, { key: "of-a-survey", creationContext: "surveys" });
      const order = { by: "id", descending: false } as const;
      const keys = (query: Partial<FlagListQuery>) => listedKeys(projectId, { order, ...query });
      expect(await keys({ active: false })).toEqual(["off"]);
      expect(await keys({ active: true })).toEqual(["abc", "remote", "browser", "mine"]);
      expect(await keys({ type: "multivariant" })).toEqual(["abc"]);
      expect(await keys({ type: "boolean" })).toEqual(["off", "remote", "browser", "mine"]);
      expect(await keys({ type: "remote_config" })).toEqual(["remote"]);
      expect(await keys({ type: "experiment" })).toEqual([]);
      expect(await keys({ evaluationRuntime: "client" })).toEqual(["browser"]);
      expect(await keys({ createdById: userId })).toEqual(["mine"]);
      expect(await keys({ search: "AB" })).toEqual(["abc"]);
      expect(await keys({ search: "of_all" })).toEqual(["abc"]);
      expect(await keys({ search: "0% OF" })).toEqual(["abc"]);
      expect(await keys({ search: "l\\" })).toEqual(["abc"]);
      expect(await keys({ search: "o_f" })).toEqual([]);
      expect(await keys({ search: "%" })).toEqual(["abc"]);
      expect(await keys({ search: "ÜB" })).toEqual(["mine"]);
      expect(await keys({ search: "e", active: true, type: "boolean" })).toEqual([
        "remote",
        "browser",
        "mine",
      ]);
    });

    test("[FM-27] stale flags are those not called lately, or rolled out long ago and never called", async () => {
      const projectId = await fixture.newProject();
      const open = { groups: [{ properties: [], rollout_percentage: 100 }] };
      const since = new Date("2026-02-01T00:00:00Z");
      const before = new Date(since.getTime() - 1);
      await create(projectId, { key: "called", createdAt: before, lastCalledAt: since });
      await create(projectId, { key: "forgotten", lastCalledAt: before });
      await create(projectId, { key: "rolled-out", filters: open, createdAt: before });
      await create(projectId, { key: "young", filters: open, createdAt: since });
      await create(projectId, { key: "in-part", createdAt: before });
      await create(projectId, { key: "off", active: false, lastCalledAt: before });
      const order = { by: "id", descending: false } as const;
      expect(await listedKeys(projectId, { order, notCalledSince: since })).toEqual([
        "forgotten",
        "rolled-out",
      ]);
    });

    test("[FM-28] flags with payloads, encrypted or not, are told from those without", async () => {
      const projectId = await fixture.newProject();
      const filter = { key: "a", type: "person", value: '"payloads":{"' };
      await create(projectId, {
        key: "none",
        filters: { groups: [{ properties: [filter] }], payloads: {} },
      });
      await create(projectId, { key: "plain", filters: { groups: [], payloads: { true: "1" } } });
      await create(projectId, { key: "sealed", sealedPayloads: { true: "v1.x" } });
      await create(projectId, { key: "empty", sealedPayloads: {} });
      const order = { by: "id", descending: false } as const;
      expect(await listedKeys(projectId, { order, hasPayload: true })).toEqual(["plain", "sealed"]);
      expect(await listedKeys(projectId, { order, hasPayload: false })).toEqual(["none", "empty"]);
    });

    test("[FM-29] a call moves the time of the last one forward and changes nothing else", async () => {
      const projectId = await fixture.newProject();
      const called = await create(projectId, { key: "called" });
      const other = await create(projectId, { key: "other" });
      const revision = (await store.definitions(projectId)).revision;
      await store.recordCalls(
        projectId,
        new Map([
          ["called", later],
          ["unknown", later],
        ]),
      );
      await store.recordCalls(projectId, new Map([["called", now]]));
      expect(await store.flag(projectId, called.id)).toEqual({ ...called, lastCalledAt: later });
      expect(await store.flag(projectId, other.id)).toEqual(other);
      expect((await store.definitions(projectId)).revision).toBe(revision);
    });

    test("flags can be ordered by each column, with absent values last", async () => {
      const projectId = await fixture.newProject();
      await create(projectId, { key: "b", lastCalledAt: later });
      await create(projectId, { key: "c", lastCalledAt: now });
      await create(projectId, { key: "a" });
      const keys = (by: FlagListQuery["order"]["by"], descending: boolean) =>
        listedKeys(projectId, { order: { by, descending } });
      expect(await keys("key", false)).toEqual(["a", "b", "c"]);
      expect(await keys("key", true)).toEqual(["c", "b", "a"]);
      expect(await keys("lastCalledAt", false)).toEqual(["c", "b", "a"]);
      expect(await keys("lastCalledAt", true)).toEqual(["b", "c", "a"]);
      expect(await keys("version", true)).toEqual(["a", "c", "b"]);
    });
  });

  describe("definitions", () => {
    test("a project without changes has no flags and revision 0", async () => {
      const projectId = await fixture.newProject("Europe/Berlin");
      expect(await store.definitions(projectId)).toEqual({
        revision: 0,
        flags: [],
        cohorts: [],
        groupTypes: [],
        timeZone: "Europe/Berlin",
      });
    });

    test("a change of the project's time zone is a change of its definitions", async () => {
      const projectId = await fixture.newProject("UTC");
      const earlier = await store.definitions(projectId);
      await fixture.changeTimeZone(projectId, "Asia/Tokyo");
      const { revision, timeZone } = await store.definitions(projectId, earlier);
      expect(timeZone).toBe("Asia/Tokyo");
      expect(revision).toBeGreaterThan(earlier.revision);
    });

    test("live flags, active or not, come by ascending id with what evaluation needs", async () => {
      const projectId = await fixture.newProject();
      await fixture.addGroupType(projectId, 1, "company");
      await fixture.addGroupType(projectId, 0, "team");
      const first = await create(projectId, { key: "z", active: false });
      const gone = await create(projectId, { key: "gone" });
      const second = await create(projectId, { key: "a", creationContext: "surveys" });
      const third = await create(projectId, { key: "survey-targeting-1" });
      await update(gone, { deleted: true });
      await create(await fixture.newProject(), { key: "elsewhere" });
      const definitions = await store.definitions(projectId);
      expect(definitions.groupTypes).toEqual([
        { index: 0, name: "team" },
        { index: 1, name: "company" },
      ]);
      expect(definitions.flags.map(({ id }) => id)).toEqual([first.id, second.id, third.id]);
      expect(definitions.flags.map(({ isSurveyFlag }) => isSurveyFlag)).toEqual([
        false,
        true,
        true,
      ]);
      expect(definitions.flags[0]).toEqual({
        id: first.id,
        key: "z",
        name: "",
        active: false,
        version: 1,
        filters: first.filters,
        ensureExperienceContinuity: false,
        bucketingIdentifier: "distinct_id",
        evaluationRuntime: "all",
        evaluationContexts: [],
        hasExperiment: false,
        isSurveyFlag: false,
        isRemoteConfiguration: false,
        sealedPayloads: null,
      });
    });

    test("reading on from earlier definitions equals reading them all, and keeps what did not change", async () => {
      const projectId = await fixture.newProject();
      const kept = await create(projectId, { key: "kept" });
      const changed = await create(projectId, { key: "changed" });
      const removed = await create(projectId, { key: "removed" });
      const restored = await create(projectId, { key: "restored" });
      await update(restored, { deleted: true });
      const earlier = await store.definitions(projectId);
      await update(changed, { name: "new name" });
      await update(removed, { deleted: true });
      await update(restored, { deleted: false });
      await create(projectId, { key: "added" });
      const now = await store.definitions(projectId, earlier);
      expect(now).toEqual(await store.definitions(projectId));
      expect(now.flags.map(({ key }) => key)).toEqual(["kept", "changed", "restored", "added"]);
      expect(now.flags[0]).toBe(earlier.flags.find(({ id }) => id === kept.id));
      expect(now.revision).toBe(earlier.revision + 4);
    });
  });
}

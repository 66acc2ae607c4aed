import { afterAll, beforeAll, beforeEach, describe, expect, test } from "vitest";
import type { CohortStoreFixture } from "./cohort-store.contract.ts";
import type { CohortTask, MembershipStore } from "./membership-store.ts";

/** A membership store, and the stores beside it. */
export interface MembershipStoreFixture
  extends Pick<
    CohortStoreFixture,
    "store" | "flagStore" | "newProject" | "newPerson" | "cohortIdsOf" | "close"
  > {
  readonly memberships: MembershipStore;
}

/** What every {@link MembershipStore} must do. */
export function membershipStoreContract(open: () => Promise<MembershipStoreFixture>): void {
  let fixture: MembershipStoreFixture;
  let store: MembershipStore;
  let projectId: number;
  let clockMs = Date.parse("2026-03-01T10:00:00Z");
  beforeAll(async () => {
    fixture = await open();
    store = fixture.memberships;
  });
  afterAll(() => fixture.close());
  beforeEach(async () => {
    projectId = await fixture.newProject();
    clockMs += 60_000;
  });

  const now = () => new Date(clockMs);
  const later = (ms: number) => new Date(clockMs + ms);
  const writing = async () => ({
    authorId: null,
    now: now(),
    ifRevision: (await fixture.flagStore.revisions([projectId])).get(projectId) ?? 0,
  });
  const behavior = (event: string) => ({
    properties: { type: "AND", values: [{ type: "behavioral", key: event }] },
  });
  async function create(isStatic = false) {
    const fields = {
      name: "c",
      description: "",
      isStatic,
      filters: isStatic ? {} : behavior("bought"),
      deleted: false,
    };
    const nobody = { uuids: [], distinctIds: [] };
    const created = await fixture.store.create(projectId, fields, nobody, await writing());
    if (created === "stale") throw new Error(created);
    return created.cohort;
  }
  const read = async (id: number) => fixture.store.cohort(projectId, id);
  /** Tasks of this test's project: others share the database. */
  async function due(at = now()): Promise<readonly CohortTask[]> {
    return (await store.due(at, 1000)).filter((task) => task.projectId === projectId);
  }
  async function taskOf(id: number): Promise<CohortTask> {
    const task = (await due()).find((one) => one.id === id);
    if (!task) throw new Error("the cohort is not due");
    return task;
  }
  const everything = { properties: true, distinctId: true, cohortIds: true };
  const nothing = { properties: false, distinctId: false, cohortIds: false };

  describe("what is due", () => {
    test("[CO-17] a new rule and a changed one, at once; a name, a list and a deleted cohort are not", async () => {
      const cohort = await create();
      await create(true);
      expect((await due()).map(({ id }) => id)).toEqual([cohort.id]);
      const times = { now: now(), dueAt: later(60_000) };
      await store.finish(await taskOf(cohort.id), { kind: "calculated", count: 3 }, times);
      expect(await due()).toEqual([]);
      expect(await read(cohort.id)).toMatchObject({
        memberCount: 3,
        isCalculating: false,
        calculatedAt: now(),
      });
      await fixture.store.update(projectId, cohort.id, { name: "d" }, await writing());
      await fixture.store.update(
        projectId,
        cohort.id,
        { filters: behavior("bought") },
        await writing(),
      );
      expect(await due()).toEqual([]);
      await fixture.store.update(
        projectId,
        cohort.id,
        { filters: behavior("sold") },
        await writing(),
      );
      expect((await due()).map(({ id }) => id)).toEqual([cohort.id]);
      expect((await read(cohort.id))?.isCalculating).toBe(true);
      await fixture.store.update(projectId, cohort.id, { deleted: true }, await writing());
      expect(await due()).toEqual([]);
    });

    test("[CO-22] a failure is counted until one succeeds", async () => {
      const { id } = await create();
      const fail = async () =>
        store.finish(
          await taskOf(id),
          { kind: "failed", error: "too long" },
          { now: now(), dueAt: now() },
        );
      await fail();
      await fail();
      expect(await read(id)).toMatchObject({ errorsCalculating: 2, calculationError: "too long" });
      const times = { now: now(), dueAt: later(1) };
      await store.finish(await taskOf(id), { kind: "calculated", count: 0 }, times);
      expect(await read(id)).toMatchObject({ errorsCalculating: 0, calculationError: null });
    });

    test("what was asked for is due from its moment on, longest due first, until it is settled", async () => {
      const [first, second] = [await create(), await create(true)];
      await store.request(projectId, [first.id], later(-1_000));
      await store.request(projectId, [second.id], later(-2_000));
      expect((await due()).map(({ id }) => id)).toEqual([second.id, first.id]);
      expect(await read(second.id)).toMatchObject({ isCalculating: true });
      await store.settle(projectId, second.id, later(5_000));
      expect(await read(second.id)).toMatchObject({ isCalculating: false });
      expect((await due(later(6_000))).map(({ id }) => id)).toEqual([first.id, second.id]);
    });
  });

  describe("fillings of static cohorts", () => {
    const sooner = () => later(-1_000);
    const filling = async (id: number) => store.fill(projectId, id, later(5_000), "broken off");

    test("[CO-35] show as being calculated until they are settled, and then without error", async () => {
      const { id } = await create(true);
      await filling(id);
      expect(await read(id)).toMatchObject({ isCalculating: true, calculationError: "broken off" });
      expect(await due()).toEqual([]);
      await store.settle(projectId, id, later(9_000));
      expect(await read(id)).toMatchObject({
        isCalculating: false,
        errorsCalculating: 0,
        calculationError: null,
      });
      expect(await due(later(6_000))).toEqual([]);
    });

    test("[CO-35] that are not settled are due when they end, and their error outlives counts", async () => {
      const [{ id }, other] = [await create(true), await create(true)];
      await filling(id);
      await store.endFillings(sooner());
      expect((await due()).map((task) => task.id)).toEqual([id]);
      const task = await taskOf(id);
      const times = { now: now(), dueAt: later(9_000) };
      await store.finish(task, { kind: "postponed" }, times);
      await store.finish(task, { kind: "counted", count: 0 }, times);
      expect(await read(id)).toMatchObject({
        isCalculating: false,
        errorsCalculating: 1,
        calculationError: "broken off",
      });
      expect(await read(other.id)).toMatchObject({ errorsCalculating: 0, calculationError: null });
    });
  });

  describe("persons and members", () => {
    test("persons come by record number, with the parts asked for", async () => {
      const ann = await fixture.newPerson(projectId, ["z-ann", "ann"]);
      const bob = await fixture.newPerson(projectId, ["bob"]);
      await fixture.newPerson(await fixture.newProject(), ["other"]);
      const list = await create(true);
      await store.changeMembers(projectId, list.id, { add: [bob.id], remove: [] });
      const both = await store.persons(projectId, { after: 0, limit: 10 }, everything);
      expect(both).toMatchObject([
        { ...ann, distinctId: "ann", cohortIds: new Set() },
        { ...bob, distinctId: "bob", cohortIds: new Set([list.id]) },
      ]);
      expect(await store.persons(projectId, { after: ann.id, limit: 10 }, nothing)).toMatchObject([
        { ...bob, properties: {}, distinctId: "", cohortIds: new Set() },
      ]);
      expect(await store.persons(projectId, { after: 0, limit: 1 }, nothing)).toMatchObject([ann]);
      const uuids = [bob.uuid, "00000000-0000-4000-8000-00000000dead"];
      expect(await store.personsByUuid(projectId, uuids, everything)).toMatchObject([bob]);
      expect(await store.personsByUuid(projectId, [], everything)).toEqual([]);
    });

    test("[CO-19] members are added and removed at once, twice is once, and who is gone is left out", async () => {
      const ids: number[] = [];
      for (const name of ["a", "b", "c"]) {
        ids.push((await fixture.newPerson(projectId, [name])).id);
      }
      const stranger = await fixture.newPerson(await fixture.newProject(), ["x"]);
      const { id } = await create();
      const change = { add: [...ids, stranger.id, 987654321], remove: [] };
      await store.changeMembers(projectId, id, change);
      await store.changeMembers(projectId, id, change);
      const members = (after: number, upTo: number | null, limit = 10) =>
        store.memberIds(id, { after, upTo }, limit);
      expect(await members(0, null)).toEqual(ids);
      expect(await members(ids[0] ?? 0, ids[1] ?? 0)).toEqual([ids[1]]);
      expect(await members(0, null, 2)).toEqual(ids.slice(0, 2));
      const listed = await store.memberUuids(projectId, id, { after: 0, limit: 2, offset: 1 });
      expect(listed.map((member) => member.id)).toEqual(ids.slice(1));
      await store.changeMembers(projectId, id, { add: [], remove: ids.slice(1) });
      expect(await members(0, null)).toEqual(ids.slice(0, 1));
      expect(await fixture.cohortIdsOf(ids[0] ?? 0)).toEqual([id]);
      expect(await fixture.cohortIdsOf(stranger.id)).toEqual([]);
    });
  });
}

import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { DefinitionWrite, FlagStore } from "../flags/flag-store.ts";
import type {
  CohortFields,
  CohortListQuery,
  CohortRecord,
  CohortStore,
  NamedPersons,
} from "./cohort-store.ts";

/** A store over a fresh database, and what it shares with other features. */
export interface CohortStoreFixture {
  readonly store: CohortStore;
  readonly flagStore: Pick<FlagStore, "definitions" | "revisions">;
  newProject(): Promise<number>;
  newUser(): Promise<number>;
  /** A stored person with the given distinct ids; its uuid and internal id. */
  newPerson(projectId: number, distinctIds: string[]): Promise<{ id: number; uuid: string }>;
  /** Ids of the static cohorts a person is in, ascending. */
  cohortIdsOf(personId: number): Promise<number[]>;
  /** Makes the person of the first id part of the second id's, as a captured event would. */
  mergePersons(projectId: number, from: string, into: string): Promise<void>;
  close(): Promise<void>;
}

const now = new Date("2026-03-01T10:00:00.123Z");
const later = new Date("2026-03-02T11:30:00.000Z");
const nobody: NamedPersons = { uuids: [], distinctIds: [] };
const everything: CohortListQuery = {
  isStatic: null,
  search: null,
  createdById: null,
  limit: 100,
  offset: 0,
};
const rule = {
  properties: {
    type: "OR",
    values: [
      {
        type: "AND",
        values: [{ key: "email", type: "person", value: "@a", operator: "icontains" }],
      },
    ],
  },
};

/** What every {@link CohortStore} must do. */
export function cohortStoreContract(open: () => Promise<CohortStoreFixture>): void {
  let fixture: CohortStoreFixture;
  let store: CohortStore;

  beforeAll(async () => {
    fixture = await open();
    store = fixture.store;
  });
  afterAll(() => fixture.close());

  const writing = async (projectId: number, write: Partial<DefinitionWrite> = {}) => ({
    authorId: null,
    now,
    ifRevision: (await fixture.flagStore.revisions([projectId])).get(projectId) ?? 0,
    ...write,
  });
  const create = async (
    projectId: number,
    fields: Partial<CohortFields> = {},
    members = nobody,
    write: Partial<DefinitionWrite> = {},
  ) => {
    const created = await store.create(
      projectId,
      { name: "c", description: "", isStatic: false, filters: rule, deleted: false, ...fields },
      members,
      await writing(projectId, write),
    );
    if (created === "stale") throw new Error(created);
    return created;
  };
  const update = async (cohort: CohortRecord, change: Partial<CohortFields>) => {
    const updated = await store.update(
      cohort.projectId,
      cohort.id,
      change,
      await writing(cohort.projectId),
    );
    if (typeof updated === "string") throw new Error(updated);
    return updated;
  };
  const staticCohort = { isStatic: true, filters: {} };

  describe("writing cohorts", () => {
    test("a dynamic cohort reads back as it was written and is part of the definitions", async () => {
      const projectId = await fixture.newProject();
      const userId = await fixture.newUser();
      const { cohort, unknown } = await create(
        projectId,
        { name: "Ünï", description: "d" },
        nobody,
        { authorId: userId },
      );
      expect(cohort).toEqual({
        id: expect.any(Number),
        projectId,
        name: "Ünï",
        description: "d",
        isStatic: false,
        filters: rule,
        deleted: false,
        createdAt: now,
        createdById: userId,
        memberCount: null,
        membersChangedAt: null,
        isCalculating: true,
        calculatedAt: null,
        errorsCalculating: 0,
        calculationError: null,
      });
      expect(unknown).toEqual(nobody);
      expect(await store.cohort(projectId, cohort.id)).toEqual(cohort);
      expect(await fixture.flagStore.definitions(projectId)).toMatchObject({
        revision: 1,
        cohorts: [{ id: cohort.id, name: "Ünï", isStatic: false, filters: rule }],
      });
    });

    test("an update changes only the given fields and reaches the definitions", async () => {
      const projectId = await fixture.newProject();
      const { cohort } = await create(projectId, { description: "kept" });
      const earlier = await fixture.flagStore.definitions(projectId);
      const updated = await update(cohort, { name: "new" });
      expect(updated).toEqual({ ...cohort, name: "new" });
      const definitions = await fixture.flagStore.definitions(projectId, earlier);
      expect(definitions.revision).toBe(2);
      expect(definitions.cohorts.map(({ name }) => name)).toEqual(["new"]);
    });

    test("a deleted cohort is still read by id, but is neither listed nor defined", async () => {
      const projectId = await fixture.newProject();
      const { cohort } = await create(projectId);
      const deleted = await update(cohort, { deleted: true });
      expect(await store.cohort(projectId, cohort.id)).toEqual(deleted);
      expect(await store.list(projectId, everything)).toEqual({ count: 0, cohorts: [] });
      expect((await fixture.flagStore.definitions(projectId)).cohorts).toEqual([]);
    });

    test("cohorts of another project do not exist", async () => {
      const projectId = await fixture.newProject();
      const elsewhere = await fixture.newProject();
      const { cohort } = await create(projectId, staticCohort);
      expect(await store.cohort(elsewhere, cohort.id)).toBeUndefined();
      expect(await store.update(elsewhere, cohort.id, {}, await writing(elsewhere))).toBe(
        "not-found",
      );
      expect(await store.addMembers(elsewhere, cohort.id, nobody, now)).toBeUndefined();
    });

    test("[FM-5] a write decided on earlier definitions is stale and changes nothing", async () => {
      const projectId = await fixture.newProject();
      const fresh = await writing(projectId);
      const { cohort } = await create(projectId);
      const fields = { ...cohort, name: "late" };
      expect(await store.create(projectId, fields, nobody, fresh)).toBe("stale");
      expect(await store.update(projectId, cohort.id, { name: "late" }, fresh)).toBe("stale");
      expect((await store.list(projectId, everything)).cohorts).toEqual([cohort]);
    });
  });

  describe("lists", () => {
    test("cohorts are listed newest first, page by page and by filter", async () => {
      const projectId = await fixture.newProject();
      const userId = await fixture.newUser();
      await create(projectId, { name: "First 100%" });
      await create(projectId, { name: "second", ...staticCohort });
      await create(projectId, { name: "third" }, nobody, { now: later, authorId: userId });
      await create(await fixture.newProject(), { name: "elsewhere" });
      const names = async (query: Partial<CohortListQuery>) =>
        (await store.list(projectId, { ...everything, ...query })).cohorts.map(({ name }) => name);
      expect(await names({})).toEqual(["third", "second", "First 100%"]);
      expect(await names({ limit: 1, offset: 1 })).toEqual(["second"]);
      expect((await store.list(projectId, { ...everything, limit: 1 })).count).toBe(3);
      expect(await names({ isStatic: true })).toEqual(["second"]);
      expect(await names({ isStatic: false })).toEqual(["third", "First 100%"]);
      expect(await names({ search: "0%" })).toEqual(["First 100%"]);
      expect(await names({ search: "FIRST" })).toEqual(["First 100%"]);
      expect(await names({ createdById: userId })).toEqual(["third"]);
    });
  });

  describe("members of static cohorts", () => {
    test("[CO-1] a new cohort has its first members at once, each counted once", async () => {
      const projectId = await fixture.newProject();
      const ann = await fixture.newPerson(projectId, ["ann", "ann@work"]);
      const bob = await fixture.newPerson(projectId, ["bob"]);
      const { cohort, unknown } = await create(projectId, staticCohort, {
        uuids: [ann.uuid.toUpperCase(), "00000000-0000-4000-8000-00000000dead"],
        distinctIds: ["ann@work", "bob", "stranger"],
      });
      expect(cohort).toMatchObject({ isStatic: true, memberCount: 2, membersChangedAt: now });
      expect(unknown).toEqual({
        uuids: ["00000000-0000-4000-8000-00000000dead"],
        distinctIds: ["stranger"],
      });
      expect(await fixture.cohortIdsOf(ann.id)).toEqual([cohort.id]);
      expect(await fixture.cohortIdsOf(bob.id)).toEqual([cohort.id]);
    });

    test("[CO-2] members come and go without a change of definitions", async () => {
      const projectId = await fixture.newProject();
      const ann = await fixture.newPerson(projectId, ["ann"]);
      const bob = await fixture.newPerson(projectId, ["bob"]);
      const { cohort } = await create(projectId, staticCohort);
      const { revision } = await fixture.flagStore.definitions(projectId);
      const both = { uuids: [bob.uuid], distinctIds: ["ann", "stranger"] };
      expect(await store.addMembers(projectId, cohort.id, both, later)).toEqual({
        changed: 2,
        unknown: { uuids: [], distinctIds: ["stranger"] },
      });
      expect(await store.addMembers(projectId, cohort.id, both, later)).toMatchObject({
        changed: 0,
      });
      expect(await store.cohort(projectId, cohort.id)).toMatchObject({
        memberCount: 2,
        membersChangedAt: later,
      });
      const onlyAnn = { uuids: [ann.uuid], distinctIds: [] };
      expect(await store.removeMembers(projectId, cohort.id, onlyAnn, later)).toMatchObject({
        changed: 1,
      });
      expect(await store.removeMembers(projectId, cohort.id, onlyAnn, later)).toMatchObject({
        changed: 0,
      });
      expect(await fixture.cohortIdsOf(ann.id)).toEqual([]);
      expect(await fixture.cohortIdsOf(bob.id)).toEqual([cohort.id]);
      expect((await fixture.flagStore.definitions(projectId)).revision).toBe(revision);
    });

    test("[CO-10] a person added while becoming part of another is a member as that other", async () => {
      const projectId = await fixture.newProject();
      const { cohort: existing } = await create(projectId, staticCohort);
      for (let round = 0; round < 10; round++) {
        const anonymous = `anonymous-${round}`;
        const named = { uuids: [], distinctIds: [anonymous] };
        await fixture.newPerson(projectId, [anonymous]);
        const survivor = await fixture.newPerson(projectId, [`known-${round}`]);
        const [{ cohort: fresh }] = await Promise.all([
          create(projectId, staticCohort, named),
          store.addMembers(projectId, existing.id, named, later),
          fixture.mergePersons(projectId, anonymous, `known-${round}`),
        ]);
        expect(await fixture.cohortIdsOf(survivor.id)).toEqual([existing.id, fresh.id]);
      }
    });

    test("persons of another project are unknown", async () => {
      const projectId = await fixture.newProject();
      const stranger = await fixture.newPerson(await fixture.newProject(), ["stranger"]);
      const named = { uuids: [stranger.uuid], distinctIds: ["stranger"] };
      const { cohort, unknown } = await create(projectId, staticCohort, named);
      expect(unknown).toEqual(named);
      expect(cohort.memberCount).toBe(0);
    });

    test("dynamic and deleted cohorts take no members", async () => {
      const projectId = await fixture.newProject();
      await fixture.newPerson(projectId, ["ann"]);
      const ann = { uuids: [], distinctIds: ["ann"] };
      const { cohort: dynamic } = await create(projectId);
      const { cohort: deleted } = await create(projectId, staticCohort);
      await update(deleted, { deleted: true });
      for (const { id } of [dynamic, deleted]) {
        expect(await store.addMembers(projectId, id, ann, now)).toBeUndefined();
        expect(await store.removeMembers(projectId, id, ann, now)).toBeUndefined();
      }
    });

    test("more members than one statement can carry are all added", async () => {
      const projectId = await fixture.newProject();
      const persons = await Promise.all(
        Array.from({ length: 1203 }, (_, n) => fixture.newPerson(projectId, [`many-${n}`])),
      );
      const { cohort } = await create(projectId, staticCohort, {
        uuids: persons.slice(0, 600).map(({ uuid }) => uuid),
        distinctIds: persons.map((_, n) => `many-${n}`),
      });
      expect(cohort.memberCount).toBe(1203);
    });
  });
}

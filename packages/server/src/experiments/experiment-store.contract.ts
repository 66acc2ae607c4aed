import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { someFlag } from "../flags/flag-store.contract.ts";
import type { FlagStore } from "../flags/flag-store.ts";
import { NEW_EXPERIMENT } from "./experiment-fields.ts";
import type {
  ExperimentFields,
  ExperimentListQuery,
  ExperimentRecord,
  ExperimentStore,
} from "./experiment-store.ts";

/** A store over a fresh database, and what it shares with flags. */
export interface ExperimentStoreFixture {
  readonly store: ExperimentStore;
  readonly flagStore: Pick<FlagStore, "create" | "definitions" | "revisions">;
  newProject(): Promise<number>;
  newUser(): Promise<number>;
  close(): Promise<void>;
}

const now = new Date("2026-03-01T10:00:00.123Z");
const later = new Date("2026-03-02T11:30:00.000Z");
const everything: ExperimentListQuery = {
  stage: null,
  archived: null,
  search: null,
  createdById: null,
  flagId: null,
  order: { by: "createdAt", descending: true },
  limit: 100,
  offset: 0,
};

const LINK = { savedMetricId: 3, metadata: { type: "primary" }, addedAt: now.toISOString() };

/** What every {@link ExperimentStore} must do. */
export function experimentStoreContract(open: () => Promise<ExperimentStoreFixture>): void {
  let fixture: ExperimentStoreFixture;
  let store: ExperimentStore;
  beforeAll(async () => {
    fixture = await open();
    store = fixture.store;
  });
  afterAll(() => fixture.close());

  const newFlag = async (projectId: number, key = "f"): Promise<number> => {
    const flag = await fixture.flagStore.create(
      projectId,
      someFlag({ key, filters: { groups: [] }, createdAt: now, creationContext: "experiments" }),
      {
        authorId: null,
        now,
        ifRevision: (await fixture.flagStore.revisions([projectId])).get(projectId) ?? 0,
      },
    );
    if (typeof flag === "string") throw new Error(flag);
    return flag.id;
  };
  const fieldsOf = (flagId: number, fields: Partial<ExperimentFields> = {}): ExperimentFields => ({
    ...NEW_EXPERIMENT,
    name: "Button",
    flagId,
    ...fields,
  });
  const create = async (
    projectId: number,
    fields: Partial<ExperimentFields> = {},
    at = now,
  ): Promise<ExperimentRecord> =>
    store.create(
      projectId,
      fieldsOf(fields.flagId ?? (await newFlag(projectId, fields.name ?? "f")), fields),
      { authorId: null, now: at },
    );
  const hasExperiment = async (projectId: number): Promise<boolean | undefined> =>
    (await fixture.flagStore.definitions(projectId)).flags[0]?.hasExperiment;

  describe("writing experiments", () => {
    test("an experiment reads back as it was written, large integers and key order included", async () => {
      const projectId = await fixture.newProject();
      const authorId = await fixture.newUser();
      const flagId = await newFlag(projectId);
      const fields = fieldsOf(flagId, {
        name: "Ünï",
        description: "d",
        startDate: now,
        endDate: later,
        parameters: { z: 1, a: 12345678901234567890n, feature_flag_variants: [] },
        filters: null,
        secondaryMetrics: null,
        metrics: [{ kind: "ExperimentMetric" }],
        exposureCriteria: { filterTestAccounts: true },
        primaryOrder: ["b", "a"],
        conclusion: "won",
        conclusionComment: "because",
        archived: true,
      });
      const created = await store.create(projectId, fields, { authorId, now });
      expect(created).toEqual({
        ...fields,
        id: expect.any(Number),
        projectId,
        createdAt: now,
        updatedAt: now,
        createdById: authorId,
      });
      expect(await store.experiment(projectId, created.id)).toEqual(created);
      expect(Object.keys(created.parameters ?? {})).toEqual(["z", "a", "feature_flag_variants"]);
    });

    test("a change is decided on what is stored, and what is thrown changes nothing", async () => {
      const projectId = await fixture.newProject();
      const { id } = await create(projectId);
      const changed = await store.update(
        projectId,
        id,
        ({ name }) => ({ name: `${name}!`, startDate: later }),
        { authorId: null, now: later },
      );
      expect(changed).toMatchObject({
        name: "Button!",
        startDate: later,
        updatedAt: later,
        createdAt: now,
      });
      await expect(
        store.update(
          projectId,
          id,
          () => {
            throw new Error("no");
          },
          { authorId: null, now: later },
        ),
      ).rejects.toThrow("no");
      expect(await store.experiment(projectId, id)).toEqual(changed);
    });

    test("the flag knows whether an experiment that is not deleted uses it, from a new revision on", async () => {
      const projectId = await fixture.newProject();
      const flagId = await newFlag(projectId);
      const before = (await fixture.flagStore.definitions(projectId)).revision;
      const first = await create(projectId, { flagId });
      const second = await create(projectId, { flagId });
      expect(await hasExperiment(projectId)).toBe(true);
      expect((await fixture.flagStore.definitions(projectId)).revision).toBeGreaterThan(before);
      const remove = (id: number) =>
        store.update(projectId, id, () => ({ deleted: true }), { authorId: null, now });
      await remove(first.id);
      expect(await hasExperiment(projectId)).toBe(true);
      await remove(second.id);
      expect(await hasExperiment(projectId)).toBe(false);
    });

    test("a deleted experiment is not found, changed or listed", async () => {
      const projectId = await fixture.newProject();
      const { id, flagId } = await create(projectId);
      await store.update(projectId, id, () => ({ deleted: true }), { authorId: null, now });
      expect(await store.experiment(projectId, id)).toBeUndefined();
      expect(
        await store.update(projectId, id, () => ({ name: "x" }), { authorId: null, now }),
      ).toBeUndefined();
      expect((await store.list(projectId, everything)).count).toBe(0);
      expect(await store.idsOfFlags(projectId, [flagId])).toEqual(new Map());
    });

    test("another project's experiment is unknown", async () => {
      const projectId = await fixture.newProject();
      const other = await fixture.newProject();
      const { id, flagId } = await create(projectId);
      expect(await store.experiment(other, id)).toBeUndefined();
      expect(
        await store.update(other, id, () => ({ name: "x" }), { authorId: null, now }),
      ).toBeUndefined();
      expect((await store.list(other, everything)).experiments).toEqual([]);
      expect(await store.idsOfFlags(other, [flagId])).toEqual(new Map());
      expect(await store.idsOfFlags(projectId, [flagId])).toEqual(new Map([[flagId, [id]]]));
    });
  });

  describe("listing experiments", () => {
    test("filters by stage, archive, author, flag and part of the name, and pages", async () => {
      const projectId = await fixture.newProject();
      await create(projectId, { name: "Draft_1" });
      const running = await create(projectId, { name: "Running", startDate: now });
      await create(projectId, {
        name: "Ended",
        startDate: now,
        endDate: later,
        archived: true,
      });
      const names = async (query: Partial<ExperimentListQuery>) => {
        const { count, experiments } = await store.list(projectId, { ...everything, ...query });
        expect(count).toBeGreaterThanOrEqual(experiments.length);
        return experiments.map(({ name }) => name);
      };
      expect(await names({})).toEqual(["Ended", "Running", "Draft_1"]);
      expect(await names({ stage: "draft" })).toEqual(["Draft_1"]);
      expect(await names({ stage: "launched" })).toEqual(["Running"]);
      expect(await names({ stage: "ended" })).toEqual(["Ended"]);
      expect(await names({ archived: false })).toEqual(["Running", "Draft_1"]);
      expect(await names({ search: "T_1" })).toEqual(["Draft_1"]);
      expect(await names({ search: "%" })).toEqual([]);
      expect(await names({ flagId: running.flagId })).toEqual(["Running"]);
      expect(await names({ createdById: 1_000_000 })).toEqual([]);
      expect(await names({ limit: 1, offset: 1 })).toEqual(["Running"]);
      expect(await names({ stage: "running" })).toEqual(["Running"]);
      expect(await names({ stage: "paused" })).toEqual([]);
      await create(projectId, { name: "Held", holdoutId: 7, savedMetrics: [LINK] });
      expect(await names({ holdoutId: 7 })).toEqual(["Held"]);
      expect(await names({ holdoutId: 8 })).toEqual([]);
    });

    test("orders by any column, what is unknown last", async () => {
      const projectId = await fixture.newProject();
      await create(projectId, { name: "b", startDate: later }, now);
      await create(projectId, { name: "a" }, later);
      await create(projectId, { name: "c", startDate: now, endDate: later }, later);
      const names = async (by: ExperimentListQuery["order"]["by"], descending: boolean) =>
        (await store.list(projectId, { ...everything, order: { by, descending } })).experiments
          .map(({ name }) => name)
          .join("");
      expect(await names("name", false)).toBe("abc");
      expect(await names("name", true)).toBe("cba");
      expect(await names("createdAt", false)).toBe("bca");
      expect(await names("startDate", false)).toBe("cba");
      expect(await names("startDate", true)).toBe("bca");
      expect(await names("duration", true)).toBe("cab");
      expect(await names("endDate", false)).toBe("cab");
      expect(await names("updatedAt", true)).toBe("cab");
    });
  });
}

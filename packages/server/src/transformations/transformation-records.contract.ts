import { v7 } from "uuid";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import {
  type ConfigRef,
  EVENT_JOBS,
  type HourTally,
  MAX_LOG_LINES,
  MAX_OWN_METRICS,
  type TransformationEffects,
  type TransformationJobs,
  type TransformationLogEntry,
  type TransformationRecords,
  type TransformationStorage,
  WEBHOOK_JOB,
} from "./transformation-records.ts";

export interface TransformationRecordsFixture {
  readonly records: TransformationRecords;
  readonly storage: TransformationStorage;
  readonly jobs: TransformationJobs;
  readonly effects: TransformationEffects;
  enableConfig(config: ConfigRef, isEnabled: boolean): Promise<void>;
  /** Jobs that it keeps of one config. */
  readonly maxJobs: number;
  readonly maxWebhooks: number;
  /** A config in a project of its own. */
  newConfig(): Promise<ConfigRef>;
  removeConfig(config: ConfigRef): Promise<void>;
  close(): Promise<void>;
}

const at = (time: string) => new Date(`2026-03-01T${time}Z`);

const tally = (config: ConfigRef, changes: Partial<HourTally> = {}): HourTally => ({
  ...config,
  hour: at("10:00:00"),
  counts: { eventsIn: 10, eventsOut: 5, dropped: 5, failed: 0 },
  durations: { "3": 10 },
  ownMetrics: {},
  ...changes,
});

/** What every store of records, storage and jobs keeps to. */
export function describeTransformationRecords(open: () => Promise<TransformationRecordsFixture>) {
  let fixture: TransformationRecordsFixture;
  beforeAll(async () => {
    fixture = await open();
  });
  afterAll(() => fixture.close());

  describe("counts", () => {
    test("[TP-8] add up by config and hour", async () => {
      const { records } = fixture;
      const [one, other] = [await fixture.newConfig(), await fixture.newConfig()];
      await records.addTallies([tally(one), tally(other, { hour: at("11:00:00") })]);
      await records.addTallies([
        tally(one, {
          counts: { eventsIn: 3, eventsOut: 3, dropped: 0, failed: 2 },
          durations: { "3": 1, "8": 2 },
        }),
        tally(one, { hour: at("09:00:00") }),
      ]);
      expect(await records.hours(one)).toEqual([
        tally(one, { hour: at("09:00:00") }),
        tally(one, {
          counts: { eventsIn: 13, eventsOut: 8, dropped: 5, failed: 2 },
          durations: { "3": 11, "8": 2 },
        }),
      ]);
      expect(await records.hours({ ...other, from: at("11:00:00") })).toHaveLength(1);
      expect(await records.hours({ ...other, before: at("11:00:00") })).toEqual([]);
      expect(await records.hours({ ...one, projectId: other.projectId })).toEqual([]);
    });

    test("[TP-8] add up also where several add to the same hours at once", async () => {
      const { records, effects } = fixture;
      const configs = [await fixture.newConfig(), await fixture.newConfig()];
      const after = await effects.position();
      const both = configs.map((config) => tally(config));
      await Promise.all([
        ...Array.from({ length: 10 }, (_, n) =>
          records.addTallies(n % 2 === 0 ? both : both.toReversed()),
        ),
        effects.take({ after, upTo: after + 1 }, { values: [], jobs: [], tallies: both }),
      ]);
      for (const config of configs) {
        expect(await records.hours(config)).toMatchObject([
          { counts: { eventsIn: 110 }, durations: { "3": 110 } },
        ]);
      }
    });

    test("join numbers that transformations count themselves", async () => {
      const { records } = fixture;
      const config = await fixture.newConfig();
      const own = (sum: number, max: number, min: number) =>
        tally(config, {
          ownMetrics: {
            sum: { kind: "sum", value: sum },
            ["__proto__"]: { kind: "max", value: max },
            min: { kind: "min", value: min },
          },
        });
      await records.addTallies([own(1, 5, 5)]);
      await records.addTallies([own(2, 3, 7)]);
      // No sum is larger than what can be told.
      const large = { ownMetrics: { sum: { kind: "sum", value: Number.MAX_VALUE } } } as const;
      const other = await fixture.newConfig();
      await records.addTallies([tally(other, large)]);
      await records.addTallies([tally(other, large)]);
      expect(await records.hours(other)).toMatchObject([large]);
      const [hour] = await records.hours(config);
      expect(Object.entries(hour?.ownMetrics ?? {})).toEqual([
        ["sum", { kind: "sum", value: 3 }],
        ["__proto__", { kind: "max", value: 5 }],
        ["min", { kind: "min", value: 5 }],
      ]);
    });

    test("[TP-81] keep a number of names that transformations count by", async () => {
      const { records } = fixture;
      const config = await fixture.newConfig();
      const named = (from: number, count: number) =>
        tally(config, {
          ownMetrics: Object.fromEntries(
            Array.from({ length: count }, (_, n) => [`n${from + n}`, { kind: "sum", value: 1 }]),
          ),
        });
      await records.addTallies([named(0, MAX_OWN_METRICS - 1)]);
      await records.addTallies([named(0, MAX_OWN_METRICS + 10)]);
      const [hour] = await records.hours(config);
      const names = Object.keys(hour?.ownMetrics ?? {});
      expect(names).toHaveLength(MAX_OWN_METRICS);
      expect(hour?.ownMetrics).toMatchObject({
        n0: { value: 2 },
        [`n${MAX_OWN_METRICS - 1}`]: { value: 1 },
      });
    });

    test("of configs that are gone are left out, and others taken", async () => {
      const { records } = fixture;
      const [gone, there] = [await fixture.newConfig(), await fixture.newConfig()];
      await fixture.removeConfig(gone);
      await records.addTallies([tally(gone), tally(there)]);
      expect(await records.hours(gone)).toEqual([]);
      expect(await records.hours(there)).toHaveLength(1);
    });
  });

  describe("lines of logs", () => {
    const line = (
      config: ConfigRef,
      message: string,
      changes: Partial<TransformationLogEntry> = {},
    ): TransformationLogEntry => ({
      ...config,
      id: v7(),
      transformationId: 4,
      at: at("10:00:00"),
      source: "CONSOLE",
      type: "LOG",
      message,
      instanceId: "01900000-0000-7000-8000-000000000000",
      ...changes,
    });
    const page = { limit: 10, offset: 0 };

    test("[TP-10] are told newest first, by text, type and time", async () => {
      const { records } = fixture;
      const [config, other] = [await fixture.newConfig(), await fixture.newConfig()];
      const lines = [
        line(config, "First 100%", { at: at("09:00:00") }),
        line(config, "second", { type: "ERROR", source: "SYSTEM" }),
        line(config, "third", { at: at("11:00:00") }),
      ];
      await records.addLogs([...lines, line(other, "other")]);
      const [first, second, third] = lines;
      expect(await records.logs({ ...config, ...page })).toEqual({
        count: 3,
        entries: [third, second, first],
      });
      const found = async (query: object) =>
        (await records.logs({ ...config, ...page, ...query })).entries.map(({ id }) => id);
      expect(await found({ search: "fIRST" })).toEqual([first?.id]);
      expect(await found({ search: "0%" })).toEqual([first?.id]);
      expect(await found({ search: "_" })).toEqual([]);
      expect(await found({ types: ["ERROR", "WARN"] })).toEqual([second?.id]);
      expect(await found({ types: [] })).toEqual([]);
      expect(await found({ after: at("09:00:00") })).toEqual([third?.id, second?.id]);
      expect(await found({ before: at("11:00:00") })).toEqual([second?.id, first?.id]);
      expect(await found({ limit: 1, offset: 1 })).toEqual([second?.id]);
      expect(await found({ projectId: other.projectId })).toEqual([]);
    });

    test("[TP-11] are kept up to a number for each config, the newest", async () => {
      const { records } = fixture;
      const [config, other] = [await fixture.newConfig(), await fixture.newConfig()];
      await records.addLogs([line(other, "stays")]);
      const many = Array.from({ length: MAX_LOG_LINES + 5 }, (_, n) => line(config, `line ${n}`));
      await records.addLogs(many);
      await records.addLogs([line(config, "last")]);
      const { count, entries } = await records.logs({ ...config, ...page });
      expect(count).toBe(MAX_LOG_LINES);
      expect(entries[0]?.message).toBe("last");
      expect((await records.logs({ ...other, ...page })).count).toBe(1);
    });

    test("and hours are forgotten when they are old, and with their config", async () => {
      const { records } = fixture;
      const config = await fixture.newConfig();
      await records.addLogs([line(config, "old", { at: at("08:00:00") }), line(config, "new")]);
      await records.prune(at("09:00:00"));
      const kept = await records.logs({ ...config, ...page });
      expect(kept.entries.map(({ message }) => message)).toEqual(["new"]);
      await fixture.removeConfig(config);
      await records.addLogs([line(config, "too late")]);
      expect((await records.logs({ ...config, ...page })).count).toBe(0);
    });
  });

  describe("storage", () => {
    test("[TP-12] keeps values by config and key until they are given up", async () => {
      const { storage } = fixture;
      const [config, other] = [await fixture.newConfig(), await fixture.newConfig()];
      const usages = await storage.write([
        { ...config, key: "a", value: { b: [1, null] } },
        { ...config, key: "a", value: { b: [2, null] } },
        { ...config, key: "__proto__", value: null },
        { ...other, key: "a", value: "other" },
      ]);
      expect(await storage.get(config, "a")).toEqual({ b: [2, null] });
      expect(await storage.get(config, "__proto__")).toBeNull();
      expect(await storage.get(other, "a")).toBe("other");
      expect(await storage.get(other, "b")).toBeUndefined();
      expect(usages).toContainEqual({ ...config, keys: 2, chars: 28 });
      expect(await storage.usage(config)).toEqual({ ...config, keys: 2, chars: 28 });
      await storage.write([{ ...config, key: "a", value: undefined }]);
      expect(await storage.get(config, "a")).toBeUndefined();
      await fixture.removeConfig(config);
      expect(await storage.write([{ ...config, key: "a", value: 1 }])).toEqual([]);
      expect(await storage.usage(config)).toEqual({ ...config, keys: 0, chars: 0 });
    });
  });

  describe("jobs", () => {
    test("[TP-13] stay until they are finished, and are told when they are due", async () => {
      const { jobs } = fixture;
      const config = await fixture.newConfig();
      await jobs.add({ ...config, name: "later", payload: null, hops: 0, runAt: at("11:00:00") });
      await jobs.add({
        ...config,
        name: "soon",
        payload: { a: [1] },
        hops: 2,
        runAt: at("10:00:00"),
      });
      const [soon, ...more] = await jobs.due(at("10:30:00"), 10);
      expect(soon).toMatchObject({
        ...config,
        name: "soon",
        payload: { a: [1] },
        hops: 2,
        attempts: 0,
      });
      expect(more).toEqual([]);
      await jobs.postpone(soon?.id ?? 0, at("10:35:00"), 0);
      expect(await jobs.due(at("10:35:00"), 10)).toMatchObject([{ name: "soon", attempts: 0 }]);
      await jobs.postpone(soon?.id ?? 0, at("10:40:00"), 1);
      expect(await jobs.due(at("10:30:00"), 10)).toEqual([]);
      expect(await jobs.due(at("11:00:00"), 10)).toMatchObject([
        { name: "soon", attempts: 1 },
        { name: "later", attempts: 0 },
      ]);
      expect(await jobs.due(at("11:00:00"), 1)).toHaveLength(1);
      await jobs.finish(soon?.id ?? 0);
      expect(await jobs.due(at("11:00:00"), 10)).toMatchObject([{ name: "later" }]);
      await fixture.removeConfig(config);
      expect(await jobs.due(at("11:00:00"), 10)).toEqual([]);
      const job = { ...config, name: "a", payload: null, hops: 0, runAt: at("10:00:00") };
      expect(await jobs.add(job)).toBe("gone");
    });

    test("[TP-13] of one config do not come before the first ones of others", async () => {
      const { jobs } = fixture;
      const [config, other] = [await fixture.newConfig(), await fixture.newConfig()];
      const job = { name: "a", payload: null, hops: 0 };
      for (const minute of ["01", "02", "03"]) {
        await jobs.add({ ...config, ...job, runAt: at(`10:${minute}:00`) });
      }
      await jobs.add({ ...other, ...job, runAt: at("10:30:00") });
      const dueOf = async (ofEach: number, except?: ReadonlySet<number>) => {
        const due = await jobs.due(at("11:00:00"), ofEach, except);
        return due
          .filter(({ configId }) => [config.configId, other.configId].includes(configId))
          .map(({ configId, runAt }) => [configId, runAt.getUTCMinutes()]);
      };
      expect(await dueOf(2)).toEqual([
        ...[1, 2].map((minute) => [config.configId, minute]),
        [other.configId, 30],
      ]);
      expect(await dueOf(9, new Set([config.configId]))).toEqual([[other.configId, 30]]);
    });

    test("[TP-13] of a config that is not enabled are not due", async () => {
      const { jobs } = fixture;
      const config = await fixture.newConfig();
      await jobs.add({ ...config, name: "a", payload: null, hops: 0, runAt: at("10:00:00") });
      await fixture.enableConfig(config, false);
      expect(await jobs.due(at("11:00:00"), 10)).not.toContainEqual(
        expect.objectContaining(config),
      );
      await fixture.enableConfig(config, true);
      expect(await jobs.due(at("11:00:00"), 10)).toContainEqual(expect.objectContaining(config));
      await fixture.removeConfig(config);
    });

    test("[TP-14] are bounded in number for each config", async () => {
      const { jobs } = fixture;
      const [config, other] = [await fixture.newConfig(), await fixture.newConfig()];
      const job = { name: "a", payload: null, hops: 0, runAt: at("10:00:00") };
      for (let count = 0; count < fixture.maxJobs; count++) await jobs.add({ ...config, ...job });
      expect(await jobs.add({ ...config, ...job })).toBe("full");
      expect(await jobs.add({ ...other, ...job })).toBe("added");
      const webhook = { ...config, ...job, name: WEBHOOK_JOB };
      for (let count = 0; count < fixture.maxWebhooks; count++) {
        expect(await jobs.add(webhook)).toBe("added");
      }
      expect(await jobs.add(webhook)).toBe("full");
      expect(await jobs.add({ ...webhook, name: EVENT_JOBS.onEvent })).toBe("full");
    });

    test("[TP-15] of a schedule are claimed once for each period", async () => {
      const { jobs } = fixture;
      const [config, other] = [await fixture.newConfig(), await fixture.newConfig()];
      const claim = (time: string) => jobs.claimPeriod(config, "runEveryHour", at(time));
      expect(await claim("10:00:00")).toBe(true);
      expect(await claim("10:00:00")).toBe(false);
      expect(await claim("11:00:00")).toBe(true);
      expect(await claim("10:00:00")).toBe(false);
      expect(await jobs.claimPeriod(config, "runEveryDay", at("00:00:00"))).toBe(true);
      expect(await jobs.claimPeriod(other, "runEveryHour", at("11:00:00"))).toBe(true);
      await fixture.removeConfig(config);
      expect(await claim("12:00:00")).toBe(false);
    });
  });

  describe("effects of events", () => {
    test("[TP-54] [TP-66] are taken once, all together with the position up to which they reach", async () => {
      const { effects, storage, jobs } = fixture;
      const [config, gone] = [await fixture.newConfig(), await fixture.newConfig()];
      await fixture.removeConfig(gone);
      const before = await effects.position();
      const span = { after: before, upTo: before + 7 };
      const job = { ...config, name: "a", payload: { a: [1n] }, hops: 1, runAt: at("10:00:00") };
      const given = {
        values: [
          { ...config, key: "n", value: 1 },
          { ...gone, key: "n", value: 1 },
          { ...config, key: "n", value: 2 },
          { ...config, key: "given up", value: 1 },
          { ...config, key: "given up", value: undefined },
        ],
        jobs: [job, { ...job, ...gone }, { ...job, name: "b" }],
        tallies: [tally(config), tally(gone), tally(config)],
      };
      expect(await effects.take(span, given)).toEqual({
        usages: [{ ...config, keys: 1, chars: 2 }],
        refused: [],
      });
      const look = async () => ({
        position: await effects.position(),
        n: await storage.get(config, "n"),
        givenUp: await storage.get(config, "given up"),
        jobs: (await jobs.due(at("11:00:00"), 100))
          .filter(({ configId }) => configId === config.configId)
          .map(({ name, payload, hops, attempts }) => [name, payload, hops, attempts]),
        counted: await fixture.records.hours(config),
      });
      const taken = {
        position: before + 7,
        n: 2,
        givenUp: undefined,
        jobs: [
          ["a", { a: [1] }, 1, 0],
          ["b", { a: [1] }, 1, 0],
        ],
        counted: [
          tally(config, {
            counts: { eventsIn: 20, eventsOut: 10, dropped: 10, failed: 0 },
            durations: { "3": 20 },
          }),
        ],
      };
      expect(await look()).toEqual(taken);
      // Whoever did not hear of it tries again.
      expect(await effects.take(span, given)).toBe("moved");
      expect(await effects.take({ after: before + 8, upTo: before + 9 }, given)).toBe("moved");
      expect(await look()).toEqual(taken);
      const next = { values: [{ ...config, key: "n", value: 3 }], jobs: [], tallies: [] };
      await effects.take({ after: before + 7, upTo: before + 8 }, next);
      expect(await look()).toEqual({ ...taken, position: before + 8, n: 3 });
      await fixture.removeConfig(config);
    });

    test("[TP-14] leave out jobs that are too many, and tell them", async () => {
      const { effects, jobs } = fixture;
      const config = await fixture.newConfig();
      const job = (name: string) => ({
        ...config,
        name,
        payload: null,
        hops: 0,
        runAt: at("10:00:00"),
      });
      for (let count = 2; count < fixture.maxJobs; count++) await jobs.add(job("a"));
      const after = await effects.position();
      const asked = ["b", "c", "d", WEBHOOK_JOB].map(job);
      const values = [{ ...config, key: "a", value: 1 }];
      const taken = await effects.take(
        { after, upTo: after + 1 },
        { values, jobs: asked, tallies: [] },
      );
      expect(taken).toMatchObject({ refused: [{ name: "d" }] });
      expect(await jobs.add(job("e"))).toBe("full");
      const due = await jobs.due(at("11:00:00"), 1_000);
      const names = due
        .filter(({ configId }) => configId === config.configId)
        .map((one) => one.name);
      expect(names.filter((name) => name !== "a").toSorted()).toEqual([WEBHOOK_JOB, "b", "c"]);
      await fixture.removeConfig(config);
    });

    test("[TP-54] [TP-66] are not taken at all where one of them fails", async () => {
      const { effects, storage, records } = fixture;
      const config = await fixture.newConfig();
      const after = await effects.position();
      const jobs = [{ ...config, name: "a", payload: null, hops: 0, runAt: new Date(Number.NaN) }];
      const values = [{ ...config, key: "a", value: 1 }];
      const some = { values, jobs, tallies: [tally(config)] };
      await expect(effects.take({ after, upTo: after + 1 }, some)).rejects.toThrow();
      expect(await effects.position()).toBe(after);
      expect(await storage.get(config, "a")).toBeUndefined();
      expect(await records.hours(config)).toEqual([]);
    });
  });
}

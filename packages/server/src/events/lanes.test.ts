import { join } from "node:path";
import type { CapturedEvent } from "@hedgerow/core/events/event";
import Database from "libsql";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { withResolvers } from "../platform/with-resolvers.ts";
import { sampleEvent } from "./event-log.contract.ts";
import type { EventLog } from "./event-log.ts";
import { startLanes } from "./lanes.ts";
import { type Around, temporaryPipeline } from "./pipeline.setup.ts";
import { findReceipt } from "./receipts.ts";
import { eventStep, type Step } from "./steps/step.ts";

/** A step that waits for nothing, but for the events of which a test says so. */
function holdingStep(isHeld: (event: CapturedEvent) => boolean) {
  const { promise: released, resolve: release } = withResolvers();
  const { promise: reached, resolve: reach } = withResolvers();
  const step = eventStep({
    name: "hold",
    run: ({ event }) => {
      const changed = { ...event, properties: { ...event.properties, passed: true } };
      if (!isHeld(event)) return { kind: "keep", event: changed };
      reach();
      return released.then(() => ({ kind: "keep" as const, event: changed }));
    },
  });
  return { step, reached, release };
}

describe("lanes", () => {
  let pipeline: ReturnType<typeof temporaryPipeline>;
  beforeEach(() => {
    pipeline = temporaryPipeline();
  });
  afterEach(() => pipeline.remove());

  type Run = Awaited<ReturnType<typeof pipeline.start>>;
  async function stored(run: Run, projectId: number) {
    const all: { name: string; passed: unknown }[] = [];
    for (let isMore = true; isMore; ) {
      const query = { projectId, limit: 1000, offset: all.length, order: "oldest-first" } as const;
      const page = await run.events.events(query);
      for (const { event, properties } of page.events) {
        all.push({ name: event, passed: properties.passed ?? false });
      }
      isMore = page.hasMore;
    }
    return all;
  }
  const named = (projectId: number, names: readonly string[]) =>
    names.map((event) => sampleEvent({ projectId, event, timestamp: new Date(0) }));
  const names = (prefix: string, count: number) =>
    Array.from({ length: count }, (_, index) => `${prefix}${index}`);

  it("[PI-72] takes events through a lane once though its step cannot be told of them", async () => {
    const { log, newProject } = await pipeline.openStores();
    const projectId = await newProject();
    const events = named(projectId, names("a", 30));
    await log.lanes.append(projectId, events);
    let runs = 0;
    let told = 0;
    const step: Step = {
      name: "deaf",
      run: (entries, { whenDurable }) => {
        runs++;
        whenDurable(() => {
          throw new Error("deaf");
        });
        whenDurable(() => told++);
        return entries.map(({ event }) => ({ kind: "keep", event }));
      },
    };
    const logged: string[] = [];
    const running = startLanes({
      log,
      geoIp: { lookup: () => ({}) },
      steps: [step],
      pendingPersons: { addToLane() {}, catchUpLaneTo() {}, passed() {} },
      logger: { error: (_fields, message) => logged.push(message) },
    });
    expect(await log.lanes.passed(projectId, 60_000)).toBe(true);
    await running.close();
    expect(runs).toBeGreaterThan(1);
    expect(told).toBe(runs);
    expect(logged).toEqual(Array(runs).fill("somebody could not be told of what passed a lane"));
    const { entries } = await log.read(0, 100, AbortSignal.any([]));
    expect(entries.map(({ event }) => event.uuid)).toEqual(events.map(({ uuid }) => uuid));
  });

  it("[PI-82] lets no project wait for the steps of another", async () => {
    let slow = 0;
    const { step, reached, release } = holdingStep(({ projectId }) => projectId === slow);
    let plain = 0;
    const run = await pipeline.start({
      steps: [step],
      isAtWork: (projectId) => projectId !== plain,
    });
    slow = await run.newProject();
    const other = await run.newProject();
    plain = await run.newProject();
    await run.append(named(slow, ["a"]));
    await reached;
    await run.append(named(other, ["b"]));
    await run.append(named(plain, ["c"]));
    await run.log.lanes.passed(other, 60_000);
    await run.events.reached(await run.log.end(), 60_000);
    expect(await stored(run, other)).toEqual([{ name: "b", passed: true }]);
    expect(await stored(run, plain)).toEqual([{ name: "c", passed: false }]);
    expect(await stored(run, slow)).toEqual([]);
    expect(run.log.lanes.waiting()).toEqual(new Map([[slow, 1]]));
    release();
    await run.settle();
    expect(await stored(run, slow)).toEqual([{ name: "a", passed: true }]);
  });

  it("[PI-83] keeps the order of a project whose steps end while events wait for them", async () => {
    const { step, reached, release } = holdingStep(({ event }) => event === "a0");
    let isAtWork = true;
    const run = await pipeline.start({ steps: [step], isAtWork: () => isAtWork });
    const projectId = await run.newProject();
    await run.append(named(projectId, names("a", 50)));
    await reached;
    isAtWork = false;
    await run.append(named(projectId, names("b", 50)));
    expect(run.log.lanes.waiting().get(projectId)).toBe(100);
    release();
    await run.settle();
    await run.append(named(projectId, names("c", 5)));
    await run.settle();
    const all = await stored(run, projectId);
    expect(all.map(({ name }) => name)).toEqual([
      ...names("a", 50),
      ...names("b", 50),
      ...names("c", 5),
    ]);
    expect(all.at(-1)).toEqual({ name: "c4", passed: false });
  });

  it("[PI-84] gives no event to a step again for being read again by the store", async () => {
    const seen = new Set<string>();
    const onlyOnce: Step = {
      name: "only once",
      run: (entries) =>
        entries.map(({ event }) => {
          if (seen.has(event.uuid)) return { kind: "drop", reason: "seen before" };
          seen.add(event.uuid);
          return { kind: "keep", event };
        }),
    };
    const { promise: opened, resolve: open } = withResolvers();
    const run = await pipeline.start({
      steps: [onlyOnce],
      events: (real) => ({
        ...real,
        insert: async (batch) => {
          await opened;
          return real.insert(batch);
        },
      }),
    });
    const projectId = await run.newProject();
    // More than wait for the store in memory.
    for (let n = 0; n < 25; n++) await run.append(named(projectId, names(`${n}-`, 1000)));
    await run.log.lanes.passed(projectId, 60_000);
    await run.pendingPersons.caughtUp(await run.log.end());
    open();
    await run.settle();
    expect(await run.events.count({ projectId })).toBe(25_000);
    expect(run.counts.dropped).toBe(0);
  });

  it("[PI-84] goes on after a restart with what had not passed, and doubles nothing", async () => {
    const { step, reached } = holdingStep(({ event }) => event === "a30");
    const first = await pipeline.start({ steps: [step] });
    const projectId = await first.newProject();
    for (const event of named(projectId, names("a", 60))) await first.append([event]);
    await reached;
    // As a process that dies: what is under way comes to nothing.
    await pipeline.closeStores();
    const second = await pipeline.start({ steps: [holdingStep(() => false).step] });
    await second.append(named(projectId, ["b"]));
    await second.settle();
    expect(await stored(second, projectId)).toEqual(
      [...names("a", 60), "b"].map((name) => ({ name, passed: true })),
    );
  });

  it("[PI-87] begins the next run while one is in the steps, and passes them on in their order", async () => {
    const { step, reached, release } = holdingStep(({ event }) => event === "a0");
    const begun: string[][] = [];
    const watch: Step = {
      name: "watch",
      run: (entries) => {
        begun.push(entries.map(({ event }) => event.event));
        return entries.map(({ event }) => ({ kind: "keep", event }));
      },
    };
    const run = await pipeline.start({ steps: [watch, step] });
    const projectId = await run.newProject();
    await run.append(named(projectId, ["a0"]));
    await reached;
    await run.append(named(projectId, names("b", 3)));
    await run.append(named(projectId, names("c", 3)));
    while (begun.length < 2) await new Promise((resolve) => setImmediate(resolve));
    // No further one, however long the first takes.
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(begun).toEqual([["a0"], names("b", 3)]);
    expect(run.log.lanes.waiting()).toEqual(new Map([[projectId, 7]]));
    release();
    await run.settle();
    const all = await stored(run, projectId);
    expect(all.map(({ name }) => name)).toEqual(["a0", ...names("b", 3), ...names("c", 3)]);
  });

  it("[PI-87] lets nothing pass what was left in front of it, and gives each event up to where it got", async () => {
    const leftOnce = new Set<string>();
    const undone: string[] = [];
    const durable: string[] = [];
    const leave: Step = {
      name: "leave",
      async run(entries, { leaving, whenDurable, whenUndone }) {
        // What is left is where others wait behind it already.
        await new Promise((resolve) => setTimeout(resolve, 5));
        const at = entries.findIndex(({ event }) => {
          const isLeft = /[37]$/.test(event.event) && !leftOnce.has(event.event);
          if (isLeft) leftOnce.add(event.event);
          return isLeft;
        });
        const left = entries[at];
        if (left) leaving?.from(left.position);
        const passed = entries.slice(0, at < 0 ? entries.length : at);
        whenDurable(() => durable.push(...passed.map(({ event }) => event.event)));
        whenUndone?.(() => undone.push(...passed.map(({ event }) => event.event)));
        return entries.map(({ event }) => ({ kind: "keep", event }));
      },
    };
    const run = await pipeline.start({ steps: [leave] });
    const projectId = await run.newProject();
    for (const event of named(projectId, names("a", 100))) await run.append([event]);
    await run.settle();
    const all = await stored(run, projectId);
    expect(all.map(({ name }) => name)).toEqual(names("a", 100));
    expect(durable).toEqual(names("a", 100));
    // Some had passed behind what was left: they came to nothing, and passed again.
    expect(undone.length).toBeGreaterThan(0);
  });

  it("[PI-72] takes no event through its steps twice while the log does not take what became of it", async () => {
    let runs = 0;
    let refusals = 3;
    const { log, newProject } = await pipeline.openStores();
    const projectId = await newProject();
    const events = named(projectId, ["a", "b"]);
    await log.lanes.append(projectId, events);
    const counted: string[] = [];
    const lanes: EventLog["lanes"] = {
      ...log.lanes,
      pass: async (id, passed) => {
        if (refusals-- > 0) throw new Error("full");
        return log.lanes.pass(id, passed);
      },
    };
    const step: Step = {
      name: "count",
      run: (entries, { whenDurable }) => {
        runs++;
        whenDurable(() => counted.push(`${log.lanes.waiting().get(projectId) ?? 0}`));
        return entries.map(({ event }) => ({ kind: "keep", event }));
      },
    };
    const logged: string[] = [];
    const running = startLanes({
      log: { ...log, lanes },
      geoIp: { lookup: () => ({}) },
      steps: [step],
      pendingPersons: { addToLane() {}, catchUpLaneTo() {}, passed() {} },
      logger: { error: (_fields, message) => logged.push(message) },
      timing: { retryMs: 1, longestRetryMs: 2 },
    });
    expect(await log.lanes.passed(projectId, 60_000)).toBe(true);
    await running.close();
    expect(runs).toBe(1);
    expect(counted).toEqual(["0"]);
    expect(logged).toHaveLength(3);
    const { entries } = await log.read(0, 10, AbortSignal.any([]));
    expect(entries.map(({ event }) => event.uuid)).toEqual(events.map(({ uuid }) => uuid));
  });

  it("[PI-85] answers flag requests when changes have passed and are applied, in time whatever waits", async () => {
    const { step, reached, release } = holdingStep(({ event }) => event === "held");
    const run = await pipeline.start({ steps: [step], maxWaitMs: 200 });
    const projectId = await run.newProject();
    const change = (event: string, distinctId: string, plan: string) =>
      sampleEvent({ projectId, event, distinctId, properties: { $set: { plan } } });
    const settled = (distinctId: string) =>
      run.pendingPersons.settled(projectId, { distinctIds: [distinctId] });
    await run.append([change("quick", "ann", "pro")]);
    await expect.poll(() => settled("ann")).toBeUndefined();
    const ann = await run.persons.personByDistinctId(projectId, "ann");
    expect(ann?.properties).toMatchObject({ plan: "pro" });
    await run.append([change("held", "bob", "pro")]);
    await reached;
    // Nobody else waits, and this one no longer than its bound.
    const waits = ["eve", "bob"].map((id) => settled(id)?.then(() => id));
    expect(await Promise.race(waits)).toBe("eve");
    expect(await Promise.all(waits)).toEqual(["eve", "bob"]);
    expect(await run.persons.personByDistinctId(projectId, "bob")).toBeUndefined();
    release();
    await run.settle();
    const bob = await run.persons.personByDistinctId(projectId, "bob");
    expect(bob?.properties).toMatchObject({ plan: "pro" });
    expect(settled("bob")).toBeUndefined();
  });

  it("[PI-70] tells in a receipt that an event waits in its lane, and what became of it later", async () => {
    const { step, reached, release } = holdingStep(({ event }) => event === "a");
    const sort: Step = eventStep({
      name: "sort",
      run: ({ event }) =>
        event.event === "a"
          ? { kind: "drop", by: "Sort (1) v1", reason: "unwanted" }
          : { kind: "keep", event },
    });
    const run = await pipeline.start({ steps: [step, sort] });
    const projectId = await run.newProject();
    const events = named(projectId, ["a", "b"]);
    await run.append(events);
    await reached;
    const refusals = { find: async () => [] };
    const deps = { events: run.events, log: run.log, refusals };
    const outcomes = () =>
      Promise.all(
        events.map(async ({ uuid }) => (await findReceipt(deps, projectId, uuid))?.receipt),
      );
    expect(await outcomes()).toEqual([
      { outcome: "queued", position: null },
      { outcome: "queued", position: null },
    ]);
    release();
    await run.settle();
    expect(await outcomes()).toMatchObject([
      { outcome: "dropped", by: "Sort (1) v1", reason: "unwanted" },
      { outcome: "stored", changedBy: ["hold"] },
    ]);
    expect(run.counts).toMatchObject({ dropped: 1 });
  });

  it("[PI-58] sets aside an entry of a lane that cannot be read", async () => {
    const { log, newProject } = await pipeline.openStores();
    const projectId = await newProject();
    await log.lanes.append(projectId, named(projectId, ["a", "b", "c"]));
    await pipeline.closeStores();
    const file = new Database(join(pipeline.folder, "log.sqlite"));
    const [row] = file.prepare("select lines from lane_segments").all() as { lines: string }[];
    const damaged = row?.lines.replace('"b"', "#") ?? "";
    file.prepare("update lane_segments set lines = ?").run(damaged);
    file.close();
    const run = await pipeline.start({ steps: [holdingStep(() => false).step] });
    await run.settle();
    expect((await stored(run, projectId)).map(({ name }) => name)).toEqual(["a", "c"]);
    const letters = await run.events.deadLetters({ limit: 10 });
    expect(letters.map(({ reason }) => reason)).toEqual([
      expect.stringContaining("cannot be read from the log"),
    ]);
  });

  it("[PI-82] takes events of several projects at once, each the way of its project", async () => {
    let withSteps = 0;
    const { step } = holdingStep(() => false);
    const run = await pipeline.start({
      steps: [step],
      isAtWork: (projectId) => projectId === withSteps,
    });
    const plain = await run.newProject();
    withSteps = await run.newProject();
    const [a, b, c] = [named(plain, ["a"]), named(withSteps, ["b"]), named(plain, ["c"])];
    await run.append([...a, ...b, ...c]);
    await run.settle();
    expect(await stored(run, plain)).toEqual([
      { name: "a", passed: false },
      { name: "c", passed: false },
    ]);
    expect(await stored(run, withSteps)).toEqual([{ name: "b", passed: true }]);
  });

  it("[PI-47] closes though a lane does not get to its end", async () => {
    const { step, reached } = holdingStep(() => true);
    const around: Around = { steps: [step] };
    const run = await pipeline.start(around);
    const projectId = await run.newProject();
    await run.append(named(projectId, ["a"]));
    await reached;
    await pipeline.stopWorker();
    expect(run.log.lanes.waiting()).toEqual(new Map([[projectId, 1]]));
  });
});

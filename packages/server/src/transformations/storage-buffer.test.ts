import { rmSync } from "node:fs";
import { join } from "node:path";
import type { Json } from "@hedgerow/core/json";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { transformationConfigs } from "../engines/sql/transformation-configs.setup.ts";
import {
  createTransformationEffects,
  createTransformationJobs,
  createTransformationStorage,
} from "../engines/sql/transformation-records.ts";
import { sampleEvent } from "../events/event-log.contract.ts";
import { temporaryPipeline } from "../events/pipeline.setup.ts";
import { asked, createHandOver, stored } from "./event-effects.ts";
import { createStorageBuffer } from "./storage-buffer.ts";
import type { ConfigRef, TransformationEffects } from "./transformation-records.ts";

const NEVER = new Date("9000-01-01T00:00:00Z");

/** A buffer between a real log and a real store, to which events are passed by hand. */
async function open(
  pipeline: ReturnType<typeof temporaryPipeline>,
  given: {
    config?: ConfigRef;
    effectsOf?: (effects: TransformationEffects) => TransformationEffects;
  } = {},
) {
  const { database, log } = await pipeline.openStores();
  const config = given.config ?? (await (await transformationConfigs(database))());
  const { projectId } = config;
  const storage = createTransformationStorage(database);
  const effects = createTransformationEffects(database);
  const faults: unknown[] = [];
  const reportFault = (error: unknown) => faults.push(error);
  const handOver = createHandOver({
    ...{ log: log.lanes, onRefused: () => {}, reportFault },
    effects: given.effectsOf?.(effects) ?? effects,
  });
  const buffer = createStorageBuffer({ storage, handOver, reportFault });
  return {
    ...{ config, buffer, faults },
    set: (value: Json | undefined, owner?: object) => buffer.set(config, "k", value, owner),
    get: () => buffer.get(config, "k"),
    /** What would be there after a crash, but for what the log has. */
    kept: () => storage.get(config, "k"),
    jobs: async () => (await createTransformationJobs(database).due(NEVER, 100)).length,
    /** What events have set goes to the log with them. */
    async pass(owners: readonly object[], more: readonly string[] = []): Promise<void> {
      const [place = 0] = await log.lanes.append(projectId, [sampleEvent({ projectId })]);
      await log.lanes.pass(projectId, {
        events: [{ event: sampleEvent({ projectId }), passage: { kind: "kept", changedBy: [] } }],
        effects: [...buffer.seal(owners).map(stored), ...more],
        ...{ upTo: place, captured: [] },
      });
    },
  };
}

describe("what transformations store", () => {
  let pipeline: ReturnType<typeof temporaryPipeline>;
  beforeEach(() => {
    pipeline = temporaryPipeline();
  });
  afterEach(() => pipeline.remove());

  it("[TP-66] outside of events waits for what events had set before, and gives way to what they set later", async () => {
    const { buffer, set, get, kept, pass, faults } = await open(pipeline);
    const [first, second, third] = [{}, {}, {}];
    await set(1, first);
    await set(2);
    await buffer.flush();
    expect([await get(), await kept()]).toEqual([2, undefined]);
    await pass([first]);
    await buffer.flush();
    expect([await get(), await kept()]).toEqual([2, 2]);
    buffer.release([first]);
    await set(3);
    await set(4, second);
    await buffer.flush();
    expect([await get(), await kept()]).toEqual([4, 3]);
    await set(5);
    await set(6, third);
    await pass([second]);
    await pass([third]);
    buffer.release([second, third]);
    await buffer.flush();
    await buffer.flush();
    expect([await get(), await kept()]).toEqual([6, 6]);
    expect(faults).toEqual([]);
  });

  it("[TP-66] is handed over by the next start where the log has it, in the order in which events passed", async () => {
    const before = await open(pipeline);
    const { config } = before;
    const [first, second] = [{}, {}];
    await before.set(1, first);
    await before.set(2);
    await before.pass([first]);
    await before.set(3, second);
    const job = { ...config, name: "a", payload: null, hops: 0, runAt: new Date(0) };
    await before.pass([second], [asked(job)]);
    await before.set(undefined);
    const after = await open(pipeline, { config });
    expect(await after.kept()).toBeUndefined();
    await after.buffer.flush();
    expect([await after.get(), await after.kept(), await after.jobs()]).toEqual([3, 3, 1]);
    const later = await open(pipeline, { config });
    await later.set(4);
    await later.buffer.flush();
    const last = await open(pipeline, { config });
    await last.buffer.flush();
    expect([await last.kept(), await last.jobs()]).toEqual([4, 1]);
  });

  it("[TP-66] is handed over from a new log where the old one is lost", async () => {
    const before = await open(pipeline);
    const { config } = before;
    const event = {};
    for (const value of [1, 2, 3]) {
      await before.set(value, event);
      await before.pass([event]);
    }
    await before.buffer.flush();
    await pipeline.closeStores();
    for (const file of ["log.sqlite", "log.sqlite-wal", "log.sqlite-shm"]) {
      rmSync(join(pipeline.folder, file), { force: true });
    }
    const after = await open(pipeline, { config });
    await after.set(4, event);
    await after.pass([event]);
    await after.buffer.flush();
    expect([await after.kept(), after.faults]).toEqual([4, []]);
  });

  it("[TP-66] comes to nothing with its event, also when that was on its way to the disk", async () => {
    const { buffer, set, get, kept, pass } = await open(pipeline);
    const [first, second, third] = [{}, {}, {}];
    await set(1, first);
    await set(2);
    await set(3, second);
    buffer.seal([second]);
    buffer.undo([first, second]);
    expect(await get()).toBe(2);
    await buffer.flush();
    expect(await kept()).toBe(2);
    await set(4, third);
    await pass([third]);
    buffer.release([third]);
    // It is durable: nothing undoes it.
    buffer.undo([third]);
    expect(await get()).toBe(4);
    await buffer.flush();
    expect(await kept()).toBe(4);
    // Its code may go on for a while: that keeps nobody waiting.
    await set(5, second);
    await set(6);
    await buffer.flush();
    expect([await get(), await kept()]).toEqual([6, 6]);
    await set(7, second);
    await buffer.flush();
    expect([await get(), await kept()]).toEqual([6, 6]);
  });

  it("[TP-66] after its event was on its way to the disk follows once that has arrived", async () => {
    const { buffer, set, get, kept, pass } = await open(pipeline);
    const event = {};
    await set(1, event);
    await pass([event]);
    await set(2, event);
    await buffer.flush();
    expect([await get(), await kept()]).toEqual([2, 1]);
    buffer.release([event]);
    await buffer.flush();
    expect([await get(), await kept()]).toEqual([2, 2]);
    await set(3, event);
    await buffer.flush();
    expect([await get(), await kept()]).toEqual([3, 3]);
  });

  it("[TP-69] waits in the log while its store fails, and is there once, also where the store was not heard", async () => {
    let mode: "well" | "fails" | "is not heard" = "fails";
    const run = await open(pipeline, {
      effectsOf: (effects) => ({
        ...effects,
        async take(...given) {
          if (mode === "fails") throw new Error("the store is down");
          const taken = await effects.take(...given);
          if (mode === "is not heard") throw new Error("the connection is lost");
          return taken;
        },
      }),
    });
    const { config, buffer, set, get, kept, pass, jobs, faults } = run;
    const [first, second] = [{}, {}];
    const job = { ...config, name: "a", payload: null, hops: 0, runAt: new Date(0) };
    await set(1, first);
    await pass([first], [asked(job)]);
    buffer.release([first]);
    await set(2);
    await buffer.set(config, "other", 1);
    await buffer.flush();
    expect([await get(), await kept(), await jobs()]).toEqual([2, undefined, 0]);
    // What waits for nothing is written.
    expect(await (await open(pipeline, { config })).buffer.get(config, "other")).toBe(1);
    mode = "is not heard";
    await buffer.flush();
    expect([await get(), await kept(), await jobs()]).toEqual([2, 1, 1]);
    await set(3, second);
    await pass([second], [asked(job)]);
    buffer.release([second]);
    expect(await get()).toBe(3);
    mode = "well";
    await buffer.flush();
    expect([await get(), await kept(), await jobs()]).toEqual([3, 3, 2]);
    expect(faults).toHaveLength(2);
  });

  it("[TP-69] is handed over though the store never takes something among it, which is told", async () => {
    const { config, buffer, set, kept, pass, jobs, faults } = await open(pipeline);
    const event = {};
    await set(1, event);
    const job = { ...config, name: "j", payload: null, runAt: new Date(0), hops: 0 };
    // No key is a list: as what a store refuses for good for whatever reason.
    const never = JSON.stringify({ kind: "stored", ...config, key: [1], value: 2, order: 0 });
    await pass([event], [never, asked(job)]);
    await pass([], [asked(job)]);
    await buffer.flush();
    expect(await kept()).toBe(1);
    expect(await jobs()).toBe(2);
    expect(faults).toHaveLength(2);
    await buffer.flush();
    expect(faults).toHaveLength(2);
  });

  it("[TP-66] has keys that every store can index", async () => {
    const { config, buffer } = await open(pipeline);
    await buffer.set(config, "k".repeat(1_000), 1);
    await expect(buffer.set(config, "\u4e00".repeat(700), 1)).rejects.toThrow("too long");
    await buffer.set(config, "\u4e00".repeat(600), 1);
    await buffer.flush();
    expect(await buffer.get(config, "\u4e00".repeat(600))).toBe(1);
  });

  it("[TP-66] may be named by any text", async () => {
    const { config, buffer, pass, faults } = await open(pipeline);
    const event = {};
    for (const key of ["a\0b", "\ud800", "__proto__", "", "ß\u2028\n"]) {
      await buffer.set(config, key, [key.length, 2n ** 70n], event);
      expect(await buffer.get(config, key)).toEqual([key.length, 2n ** 70n]);
    }
    await pass([event]);
    buffer.release([event]);
    await buffer.flush();
    const { buffer: next } = await open(pipeline, { config });
    for (const key of ["a\0b", "\ud800", "__proto__", "", "ß\u2028\n"]) {
      expect(await next.get(config, key)).toEqual([key.length, 2n ** 70n]);
    }
    expect(faults).toEqual([]);
  });
});

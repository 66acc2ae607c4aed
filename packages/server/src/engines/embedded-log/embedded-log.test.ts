import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import type { Worker } from "node:worker_threads";
import { encodeEvent } from "@hedgerow/core/events/event-codec";
import Database from "libsql";
import { describe, expect, it } from "vitest";
import { describeEventLog, sampleEvent } from "../../events/event-log.contract.ts";
import { type EventLog, LogUnavailable } from "../../events/event-log.ts";
import { openEmbeddedLog } from "./embedded-log.ts";

async function inFolder<Result>(run: (path: string) => Promise<Result>): Promise<Result> {
  const folder = mkdtempSync(join(tmpdir(), "hedgerow-log-"));
  try {
    return await run(join(folder, "log.sqlite"));
  } finally {
    rmSync(folder, { recursive: true, force: true });
  }
}

describeEventLog("EventLog on a SQLite file", async () => {
  const folder = mkdtempSync(join(tmpdir(), "hedgerow-log-"));
  return {
    open: () => openEmbeddedLog(join(folder, "log.sqlite")),
    remove: async () => rmSync(folder, { recursive: true, force: true }),
  };
});

const NEVER = new AbortController().signal;
const MEBIBYTE = 1024 * 1024;

/** Positions of all that a log still has. */
async function positionsIn(log: EventLog): Promise<readonly number[]> {
  const positions: number[] = [];
  const last = await log.end();
  for (let after = 0; after < last; ) {
    const { entries, end } = await log.read(after, 100, NEVER);
    positions.push(...entries.map(({ position }) => position));
    after = end;
  }
  return positions;
}

const range = (first: number, last: number) =>
  Array.from({ length: last - first + 1 }, (_, index) => first + index);

describe("openEmbeddedLog", () => {
  it("[PI-4] starts above the position that consumers have passed when its file is lost", () =>
    inFolder(async (path) => {
      const log = await openEmbeddedLog(path, { after: 1234 });
      expect(await log.end()).toBe(1234);
      expect(await log.append([sampleEvent()])).toEqual([1235]);
      await log.close();
    }));

  it("[PI-4] leads a reader past positions that were lost with its file", () =>
    inFolder(async (path) => {
      const log = await openEmbeddedLog(path, { after: 1234 });
      expect(await log.read(1000, 10, NEVER)).toEqual({ entries: [], end: 1234, chars: 0 });
      await log.append([sampleEvent()]);
      const { entries, end } = await log.read(1000, 10, NEVER);
      expect([entries.map(({ position }) => position), end]).toEqual([[1235], 1235]);
      await log.close();
    }));

  it("[PI-6] refuses more than it may queue, keeps what it took and takes more afterwards", () =>
    inFolder(async (path) => {
      const log = await openEmbeddedLog(path, { maxQueuedBytes: 100_000 });
      const event = () => sampleEvent({ properties: { text: "x".repeat(40_000) } });
      const outcomes = await Promise.allSettled(
        Array.from({ length: 10 }, () => log.append([event()])),
      );
      const refused = outcomes.filter((outcome) => outcome.status === "rejected");
      const taken = outcomes.length - refused.length;
      expect(taken).toBeGreaterThan(0);
      expect(refused.length).toBeGreaterThan(0);
      for (const { reason } of refused) {
        expect(reason).toBeInstanceOf(LogUnavailable);
        expect(reason.retryAfterSeconds).toBeGreaterThan(0);
      }
      expect((await log.read(0, 100, NEVER)).entries.length).toBe(taken);
      await log.append([event()]);
      expect((await log.read(0, 100, NEVER)).entries.length).toBe(taken + 1);
      await log.close();
    }));

  it("[PI-6] takes a request larger than the queue when nothing else waits", () =>
    inFolder(async (path) => {
      const log = await openEmbeddedLog(path, { maxQueuedBytes: 1000 });
      await log.append([sampleEvent({ properties: { text: "x".repeat(5000) } })]);
      await log.close();
    }));

  it("[PI-7] refuses events on a full disk, keeps the old ones and recovers by itself", () =>
    inFolder(async (path) => {
      const log = await openEmbeddedLog(path, { maxFileBytes: 1024 * 1024 });
      const event = () => sampleEvent({ properties: { text: "x".repeat(50_000) } });
      let taken = 0;
      const fill = async () => {
        for (;;) {
          await log.append([event()]);
          taken++;
        }
      };
      await expect(fill()).rejects.toBeInstanceOf(LogUnavailable);
      expect(log.refusing()).toContain("full");
      expect(taken).toBeGreaterThan(10);
      await expect(log.append([event()])).rejects.toBeInstanceOf(LogUnavailable);
      const { entries, end } = await log.read(0, 100, NEVER);
      expect(entries.length).toBe(taken);
      await log.release(end);
      const [position] = await log.append([event()]);
      expect(position).toBeGreaterThan(end);
      expect(log.refusing()).toBeUndefined();
      expect((await log.read(end, 100, NEVER)).entries.length).toBe(1);
      await log.close();
    }));

  it("[PI-86] refuses the events of a project alone whose lane takes too much of the file", () =>
    inFolder(async (path) => {
      let log = await openEmbeddedLog(path, { maxFileBytes: 4 * MEBIBYTE });
      const event = (projectId: number) =>
        sampleEvent({ projectId, properties: { text: "x".repeat(50_000) } });
      const fill = async () => {
        for (;;) await log.lanes.append(1, [event(1)]);
      };
      await expect(fill()).rejects.toThrow("of this project wait");
      await log.lanes.append(2, [event(2)]);
      await log.append([event(1)]);
      expect(log.refusing()).toBeUndefined();
      await log.close();
      log = await openEmbeddedLog(path, { maxFileBytes: 4 * MEBIBYTE });
      await expect(log.lanes.append(1, [event(1)])).rejects.toBeInstanceOf(LogUnavailable);
      await log.lanes.pass(1, { upTo: 10, events: [], captured: [] });
      await log.lanes.append(1, [event(1)]);
      await log.close();
    }));

  it("[PI-86] leaves room in a full file for what becomes of events in lanes", () =>
    inFolder(async (path) => {
      const log = await openEmbeddedLog(path, { maxFileBytes: 2 * MEBIBYTE });
      const event = (projectId: number) =>
        sampleEvent({ projectId, properties: { text: "x".repeat(20_000) } });
      const raw = Array.from({ length: 20 }, () => event(1));
      await log.lanes.append(1, raw);
      const fill = async () => {
        for (;;) await log.append([event(2)]);
      };
      await expect(fill()).rejects.toThrow("full");
      const refused = expect(log.append([event(2)])).rejects.toBeInstanceOf(LogUnavailable);
      const passed: number[] = [];
      for (const [index, one] of raw.entries()) {
        const { positions } = await log.lanes.pass(1, {
          ...{ upTo: index + 1, captured: [] },
          events: [{ event: one, passage: { kind: "kept", changedBy: [] } }],
        });
        passed.push(...positions);
        // As the stores do in time.
        await log.release(await log.end());
      }
      await refused;
      expect(passed).toHaveLength(20);
      expect(log.lanes.isWaiting(1)).toBe(false);
      await log.append([event(2)]);
      await log.close();
    }));

  it("[PI-88] takes no more room however many events pass as they stand in their lane", () =>
    inFolder(async (path) => {
      const log = await openEmbeddedLog(path);
      const properties = { text: "x".repeat(MEBIBYTE) };
      const propertiesText = JSON.stringify(properties);
      let largest = 0;
      for (let place = 1; place <= 60; place++) {
        const event = sampleEvent({ properties });
        await log.lanes.append(1, [event]);
        const passage = { kind: "kept", changedBy: [] } as const;
        // Every other one is written anew: both kinds let go of what stood in the lane.
        const asItStands = place % 2 === 0 ? { place, propertiesText } : {};
        const { positions } = await log.lanes.pass(1, {
          ...{ upTo: place, captured: [] },
          events: [{ event, passage, ...asItStands }],
        });
        // One is read again by whoever lags behind.
        await log.release((positions[0] ?? 0) - 1);
        largest = Math.max(largest, await log.bytes());
      }
      expect(largest).toBeLessThan(40 * MEBIBYTE);
      await log.release(60);
      await log.append([sampleEvent()]);
      await log.close();
      const file = new Database(path, { readonly: true });
      for (const table of ["lane_segments", "lane_references"]) {
        expect(file.prepare(`select count(*) as count from ${table}`).all()).toEqual([
          { count: 0 },
        ]);
      }
      file.close();
    }));

  it("[PI-58] tells entries apart whose place in a lane is damaged, and takes none for another", () =>
    inFolder(async (path) => {
      let log = await openEmbeddedLog(path);
      const events = ["a", "b", "c", "d"].map((name) => sampleEvent({ event: name }));
      await log.lanes.append(1, events);
      const passage = { kind: "kept", changedBy: [] } as const;
      await log.lanes.pass(1, {
        ...{ upTo: 4, captured: [] },
        events: events.map((event, index) => ({
          ...{ event, passage, place: index + 1 },
          propertiesText: JSON.stringify(event.properties),
        })),
      });
      await log.close();
      const file = new Database(path);
      const [row] = file.prepare("select lines from lane_segments").all() as { lines: string }[];
      const [first, second, third] = (row?.lines ?? "").split("\n");
      // The second is cut, and of the two behind it one is gone.
      const damaged = [first, second?.slice(0, 80), third].join("\n");
      file.prepare("update lane_segments set lines = ?").run(damaged);
      file.close();
      log = await openEmbeddedLog(path);
      const { entries } = await log.read(0, 10, NEVER);
      expect(entries.map(({ position, event }) => [position, event.uuid])).toEqual(
        events.map(({ uuid }, index) => [index + 1, uuid]),
      );
      expect(entries.map(({ fault }) => fault !== undefined)).toEqual([false, true, false, true]);
      const textOf = (index: number) => String(entries[index]?.event.properties.text);
      for (const part of [events[1]?.uuid, '{"kind":"kept"', second?.slice(0, 80)]) {
        expect(textOf(1)).toContain(part);
      }
      expect(textOf(3)).toContain(events[3]?.uuid);
      await log.close();
      // All stand in another's place.
      const again = new Database(path);
      const moved = [second, third, first].join("\n");
      again.prepare("update lane_segments set lines = ?").run(moved);
      again.close();
      log = await openEmbeddedLog(path);
      for (const { fault, event } of (await log.read(0, 10, NEVER)).entries) {
        expect(fault).toBeDefined();
        const others = events.filter(({ uuid }) => uuid !== event.uuid);
        for (const { uuid } of others) expect(event.properties.text).not.toContain(uuid);
      }
      await log.close();
    }));

  it("[PI-88] writes little for an event that passes as it stands in its lane", () =>
    inFolder(async (path) => {
      const log = await openEmbeddedLog(path, { tailChars: 0 });
      const properties = { text: "x".repeat(MEBIBYTE) };
      const event = sampleEvent({ properties });
      await log.lanes.append(1, [event]);
      const passage = { kind: "kept", changedBy: [] } as const;
      const propertiesText = JSON.stringify(properties);
      const before = await log.bytes();
      await log.lanes.pass(1, {
        ...{ upTo: 1, captured: [] },
        events: [{ event, passage, place: 1, propertiesText }],
      });
      expect((await log.bytes()) - before).toBeLessThan(MEBIBYTE / 4);
      const { entries } = await log.read(0, 10, NEVER);
      expect(entries).toMatchObject([{ position: 1, event, propertiesText, passage }]);
      await log.close();
    }));

  it("[PI-86] takes nothing new into the room that is left for lanes, also beside what passes", () =>
    inFolder(async (path) => {
      const log = await openEmbeddedLog(path, { maxFileBytes: 2 * MEBIBYTE });
      const event = (projectId: number) =>
        sampleEvent({ projectId, properties: { text: "x".repeat(20_000) } });
      const raw = { 1: event(1), 3: event(3) };
      for (const projectId of [1, 3] as const) {
        await log.lanes.append(projectId, [raw[projectId], raw[projectId], raw[projectId]]);
      }
      const fill = async () => {
        for (;;) await log.append([event(2)]);
      };
      await expect(fill()).rejects.toThrow("full");
      const pass = (projectId: 1 | 3, upTo: number) =>
        log.lanes.pass(projectId, {
          ...{ upTo, captured: [] },
          events: [{ event: raw[projectId], passage: { kind: "kept", changedBy: [] } }],
        });
      for (const place of [1, 2]) {
        // The first is on its way to the disk alone: those behind it would share a commit.
        const outcomes = await Promise.allSettled([
          pass(1, place),
          log.append([event(2)]),
          pass(3, place),
        ]);
        expect(outcomes.map(({ status }) => status)).toEqual([
          "fulfilled",
          "rejected",
          "fulfilled",
        ]);
      }
      await log.close();
    }));

  it("[TP-68] lets nothing more pass with effects while too many wait, and goes on once they are forgotten", () =>
    inFolder(async (path) => {
      const open = () => openEmbeddedLog(path, { maxEffectChars: 1_000 });
      let log = await open();
      const pass = async (projectId: number, upTo: number, length: number) => {
        const { positions } = await log.lanes.pass(projectId, {
          ...{ upTo, captured: [], effects: length > 0 ? ["x".repeat(length)] : [] },
          events: [{ event: sampleEvent({ projectId }), passage: { kind: "kept", changedBy: [] } }],
        });
        return positions[0] ?? 0;
      };
      for (const projectId of [1, 2]) {
        const event = () => sampleEvent({ projectId });
        await log.lanes.append(projectId, [event(), event(), event(), event()]);
      }
      expect(log.lanes.areEffectsMany()).toBe(false);
      // However many, where no others wait.
      const first = await pass(1, 1, 5_000);
      expect(log.lanes.areEffectsMany()).toBe(true);
      await expect(pass(1, 2, 10)).rejects.toBeInstanceOf(LogUnavailable);
      expect(log.refusing()).toBeUndefined();
      await pass(2, 1, 0);
      await log.append([sampleEvent({ projectId: 3 })]);
      await log.close();
      log = await open();
      await expect(pass(1, 2, 10)).rejects.toBeInstanceOf(LogUnavailable);
      expect(log.lanes.areEffectsMany()).toBe(true);
      log.lanes.forgetEffects(first);
      expect(log.lanes.areEffectsMany()).toBe(false);
      const both = [pass(1, 2, 600), pass(2, 2, 600)];
      const outcomes = await Promise.allSettled(both);
      expect(outcomes.map(({ status }) => status)).toEqual(["fulfilled", "rejected"]);
      await log.close();
    }));

  it("[TP-68] takes no more room however many effects go through it", () =>
    inFolder(async (path) => {
      const log = await openEmbeddedLog(path);
      let largest = 0;
      for (let n = 1; n <= 60; n++) {
        await log.lanes.append(1, [sampleEvent()]);
        const { positions } = await log.lanes.pass(1, {
          ...{ upTo: n, captured: [], effects: ["x".repeat(MEBIBYTE)] },
          events: [{ event: sampleEvent(), passage: { kind: "kept", changedBy: [] } }],
        });
        log.lanes.forgetEffects(positions[0] ?? 0);
        largest = Math.max(largest, await log.bytes());
      }
      expect(largest).toBeLessThan(30 * MEBIBYTE);
      await log.close();
    }));

  it("[PI-81] knows what passed when its thread died before it said so", () =>
    inFolder(async (path) => {
      const threads: Worker[] = [];
      const note = (worker: Worker) => threads.push(worker);
      process.on("worker", note);
      const log = await openEmbeddedLog(path);
      const events = Array.from({ length: 20 }, () => sampleEvent());
      await log.lanes.append(1, events);
      let passed = 0;
      for (let attempt = 0; passed < events.length; attempt++) {
        const event = events[passed];
        if (!event) break;
        const passing = log.lanes.pass(1, {
          ...{ upTo: passed + 1, captured: [] },
          events: [{ event, passage: { kind: "kept", changedBy: [] } }],
        });
        // At any moment: before, during or after the commit.
        if (attempt % 4 === 0) setTimeout(() => void threads.at(-1)?.terminate(), attempt % 3);
        await passing.then(
          () => passed++,
          () => {},
        );
      }
      process.off("worker", note);
      const stored: string[] = [];
      for (let after = 0; after < (await log.end()); ) {
        const { entries, end } = await log.read(after, 100, NEVER);
        stored.push(...entries.map(({ event }) => event.uuid));
        after = end;
      }
      expect(stored).toEqual(events.map(({ uuid }) => uuid));
      expect(log.lanes.waiting()).toEqual(new Map());
      await log.close();
    }));

  it("[PI-8] keeps what was released up to a size, the newest of it, and what was not however large", () =>
    inFolder(async (path) => {
      const retention = { maxBytes: 4 * MEBIBYTE, maxAgeMs: 3_600_000 };
      const log = await openEmbeddedLog(path, { retention, tailChars: 0 });
      const appendLarge = async (count: number) => {
        for (let n = 0; n < count; n++) {
          await log.append([sampleEvent({ properties: { text: "x".repeat(MEBIBYTE) } })]);
        }
      };
      await appendLarge(10);
      expect(await positionsIn(log)).toEqual(range(1, 10));
      await log.release(8);
      await expect.poll(() => positionsIn(log)).toEqual(range(8, 10));
      await appendLarge(10);
      // Now what waits is too large by itself: nothing is kept beyond it.
      expect(await positionsIn(log)).toEqual(range(9, 20));
      await log.release(20);
      await expect.poll(() => positionsIn(log)).toEqual(range(18, 20));
      await log.close();
    }));

  it("[PI-8] keeps what was released up to an age, and what was not however old, also when idle", () =>
    inFolder(async (path) => {
      const retention = { maxBytes: 100 * MEBIBYTE, maxAgeMs: 700 };
      const log = await openEmbeddedLog(path, { retention, tailChars: 0 });
      const appendedMs = [0];
      const append = async () => {
        appendedMs.push(performance.now());
        await log.append([sampleEvent()]);
      };
      let released = 0;
      /** What is still there: all that is not old or not released, and nothing before what is gone. */
      const look = async () => {
        const there = await positionsIn(log);
        const last = appendedMs.length - 1;
        expect(there).toEqual(range(there[0] ?? last + 1, last));
        const young = appendedMs.findIndex((ms, n) => n > 0 && performance.now() - ms < 700);
        const needed = young === -1 ? released + 1 : Math.min(young, released + 1);
        expect(there[0] ?? last + 1).toBeLessThanOrEqual(needed);
        return there;
      };
      const lookUntil = async (there: readonly number[]) => {
        while ((await look()).join() !== there.join()) await delay(20);
      };
      for (let n = 0; n < 4; n++) await append();
      await log.release(3);
      released = 3;
      await look();
      await lookUntil([4]);
      await append();
      await log.release(5);
      released = 5;
      await lookUntil([]);
      await append();
      await delay(1000);
      expect(await look()).toEqual([6]);
      await log.close();
    }));

  it("[PI-8] lets go of what it only keeps before a full disk refuses an event", () =>
    inFolder(async (path) => {
      const log = await openEmbeddedLog(path, {
        maxFileBytes: MEBIBYTE,
        retention: { maxBytes: 100 * MEBIBYTE, maxAgeMs: 3_600_000 },
      });
      const event = () => sampleEvent({ properties: { text: "x".repeat(50_000) } });
      for (let n = 1; n <= 100; n++) {
        await log.append([event()]);
        await log.release(n - 1);
      }
      const kept = await positionsIn(log);
      expect(kept.length).toBeGreaterThan(1);
      expect(kept).toEqual(range(kept[0] ?? 0, 100));
      await log.close();
    }));

  it("[PI-8] keeps nothing beyond need on a disk of which little is free", () =>
    inFolder(async (path) => {
      const reserveBytes = Number.MAX_SAFE_INTEGER;
      const retention = { maxBytes: 100 * MEBIBYTE, maxAgeMs: 3_600_000, reserveBytes };
      const log = await openEmbeddedLog(path, { retention, tailChars: 0 });
      for (let n = 0; n < 3; n++) await log.append([sampleEvent()]);
      await log.release(2);
      await expect.poll(() => positionsIn(log)).toEqual([3]);
      await log.close();
    }));

  it("[PI-9] gives its disk back what a large backlog took", () =>
    inFolder(async (path) => {
      const log = await openEmbeddedLog(path);
      const text = "x".repeat(MEBIBYTE);
      for (let n = 0; n < 20; n++) {
        await log.append(Array.from({ length: 5 }, () => sampleEvent({ properties: { text } })));
      }
      expect(await log.bytes()).toBeGreaterThan(100 * MEBIBYTE);
      await log.release(99);
      await expect.poll(() => log.bytes()).toBeLessThan(50 * MEBIBYTE);
      expect(await positionsIn(log)).toEqual([100]);
      await log.close();
    }));

  it("[PI-9] takes no more room however much goes through it", () =>
    inFolder(async (path) => {
      const retention = { maxBytes: 8 * MEBIBYTE, maxAgeMs: 3_600_000 };
      const log = await openEmbeddedLog(path, { retention });
      const text = "x".repeat(MEBIBYTE);
      let largest = 0;
      for (let n = 1; n <= 150; n++) {
        await log.append([sampleEvent({ properties: { text } })]);
        await log.release(n);
        largest = Math.max(largest, await log.bytes());
      }
      expect(largest).toBeLessThan(60 * MEBIBYTE);
      await log.close();
    }));

  it("[PI-9] goes on with a file of an earlier version, which could not shrink", () =>
    inFolder(async (path) => {
      const earlier = new Database(path);
      earlier.exec("create table segments (last integer primary key, count integer, lines text)");
      earlier.exec("create table progress (id integer primary key, end integer not null)");
      const event = sampleEvent();
      earlier.prepare("insert into segments values (1, 1, ?)").run(encodeEvent(event));
      earlier.exec("insert into progress values (1, 1)");
      earlier.close();
      const log = await openEmbeddedLog(path, { retention: { maxBytes: 0, maxAgeMs: 0 } });
      expect((await log.read(0, 10, NEVER)).entries).toMatchObject([{ position: 1, event }]);
      expect(await log.append([sampleEvent()])).toEqual([2]);
      await log.release(1);
      await expect.poll(() => positionsIn(log)).toEqual([2]);
      await log.close();
      const file = new Database(path, { readonly: true });
      expect(file.prepare("pragma auto_vacuum").all()).toEqual([{ auto_vacuum: 2 }]);
      file.close();
    }));

  it("[PI-6] acknowledges what it stored and nothing else when its thread dies, and goes on", () =>
    inFolder(async (path) => {
      let thread: Worker | undefined;
      process.once("worker", (worker) => {
        thread = worker;
      });
      const log = await openEmbeddedLog(path);
      // No message the thread knows: it dies of it, before it gets to any append.
      thread?.postMessage(null);
      // Too large to share a commit: each is on its way to the disk when something happens.
      const events = [1, 2, 3, 4].map((order) =>
        sampleEvent({ properties: { order, text: "x".repeat(5 * 1024 * 1024) } }),
      );
      const outcomes = await Promise.allSettled(events.map((event) => log.append([event])));
      const taken = events.filter((_, index) => outcomes[index]?.status === "fulfilled");
      expect(taken.length).toBeGreaterThan(0);
      expect(taken.length).toBeLessThan(events.length);
      const stored: (readonly [number, string])[] = [];
      for (let after = 0; after < (await log.end()); ) {
        const { entries, end } = await log.read(after, 100, NEVER);
        stored.push(...entries.map(({ position, event }) => [position, event.uuid] as const));
        after = end;
      }
      const acknowledged = outcomes.flatMap((outcome, index) =>
        outcome.status === "fulfilled" ? [[outcome.value[0], events[index]?.uuid]] : [],
      );
      expect(stored).toEqual(acknowledged);
      await log.close();
    }));

  /** A log whose thread has stored an event, died before it said so, and left a file that cannot be read for now. */
  async function losingTrack(path: string) {
    let thread: Worker | undefined;
    process.once("worker", (worker) => {
      thread = worker;
    });
    const log = await openEmbeddedLog(path);
    const file = new Database(path);
    thread?.removeAllListeners("message");
    const appending = log.append([sampleEvent()]);
    while (file.prepare("select end from progress").all().length === 0) await delay(5);
    file.exec("alter table progress rename to hidden");
    await thread?.terminate();
    return { log, file, appending };
  }

  it("[PI-90] knows what was stored once its file can be read again, and neither acknowledges nor refuses before", () =>
    inFolder(async (path) => {
      const { log, file, appending } = await losingTrack(path);
      const early = await Promise.race([appending.catch(() => "refused"), delay(50, "not known")]);
      expect(early).toBe("not known");
      expect(log.refusing()).toContain("cannot be read");
      await expect(log.append([sampleEvent()])).rejects.toBeInstanceOf(LogUnavailable);
      file.exec("alter table hidden rename to progress");
      file.close();
      expect(await appending).toEqual([1]);
      expect(await log.append([sampleEvent()])).toEqual([2]);
      expect(await positionsIn(log)).toEqual([1, 2]);
      await log.close();
    }));

  it("[PI-90] refuses what it does not know to be stored when it is closed", () =>
    inFolder(async (path) => {
      const { log, file, appending } = await losingTrack(path);
      const refused = expect(appending).rejects.toBeInstanceOf(LogUnavailable);
      await log.close();
      await refused;
      file.close();
    }));

  it("[CA-49] lets others go first while it writes a large batch, and keeps the order of small ones", () =>
    inFolder(async (path) => {
      const log = await openEmbeddedLog(path);
      const some = (count: number) => Array.from({ length: count }, () => sampleEvent());
      const large = log.append(some(10_000));
      const largeInLane = log.lanes.append(1, some(10_000));
      const small = [log.append(some(500)), log.append(some(1))];
      const smallInLane = log.lanes.append(1, some(1));
      expect((await small[0])?.[0]).toBe(1);
      expect(await small[1]).toEqual([501]);
      expect(await smallInLane).toEqual([1]);
      expect((await large)[0]).toBe(502);
      expect((await largeInLane)[0]).toBe(2);
      await log.close();
    }));

  it("[PI-6] refuses events after it was closed", () =>
    inFolder(async (path) => {
      const log = await openEmbeddedLog(path);
      await log.close();
      await expect(log.append([sampleEvent()])).rejects.toBeInstanceOf(LogUnavailable);
    }));

  it("reports a file that cannot be opened", () =>
    inFolder(async (path) => {
      await expect(openEmbeddedLog(join(path, "missing", "log.sqlite"))).rejects.toThrow();
    }));
});

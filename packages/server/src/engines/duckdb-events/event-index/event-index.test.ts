import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import {
  type Claim,
  type EventIndex,
  INSERT_ID_SECONDS,
  type IndexedEvent,
  openEventIndex,
} from "./event-index.ts";
import { type IndexFiles, indexFiles } from "./index-files.ts";
import { type MergeRuns, mergeRuns } from "./merge-runs.ts";

let folder: string;
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), "hedgerow-index-"));
});
afterEach(() => rmSync(folder, { recursive: true, force: true }));

const START_MS = Date.UTC(2024, 0, 1);

function indexed(position: number, fields: Partial<IndexedEvent> = {}): IndexedEvent {
  return {
    position,
    projectId: 1,
    uuid: crypto.randomUUID(),
    event: "paid",
    distinctId: "ann",
    clientTimestamp: null,
    receivedAt: new Date(START_MS + position),
    insertId: null,
    isChanged: false,
    ...fields,
  };
}

const claimOne = (index: EventIndex, event: IndexedEvent) =>
  index.claim(index.keysOf([event]), 0, 1)[0];

/** Claims events in so many runs: where they are cut makes no difference. */
function claimInRuns(index: EventIndex, events: readonly IndexedEvent[], runs: number): Claim[] {
  const keys = index.keysOf(events);
  const ends = Array.from({ length: runs }, (_, at) =>
    Math.floor((events.length * (at + 1)) / runs),
  );
  return ends.flatMap((end, at) => index.claim(keys, ends[at - 1] ?? 0, end));
}

const smallUuid = (n: number) => `00000000-0000-7000-8000-${String(n).padStart(12, "0")}`;
const everyUuid = Array.from({ length: 201 }, (_, n) => smallUuid(n));

/** A process that may die: from its last step on, nothing it does reaches the disk. */
function createProcess(steps: number) {
  let left = steps;
  const underWay = new Set<Promise<unknown>>();
  async function track<Result>(work: Promise<Result>): Promise<Result> {
    underWay.add(work);
    return work.finally(() => underWay.delete(work));
  }
  class Died extends Error {}
  const step = () => {
    left--;
    if (left < 0) throw new Died();
    return left === 0;
  };
  const files: IndexFiles = {
    async write(path, parts) {
      if (!step()) return track(indexFiles.write(path, parts));
      const whole = Buffer.concat(parts);
      writeFileSync(path, whole.subarray(0, whole.length / 2));
      throw new Died();
    },
    async move(from, to) {
      step();
      await track(indexFiles.move(from, to));
    },
    async remove(path) {
      step();
      await track(indexFiles.remove(path));
    },
  };
  const merge: MergeRuns = async (job) => {
    step();
    const merged = await track(mergeRuns(job));
    step();
    return merged;
  };
  return {
    files,
    merge,
    get isDead() {
      return left <= 0;
    },
    async ended() {
      left = 0;
      await Promise.allSettled(underWay);
    },
  };
}

/** The end that the manifest tells, 0 without one. */
function savedEnd(): number {
  const path = join(folder, "manifest.json");
  return existsSync(path) ? (JSON.parse(readFileSync(path, "utf8")) as { end: number }).end : 0;
}

/** What a store would do with an index, on a table in memory that survives. */
function createStore(runRecords: number) {
  const table: IndexedEvent[] = [];
  let process = createProcess(Number.POSITIVE_INFINITY);
  let index: EventIndex;
  // What came again leaves no row, but the consumer's position moves past it all the same.
  let stored = 0;
  return {
    table,
    get index() {
      return index;
    },
    commit(rows: readonly IndexedEvent[], position: number) {
      table.push(...rows);
      stored = position;
    },
    get isDead() {
      return process.isDead;
    },
    async open(steps: number) {
      process = createProcess(steps);
      const { files, merge } = process;
      const known = savedEnd();
      index = await openEventIndex({ folder, stored, files, merge, runRecords });
      // Whatever instant the process died at, what it had saved is whole.
      expect(index.end).toBe(known);
      for (const event of table.filter(({ position }) => position > index.end)) {
        await index.makeRoom(1);
        index.add([event]);
        index.keep(event.position);
      }
    },
    async kill() {
      await process.ended();
    },
    async settle() {
      await index.settle().catch(() => {});
    },
  };
}

describe("openEventIndex", () => {
  const sending = fc.record({
    projectId: fc.integer({ min: 1, max: 2 }),
    uuid: fc.nat(200).map(smallUuid),
    event: fc.constantFrom("a", "b"),
    distinctId: fc.constantFrom("x", "y"),
    insertId: fc.option(fc.constantFrom("i", "j", "k")),
    hoursLater: fc.constantFrom(0, 0, 1, 24, 40),
    isChanged: fc.boolean(),
  });
  const step = fc.oneof(
    {
      weight: 8,
      arbitrary: fc.record({
        kind: fc.constant("store"),
        batch: fc.array(sending, { maxLength: 9 }),
        runs: fc.integer({ min: 1, max: 4 }),
      }),
    },
    {
      weight: 1,
      arbitrary: fc.record({
        kind: fc.constant("refuse"),
        batch: fc.array(sending, { maxLength: 9 }),
      }),
    },
    {
      weight: 1,
      arbitrary: fc.record({
        kind: fc.constant("die-after-commit"),
        batch: fc.array(sending, { maxLength: 9 }),
      }),
    },
    { weight: 6, arbitrary: fc.record({ kind: fc.constant("settle") }) },
    { weight: 2, arbitrary: fc.record({ kind: fc.constant("restart"), steps: fc.nat(60) }) },
    { weight: 1, arbitrary: fc.record({ kind: fc.constant("lose") }) },
  );
  type Step = {
    kind: string;
    batch?: readonly (typeof sending extends fc.Arbitrary<infer T> ? T : never)[];
    /** In so many parts a batch is claimed. */
    runs?: number;
    steps?: number;
  };

  it("[ES-3] says what a plain model says, whatever instant its process dies at", async () => {
    await fc.assert(
      fc.asyncProperty(fc.array(step, { minLength: 1, maxLength: 60 }), async (steps) => {
        rmSync(folder, { recursive: true, force: true });
        const store = createStore(4);
        const holders = new Map<string, IndexedEvent>();
        const insertIds = new Map<string, IndexedEvent>();
        let position = 0;
        let nowMs = START_MS;
        await store.open(10);

        const claimedBy = (event: IndexedEvent) => {
          const holder = holders.get(`${event.projectId} ${event.uuid}`);
          if (holder) {
            const isSame = holder.event === event.event && holder.distinctId === event.distinctId;
            const isKnown = !holder.isChanged && !event.isChanged;
            return { kind: isKnown && !isSame ? "conflict" : "duplicate" };
          }
          const { projectId, distinctId, insertId } = event;
          if (insertId !== null) {
            const id = [projectId, event.event, distinctId, insertId].join();
            const first = insertIds.get(id);
            const agoMs = event.receivedAt.getTime() - (first?.receivedAt.getTime() ?? 0);
            if (first && agoMs <= INSERT_ID_SECONDS * 1000) {
              return { kind: "duplicate-of", position: first.position };
            }
            insertIds.set(id, event);
          }
          holders.set(`${projectId} ${event.uuid}`, event);
          return { kind: "new" };
        };

        for (const { kind, batch = [], runs = 1, steps: life = 0 } of steps as readonly Step[]) {
          if (kind === "settle") await store.settle();
          else if (kind === "restart" || kind === "lose" || store.isDead) {
            await store.kill();
            if (kind === "lose") rmSync(folder, { recursive: true, force: true });
            await store.open(Number.POSITIVE_INFINITY);
            await store.settle();
            await store.kill();
            await store.open(life === 0 ? Number.POSITIVE_INFINITY : life + 1).catch(() => {});
            if (store.isDead) {
              await store.kill();
              await store.open(Number.POSITIVE_INFINITY);
            }
          } else {
            const before = [new Map(holders), new Map(insertIds)] as const;
            const events = batch.map(({ hoursLater, ...fields }) => {
              position++;
              nowMs += hoursLater * 3_600_000;
              return indexed(position, { ...fields, receivedAt: new Date(nowMs) });
            });
            try {
              await store.index.makeRoom(events.length);
            } catch {
              continue;
            }
            const claims = events.map(claimedBy);
            expect(claimInRuns(store.index, events, runs)).toEqual(claims);
            const kept = events.filter((_, at) => claims[at]?.kind === "new");
            if (kind === "refuse") {
              store.index.forget();
              restore(holders, before[0]);
              restore(insertIds, before[1]);
            } else {
              store.commit(kept, position);
              if (kind === "store") store.index.keep(position);
              else {
                await store.kill();
                await store.open(Number.POSITIVE_INFINITY);
              }
            }
          }
          for (const { projectId, uuid, position } of holders.values()) {
            expect(store.index.find(projectId, uuid)).toBe(position);
          }
          for (const projectId of [1, 2]) {
            const asked = everyUuid.map((uuid) => indexed(1, { projectId, uuid }));
            const answers = store.index.acquaint(projectId, asked);
            expect(answers.map((answer) => answer !== "new")).toEqual(
              everyUuid.map((uuid) => holders.has(`${projectId} ${uuid}`)),
            );
          }
          expect(store.index.find(3, "00000000-0000-7000-8000-000000000001")).toBeUndefined();
        }
        await store.kill();
      }),
      { numRuns: 200 },
    );
  });

  it("[ES-20] loses nothing it had saved, whichever of its steps is the last", async () => {
    let steps = 1;
    for (let hasDied = true; hasDied; steps++) {
      rmSync(folder, { recursive: true, force: true });
      const store = createStore(4);
      await store.open(steps);
      for (let position = 1; position <= 36 && !store.isDead; position++) {
        const event = indexed(position, { insertId: `id ${position}` });
        await store.index.makeRoom(1).catch(() => {});
        claimOne(store.index, event);
        store.commit([event], event.position);
        store.index.keep(position);
        await store.settle();
      }
      hasDied = store.isDead;
      await store.kill();
      await store.open(Number.POSITIVE_INFINITY);
      for (const { uuid, position } of store.table) {
        expect(store.index.find(1, uuid)).toBe(position);
      }
      await store.settle();
      await store.kill();
    }
    // Runs of two kinds were written, listed, merged and removed.
    expect(steps).toBeGreaterThan(60);
  });

  it("[ES-20] keeps few files for many events, and finds each of them", async () => {
    const index = await openEventIndex({ folder, stored: 0, runRecords: 64, merge: mergeRuns });
    const events = Array.from({ length: 6000 }, (_, at) =>
      indexed(at + 1, { insertId: `id ${at}` }),
    );
    for (const event of events) {
      await index.makeRoom(1);
      expect(claimOne(index, event)).toEqual({ kind: "new" });
      index.keep(event.position);
    }
    await index.settle();
    expect(readdirSync(folder).length).toBeLessThan(2 * 4 * 4);
    for (const event of events) {
      expect(index.find(1, event.uuid)).toBe(event.position);
      expect(index.find(2, event.uuid)).toBeUndefined();
      expect(claimOne(index, event)).toEqual({ kind: "duplicate" });
      const again = { ...event, uuid: crypto.randomUUID() };
      expect(claimOne(index, again)).toEqual({ kind: "duplicate-of", position: event.position });
    }
    await index.close();
  });

  it("[ES-20] starts anew where its files are damaged, and with events that are not its own", async () => {
    const fill = async () => {
      const index = await openEventIndex({ folder, stored: 100, runRecords: 8, merge: mergeRuns });
      for (let position = index.end + 1; position <= 100; position++) {
        await index.makeRoom(1);
        index.add([indexed(position)]);
        index.keep(position);
      }
      await index.settle();
      await index.close();
    };
    const endAfter = async (damage: () => void, stored = 100) => {
      await fill();
      damage();
      const index = await openEventIndex({ folder, stored });
      await index.close();
      return index.end;
    };
    const someRun = () =>
      join(folder, readdirSync(folder).find((name) => name.endsWith(".run")) ?? "");
    expect(await endAfter(() => {})).toBeGreaterThan(80);
    expect(await endAfter(() => writeFileSync(join(folder, "manifest.json"), "{"))).toBe(0);
    expect(await endAfter(() => rmSync(join(folder, "manifest.json")))).toBe(0);
    expect(await endAfter(() => rmSync(someRun()))).toBe(0);
    const change = (edit: (bytes: Buffer) => Buffer) => () =>
      writeFileSync(someRun(), edit(readFileSync(someRun())));
    expect(await endAfter(change((bytes) => bytes.subarray(1)))).toBe(0);
    expect(
      await endAfter(change((bytes) => Buffer.concat([bytes.subarray(0, -1), Buffer.of(7)]))),
    ).toBe(0);
    expect(await endAfter(() => {}, 50)).toBe(0);
  });

  it("[ES-20] goes on when files could not be written for a while, and loses nothing", async () => {
    let isFull = false;
    const files: IndexFiles = {
      ...indexFiles,
      write: (...args) => (isFull ? Promise.reject(new Error("full")) : indexFiles.write(...args)),
    };
    const open = (stored: number) =>
      openEventIndex({ folder, stored, runRecords: 8, files, merge: mergeRuns });
    const index = await open(0);
    const events = Array.from({ length: 60 }, (_, at) => indexed(at + 1));
    let refused = 0;
    for (const [at, event] of events.entries()) {
      isFull = at > 15 && at < 50 && refused < 3;
      await index.makeRoom(1).catch(async () => {
        refused++;
        isFull = false;
        await index.makeRoom(1);
      });
      claimOne(index, event);
      index.keep(event.position);
    }
    expect(refused).toBeGreaterThan(0);
    for (const { uuid, position } of events) expect(index.find(1, uuid)).toBe(position);
    await index.settle();
    await index.close();
    const again = await open(60);
    expect(again.end).toBeGreaterThan(40);
    for (const { uuid, position } of events.slice(0, again.end)) {
      expect(again.find(1, uuid)).toBe(position);
    }
    await again.close();
  });

  it("[ES-20] merges in a thread of its own, and closes while that runs", async () => {
    const open = () => openEventIndex({ folder, stored: 10_000, runRecords: 1000 });
    const first = await open();
    for (let position = 1; position <= 4000; position++) {
      await first.makeRoom(1);
      first.add([indexed(position, { uuid: uuidOf(position) })]);
      first.keep(position);
      if (position % 1000 === 0) await first.settle();
    }
    expect(readdirSync(folder).filter((name) => name.endsWith(".run")).length).toBe(1);
    for (let position = 4001; position <= 8000; position++) {
      await first.makeRoom(1);
      first.add([indexed(position, { uuid: uuidOf(position) })]);
      first.keep(position);
    }
    await first.close();
    const second = await open();
    expect(second.end).toBeGreaterThan(6000);
    for (let position = 1; position <= second.end; position++) {
      expect(second.find(1, uuidOf(position))).toBe(position);
    }
    await second.close();
    expect(existsSync(join(folder, "manifest.json"))).toBe(true);
  });
});

function uuidOf(n: number): string {
  return `00000000-0000-4000-8000-${String(n).padStart(12, "0")}`;
}

function restore<Key, Value>(map: Map<Key, Value>, before: ReadonlyMap<Key, Value>): void {
  map.clear();
  for (const [key, value] of before) map.set(key, value);
}

import {
  cpSync,
  existsSync,
  mkdtempSync,
  readdirSync,
  rmSync,
  truncateSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import fc from "fast-check";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { sampleEvent } from "../../events/event-log.contract.ts";
import {
  describeEventStore,
  PERSON_A,
  PERSON_B,
  PERSON_C,
  sampleRow,
} from "../../events/event-store.contract.ts";
import { type EventRow, type EventStore, QueryTooLong } from "../../events/event-store.ts";
import { openDuckDbEvents } from "./duckdb-events.ts";
import { openDuckDbFile } from "./duckdb-file.ts";
import { isLongText, piecesOf } from "./long-texts.ts";
import { survivors } from "./person-merges.ts";

function temporaryFolder() {
  const folder = mkdtempSync(join(tmpdir(), "hedgerow-duckdb-"));
  return {
    path: join(folder, "events.duckdb"),
    remove: () => rmSync(folder, { recursive: true, force: true }),
  };
}

describeEventStore("EventStore on DuckDB", async () => {
  const { path, remove } = temporaryFolder();
  return { open: () => openDuckDbEvents(path), remove: async () => remove() };
});

describe("openDuckDbEvents", () => {
  let folder: ReturnType<typeof temporaryFolder>;
  beforeEach(() => {
    folder = temporaryFolder();
  });
  afterEach(() => folder.remove());

  const batchOf = (rows: readonly EventRow[]) => ({
    rows,
    merges: [],
    drops: [],
    deadLetters: [],
    end: rows.at(-1)?.position ?? 0,
  });

  it("[ES-3] learns what is taken from the stored events when the index is lost, and from deleted ones", async () => {
    const row = sampleRow(1, { properties: { $insert_id: "i" } });
    const deleted = {
      ...sampleRow(2, { properties: { $insert_id: "j" } }, PERSON_B),
      changedBy: ["x"],
    };
    const first = await openDuckDbEvents(folder.path);
    await first.insert(batchOf([row, deleted, sampleRow(3)]));
    await first.deleteEventsOf(1, [PERSON_B], 3);
    await first.close();
    rmSync(`${folder.path}.index`, { recursive: true });
    const second = await openDuckDbEvents(folder.path);
    expect(second.known(1, [row.event, deleted.event])).toEqual(["duplicate", "duplicate"]);
    expect(second.known(1, [{ ...row.event, event: "another" }])).toEqual(["conflict"]);
    expect(second.known(1, [{ ...deleted.event, event: "another" }])).toEqual(["duplicate"]);
    const again = [row, deleted].flatMap((it, at) => [
      { ...it, position: 4 + at },
      { ...it, position: 6 + at, event: { ...it.event, uuid: crypto.randomUUID() } },
    ]);
    expect(await second.insert(batchOf(again))).toEqual({ stored: 0, duplicates: 4 });
    expect(await second.receipt(1, again[3]?.event.uuid ?? "")).toMatchObject({
      outcome: "duplicate-of",
      uuid: deleted.event.uuid,
    });
    await second.close();
  });

  it("[ES-3] opens a folder with the index of an earlier version, and removes that", async () => {
    const row = sampleRow(1);
    const first = await openDuckDbEvents(folder.path);
    await first.insert(batchOf([row]));
    await first.close();
    rmSync(`${folder.path}.index`, { recursive: true });
    for (const suffix of ["", "-wal", "-shm"]) writeFileSync(`${folder.path}.uuids${suffix}`, "x");
    const second = await openDuckDbEvents(folder.path);
    expect(second.known(1, [row.event])).toEqual(["duplicate"]);
    await second.close();
    expect(readdirSync(dirname(folder.path)).filter((name) => name.includes("uuids"))).toEqual([]);
  });

  it("[ES-3] builds the index anew where the events are older than it", async () => {
    const copy = `${folder.path}.copy`;
    const row = sampleRow(2);
    const first = await openDuckDbEvents(folder.path);
    await first.insert(batchOf([sampleRow(1)]));
    await first.close();
    cpSync(folder.path, copy);
    const second = await openDuckDbEvents(folder.path);
    // Enough for the index to be written.
    const rows = Array.from({ length: 33_000 }, (_, at) => sampleRow(3 + at));
    await second.insert(batchOf([row, ...rows]));
    await second.close();
    cpSync(copy, folder.path);
    const third = await openDuckDbEvents(folder.path);
    expect(third.known(1, [row.event])).toEqual(["new"]);
    expect(await third.insert(batchOf([row]))).toMatchObject({ stored: 1 });
    await third.close();
  });

  it("[ES-20] builds the index anew when its files turn out to be damaged while it works", async () => {
    const store = await openDuckDbEvents(folder.path);
    const rows = Array.from({ length: 33_000 }, (_, at) => sampleRow(1 + at));
    await store.insert(batchOf(rows));
    const index = `${folder.path}.index`;
    const runs = () => readdirSync(index).filter((name) => name.endsWith(".run"));
    await expect.poll(runs).not.toEqual([]);
    await expect.poll(() => existsSync(join(index, "manifest.json"))).toBe(true);
    for (const name of runs()) truncateSync(join(index, name));
    const again = rows.slice(0, 10).map((row, at) => ({ ...row, position: 33_001 + at }));
    await expect(store.insert(batchOf(again))).rejects.toThrow(/built anew/);
    expect(await store.insert(batchOf(again))).toEqual({ stored: 0, duplicates: 10 });
    expect(store.known(1, [again[0]?.event ?? sampleEvent()])).toEqual(["duplicate"]);
    await store.close();
  });

  it("[ES-23] takes nothing for events that could not be stored: they are stored when they come again", async () => {
    const store = await openDuckDbEvents(folder.path);
    const good = sampleRow(1, { properties: { $insert_id: "i" } });
    const bad = { ...sampleRow(2, { properties: { $insert_id: "j" } }), personId: "no uuid" };
    await expect(store.insert(batchOf([good, bad]))).rejects.toThrow();
    expect(store.known(1, [good.event, bad.event])).toEqual(["new", "new"]);
    const letter = { position: 2, event: bad.event, reason: "no uuid" };
    await store.insert({ ...batchOf([good]), deadLetters: [letter], end: 2 });
    const replayed = { ...bad, position: 3, personId: PERSON_A };
    expect(await store.insert(batchOf([replayed]))).toEqual({ stored: 1, duplicates: 0 });
    expect(await store.receipt(1, bad.event.uuid)).toMatchObject({
      outcome: "stored",
      position: 3,
    });
    await store.close();
  });

  it("[RC-12] forgets receipts after their days, and no event with them", async () => {
    const days = (count: number) => new Date(Date.UTC(2024, 0, 1 + count));
    let now = days(0);
    const store = await openDuckDbEvents(folder.path, { now: () => now, receiptDays: 10 });
    const row = sampleRow(1);
    const drop = (position: number) => ({
      position,
      projectId: 1,
      uuid: crypto.randomUUID(),
      by: "filter",
      reason: "a robot",
    });
    const early = drop(3);
    await store.insert({ ...batchOf([row, { ...row, position: 2 }]), drops: [early], end: 3 });
    now = days(5);
    const late = drop(4);
    await store.insert({ ...batchOf([]), drops: [late], end: 4 });
    now = days(11);
    await store.insert(batchOf([sampleRow(5)]));
    expect(await store.receipt(1, early.uuid)).toBeUndefined();
    expect(await store.receipt(1, late.uuid)).toMatchObject({ outcome: "dropped" });
    expect(await store.receipt(1, row.event.uuid)).toMatchObject({
      outcome: "stored",
      duplicateCount: 0,
    });
    await store.close();
  });
});

describe("openDuckDbEvents within bounds", () => {
  const manyEvents = async (store: EventStore, count: number) => {
    const rows = Array.from({ length: count }, (_, index) =>
      sampleRow(index + 1, { properties: { index } }),
    );
    await store.insert({ rows, merges: [], drops: [], deadLetters: [], end: count });
  };
  const everything = { projectId: 1, limit: 1000, offset: 0, order: "newest-first" } as const;

  it("[ES-9] takes a batch larger than its memory, and reads it in pages of a bounded size", async () => {
    const { path, remove } = temporaryFolder();
    const store = await openDuckDbEvents(path, { memoryLimitMiB: 64 });
    const text = "x".repeat(1_900_000);
    const rows = Array.from({ length: 40 }, (_, index) =>
      sampleRow(index + 1, { properties: { text, index } }),
    );
    expect(
      await store.insert({ rows, merges: [], drops: [], deadLetters: [], end: 40 }),
    ).toMatchObject({ stored: 40 });
    const seen: unknown[] = [];
    for (let hasMore = true; hasMore; ) {
      const page = await store.events({ ...everything, offset: seen.length });
      expect(page.events.length).toBeGreaterThan(0);
      expect(page.events.length).toBeLessThan(10);
      seen.push(...page.events.map(({ properties }) => properties.index));
      hasMore = page.hasMore;
    }
    expect(seen).toEqual(rows.map((_, index) => 39 - index));
    await store.close();
    remove();
  });

  it("[ES-9] gives up a query that takes too long, and answers the next one", async () => {
    const { path, remove } = temporaryFolder();
    const store = await openDuckDbEvents(path, { readLimitMs: 3_000 });
    await manyEvents(store, 3000);
    let endMs: number | undefined;
    const slow = {
      requiredNames: [],
      matches: () => {
        endMs ??= performance.now() + 3_500;
        while (performance.now() < endMs);
        return false;
      },
    };
    await expect(store.events({ ...everything, properties: slow })).rejects.toBeInstanceOf(
      QueryTooLong,
    );
    expect(await store.count({ projectId: 1 })).toBe(3000);
    await store.close();
    remove();
  });

  it("[ES-5] finds rare properties among many events, in order", async () => {
    const { path, remove } = temporaryFolder();
    const store = await openDuckDbEvents(path);
    const rows = Array.from({ length: 12_000 }, (_, index) =>
      sampleRow(index + 1, { properties: index % 4000 === 0 ? { rare: index } : { index } }),
    );
    await store.insert({ rows, merges: [], drops: [], deadLetters: [], end: rows.length });
    const rare = { requiredNames: ["rare"], matches: (properties: object) => "rare" in properties };
    const found = async (query: object) =>
      (await store.events({ ...everything, properties: rare, ...query })).events.map(
        ({ properties }) => properties.rare,
      );
    expect(await found({})).toEqual([8000, 4000, 0]);
    expect(await found({ order: "oldest-first", limit: 1, offset: 1 })).toEqual([4000]);
    await store.close();
    remove();
  });
});

describe("piecesOf", () => {
  it("[ES-1] cuts long texts into bounded pieces that are the text again, no character cut", () => {
    fc.assert(
      fc.property(
        fc
          .string({ unit: "binary", maxLength: 20 })
          .filter((it) => Buffer.from(it).toString() === it),
        fc.nat(4000),
        (seed, times) => {
          const text = Array.from(seed.repeat(times)).slice(0, 20_000).join("");
          const pieces = piecesOf(text);
          expect(pieces.join("")).toBe(text);
          for (const piece of pieces) {
            expect(Buffer.byteLength(piece)).toBeLessThanOrEqual(3 * 1024);
            // What DuckDB is given as UTF-8 comes back unchanged only where no pair was cut.
            expect(Buffer.from(piece).toString()).toBe(piece);
          }
          expect(isLongText(text)).toBe(Buffer.byteLength(text) > 12 * 1024);
        },
      ),
      { numRuns: 60 },
    );
  });
});

describe("openDuckDbFile", () => {
  it("[ES-10] opens the file anew after a fault that leaves DuckDB useless", async () => {
    const { path, remove } = temporaryFolder();
    let timesOpened = 0;
    const file = await openDuckDbFile({
      path,
      settings: {},
      prepare: async (writer) => {
        timesOpened++;
        await writer.run("create table if not exists t (n integer)");
      },
      maxReaders: 2,
    });
    const count = () =>
      file.read(async (connection) =>
        Number((await connection.runAndReadAll("select count(*) from t")).getRows()[0]?.[0]),
      );
    await file.write((writer) => writer.run("insert into t values (1)"));
    const fault = new Error("FATAL Error: the checkpoint failed");
    const failing = file.write(async (writer) => {
      await writer.run("insert into t values (2)");
      throw fault;
    });
    await expect(failing).rejects.toMatchObject({ name: "StoreUnavailable", cause: fault });
    expect(await Promise.all([count(), count()])).toEqual([1, 1]);
    await file.write((writer) => writer.run("insert into t values (3)"));
    expect(await count()).toBe(2);
    expect(timesOpened).toBe(2);
    await file.close();
    remove();
  });

  it("[ES-10] goes on without opening anew after any other fault, with nothing of it stored", async () => {
    const { path, remove } = temporaryFolder();
    const store = await openDuckDbEvents(path);
    const good = sampleRow(1);
    const bad = { ...sampleRow(2), personId: "no uuid" };
    await expect(
      store.insert({ rows: [good, bad], merges: [], drops: [], deadLetters: [], end: 2 }),
    ).rejects.toThrow();
    expect(await store.position()).toBe(0);
    expect(await store.count({ projectId: 1 })).toBe(0);
    expect(
      await store.insert({ rows: [good], merges: [], drops: [], deadLetters: [], end: 2 }),
    ).toMatchObject({ stored: 1 });
    await store.close();
    remove();
  });
});

describe("survivors", () => {
  const merge = (from: string, into: string, projectId = 1) => ({ projectId, from, into });
  it("[ES-6] leads every merged person to the last survivor", () => {
    expect(
      survivors([
        merge(PERSON_A, PERSON_B),
        merge(PERSON_B, PERSON_C),
        merge(PERSON_A, PERSON_C, 2),
      ]),
    ).toEqual([merge(PERSON_A, PERSON_C), merge(PERSON_B, PERSON_C), merge(PERSON_A, PERSON_C, 2)]);
  });

  it("[ES-6] never closes a ring", () => {
    expect(survivors([merge(PERSON_A, PERSON_B), merge(PERSON_B, PERSON_A)])).toEqual([
      merge(PERSON_B, PERSON_A),
    ]);
    expect(survivors([merge(PERSON_A, PERSON_A)])).toEqual([]);
  });
});

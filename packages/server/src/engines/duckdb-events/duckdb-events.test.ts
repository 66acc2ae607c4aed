import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  describeEventStore,
  PERSON_A,
  PERSON_B,
  PERSON_C,
  sampleRow,
} from "../../events/event-store.contract.ts";
import { type EventStore, QueryTooLong } from "../../events/event-store.ts";
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
  it("[ES-3] learns the uuids of stored events again when the index is lost", async () => {
    const { path, remove } = temporaryFolder();
    const uuid = crypto.randomUUID();
    const batch = (position: number) => ({
      rows: [sampleRow(position, { uuid })],
      merges: [],
      drops: [],
      deadLetters: [],
      end: position,
    });
    const first = await openDuckDbEvents(path);
    await first.insert(batch(1));
    await first.close();
    rmSync(`${path}.index`, { recursive: true });
    const second = await openDuckDbEvents(path);
    expect(await second.insert(batch(2))).toMatchObject({ stored: 0 });
    await second.close();
    remove();
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
  }, 120_000);

  it("[ES-9] gives up a query that takes too long, and answers the next one", async () => {
    const { path, remove } = temporaryFolder();
    const store = await openDuckDbEvents(path, { readLimitMs: 300 });
    await manyEvents(store, 3000);
    const patience = { until: performance.now() + 1000 };
    const slow = {
      requiredNames: [],
      matches: () => {
        while (performance.now() < patience.until);
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

import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { sampleEvent } from "./event-log.contract.ts";
import type { EventQuery, EventRow, EventStore } from "./event-store.ts";

/** A store that can be closed and opened again with what it stored. */
export interface ReopenableStore {
  readonly open: () => Promise<EventStore>;
  readonly remove: () => Promise<void>;
}

export const PERSON_A = "aaaaaaaa-0000-5000-8000-000000000000";
export const PERSON_B = "bbbbbbbb-0000-5000-8000-000000000000";
export const PERSON_C = "cccccccc-0000-5000-8000-000000000000";

/** A row for tests; everything but the position has a default. */
export function sampleRow(
  position: number,
  fields: Parameters<typeof sampleEvent>[0] = {},
  personId = PERSON_A,
): EventRow {
  return { position, event: sampleEvent(fields), personId, groupKeys: [], changedBy: [] };
}

/** What every {@link EventStore} must do. */
export function describeEventStore(title: string, create: () => Promise<ReopenableStore>): void {
  describe(title, () => {
    let place: ReopenableStore;
    let store: EventStore;
    beforeEach(async () => {
      place = await create();
      store = await place.open();
    });
    afterEach(async () => {
      await store.close();
      await place.remove();
    });

    const insert = (rows: readonly EventRow[], end = rows.at(-1)?.position ?? 0) =>
      store.insert({ rows, merges: [], drops: [], deadLetters: [], end });
    const merge = (position: number, from: string, into: string, projectId = 1) =>
      store.insert({
        rows: [],
        merges: [{ position, projectId, from, into }],
        drops: [],
        deadLetters: [],
        end: position,
      });
    const findPage = (query: Partial<EventQuery> = {}) =>
      store.events({ projectId: 1, limit: 100, offset: 0, order: "oldest-first", ...query });
    const find = async (query: Partial<EventQuery> = {}) => (await findPage(query)).events;
    const names = async (query: Partial<EventQuery> = {}) =>
      (await find(query)).map(({ event }) => event);

    it("[ES-1] gives back what was inserted, whole", async () => {
      const properties = JSON.parse(
        '{"b":1,"a":{"__proto__":[1.5,null,"ß🦔\\n"],"constructor":"x"},"$feature_flag":"f","$feature_flag_response":true}',
      );
      const row = sampleRow(1, { properties, event: "a 'quoted' \"name\"", distinctId: "id\t'x" });
      expect(await insert([row])).toMatchObject({ stored: 1 });
      const { uuid, event, distinctId, timestamp, receivedAt } = row.event;
      const [stored] = await find();
      expect(stored).toEqual({
        uuid,
        event,
        distinctId,
        personId: PERSON_A,
        properties,
        timestamp,
        receivedAt,
      });
      expect(JSON.stringify(stored?.properties)).toBe(JSON.stringify(properties));
    });

    it("[ES-1] keeps long texts of every alphabet whole, in order, and findable", async () => {
      const texts = ["x", "ß", "漢", "🦔"].map((letter) => `a${letter.repeat(30_000)}`);
      await insert([
        ...texts.map((text, at) => sampleRow(at + 1, { properties: { [`k${at}`]: text } })),
        sampleRow(5, { properties: { k1: "short" } }),
      ]);
      const stored = (await find()).map(({ properties }) => properties);
      expect(stored).toEqual([...texts.map((text, at) => ({ [`k${at}`]: text })), { k1: "short" }]);
      const k1 = { requiredNames: ["k1"], matches: (it: object) => Object.hasOwn(it, "k1") };
      expect((await find({ properties: k1 })).length).toBe(2);
      const letter = {
        position: 6,
        event: sampleEvent({ properties: stored[3] ?? {} }),
        reason: "x",
      };
      await store.insert({ rows: [], merges: [], drops: [], deadLetters: [letter], end: 6 });
      expect(await store.deadLetters({ limit: 1 })).toEqual([letter]);
    });

    it("[ES-1] keeps times from year 0 to 9999", async () => {
      const times = [
        "0000-01-01T00:00:00.000Z",
        "1969-12-31T23:59:59.999Z",
        "9999-12-31T23:59:59.999Z",
      ];
      await insert(times.map((time, at) => sampleRow(at + 1, { timestamp: new Date(time) })));
      expect((await find()).map(({ timestamp }) => timestamp.toISOString())).toEqual(times);
    });

    it("[ES-11] goes through the events of all projects in order, gaps and large ones included", async () => {
      const large = { text: "x".repeat(3_000_000) };
      await insert([
        sampleRow(1, { event: "one", properties: { a: [1, null] } }),
        sampleRow(2, { event: "two", projectId: 2, properties: large }),
        sampleRow(3, { event: "three", properties: large }),
        sampleRow(900, { event: "four" }),
      ]);
      const placesAfter = async (position: number, limit: number) =>
        (await store.eventsAfter(position, limit)).map((row) => [row.position, row.event.event]);
      expect(await store.eventsAfter(0, 1)).toEqual([
        {
          position: 1,
          event: {
            projectId: 1,
            event: "one",
            properties: { a: [1, null] },
            receivedAt: expect.any(Date),
          },
        },
      ]);
      const passed: unknown[] = [];
      for (let after = 0; after < 900; after = (passed.at(-1) as [number])[0]) {
        passed.push(...(await placesAfter(after, 100)));
      }
      expect(passed).toEqual([
        [1, "one"],
        [2, "two"],
        [3, "three"],
        [900, "four"],
      ]);
      expect(await placesAfter(0, 2)).toEqual([
        [1, "one"],
        [2, "two"],
      ]);
      expect(await store.eventsAfter(900, 100)).toEqual([]);
    });

    it("[ES-2] starts at position 0 and moves with each batch, an empty one included", async () => {
      expect(await store.position()).toBe(0);
      await insert([sampleRow(3)], 5);
      expect(await store.position()).toBe(5);
      await insert([], 9);
      expect(await store.position()).toBe(9);
      await store.close();
      store = await place.open();
      expect(await store.position()).toBe(9);
    });

    it("[ES-2] changes nothing when a batch is repeated, also after a restart", async () => {
      const rows = [sampleRow(1), sampleRow(2)];
      await insert(rows);
      expect(await insert(rows)).toMatchObject({ stored: 0 });
      await store.close();
      store = await place.open();
      expect(await insert(rows)).toMatchObject({ stored: 0 });
      expect((await find()).length).toBe(2);
      expect(await insert([...rows, sampleRow(3)])).toMatchObject({ stored: 1 });
      expect((await find()).length).toBe(3);
    });

    it("[ES-3] stores a uuid once per project: in one batch, in later ones, after a restart", async () => {
      const uuid = crypto.randomUUID();
      const first = [
        sampleRow(1, { uuid, event: "first" }),
        sampleRow(2, { uuid, event: "second" }),
        sampleRow(3, { uuid, event: "elsewhere", projectId: 2 }),
      ];
      expect(await insert(first)).toMatchObject({ stored: 2 });
      expect(await insert([sampleRow(4, { uuid, event: "third" })])).toMatchObject({ stored: 0 });
      await store.close();
      store = await place.open();
      expect(await insert([sampleRow(5, { uuid, event: "fourth" })])).toMatchObject({ stored: 0 });
      expect(await names()).toEqual(["first"]);
      expect(await names({ projectId: 2 })).toEqual(["elsewhere"]);
      expect(await store.position()).toBe(5);
    });

    it("[ES-4] finds events by name, id, uuid, person and time, within one project", async () => {
      const at = (second: number) => new Date(Date.UTC(2024, 0, 1, 0, 0, second));
      const rows = [
        sampleRow(1, { event: "a", distinctId: "x", timestamp: at(1) }),
        sampleRow(2, { event: "b", distinctId: "x", timestamp: at(2) }, PERSON_B),
        sampleRow(3, { event: "a", distinctId: "y", timestamp: at(3) }, PERSON_C),
        sampleRow(4, { event: "a", distinctId: "x", timestamp: at(2), projectId: 2 }),
      ];
      await insert(rows);
      expect(await names()).toEqual(["a", "b", "a"]);
      expect(await names({ event: "a", distinctId: "x" })).toEqual(["a"]);
      expect(await names({ uuid: rows[1]?.event.uuid ?? "" })).toEqual(["b"]);
      expect(await names({ personId: PERSON_B })).toEqual(["b"]);
      expect(await names({ after: at(1), before: at(3) })).toEqual(["b"]);
      expect(await names({ projectId: 3 })).toEqual([]);
      expect(await store.count({ projectId: 1 })).toBe(3);
      expect(await store.count({ projectId: 1, event: "a", after: at(1) })).toBe(1);
      expect(await store.count({ projectId: 1, uuid: crypto.randomUUID() })).toBe(0);
      expect(await names({ projectId: 2, uuid: rows[0]?.event.uuid ?? "" })).toEqual([]);
    });

    it("[ES-4] orders by time, then by position, and pages", async () => {
      const at = new Date("2024-01-01T00:00:00Z");
      const later = new Date("2024-01-02T00:00:00Z");
      await insert([
        sampleRow(1, { event: "late", timestamp: later }),
        sampleRow(2, { event: "a", timestamp: at }),
        sampleRow(3, { event: "b", timestamp: at }),
      ]);
      expect(await names()).toEqual(["a", "b", "late"]);
      expect(await names({ order: "newest-first" })).toEqual(["late", "b", "a"]);
      expect(await names({ limit: 1, offset: 1 })).toEqual(["b"]);
      expect(await names({ offset: 3 })).toEqual([]);
      expect((await findPage({ limit: 2 })).hasMore).toBe(true);
      expect((await findPage({ limit: 3 })).hasMore).toBe(false);
      expect((await findPage({ limit: 2, offset: 1 })).hasMore).toBe(false);
    });

    it("[ES-5] keeps only events whose properties match, over more events than one page", async () => {
      const rows = Array.from({ length: 2500 }, (_, index) =>
        sampleRow(index + 1, {
          properties: { n: index, ...(index % 2 === 0 && { 'ev"en': index }), decoy: '"ev"' },
        }),
      );
      await insert(rows);
      const even = {
        requiredNames: ['ev"en'],
        matches: (properties: object) => Object.hasOwn(properties, 'ev"en'),
      };
      const found = await find({ properties: even, limit: 3, offset: 1000 });
      expect(found.map(({ properties }) => properties.n)).toEqual([2000, 2002, 2004]);
      const newest = await find({ properties: even, limit: 2, order: "newest-first" });
      expect(newest.map(({ properties }) => properties.n)).toEqual([2498, 2496]);
      const thousands = {
        requiredNames: [],
        matches: ({ n }: { n?: unknown }) => Number(n) % 1000 === 0,
      };
      expect((await find({ properties: thousands })).map(({ properties }) => properties.n)).toEqual(
        [0, 1000, 2000],
      );
    });

    it("[ES-6] reads the events of merged persons as the survivor's, through chains and repeats", async () => {
      await insert([
        sampleRow(1, { event: "a" }, PERSON_A),
        sampleRow(2, { event: "b" }, PERSON_B),
        sampleRow(3, { event: "c" }, PERSON_C),
        sampleRow(4, { event: "other", projectId: 2 }, PERSON_A),
      ]);
      await merge(5, PERSON_A, PERSON_B);
      expect(await names({ personId: PERSON_B })).toEqual(["a", "b"]);
      expect(await names({ personId: PERSON_A })).toEqual([]);
      expect(await store.count({ projectId: 1, personId: PERSON_B })).toBe(2);
      await merge(6, PERSON_B, PERSON_C);
      await merge(6, PERSON_C, PERSON_A);
      expect(await names({ personId: PERSON_C })).toEqual(["a", "b", "c"]);
      expect((await find()).map(({ personId }) => personId)).toEqual([
        PERSON_C,
        PERSON_C,
        PERSON_C,
      ]);
      expect(await names({ personId: PERSON_A, projectId: 2 })).toEqual(["other"]);
      await insert([sampleRow(7, { event: "late" }, PERSON_A)]);
      expect(await names({ personId: PERSON_C })).toEqual(["a", "b", "c", "late"]);
      await store.close();
      store = await place.open();
      expect(await names({ personId: PERSON_C })).toEqual(["a", "b", "c", "late"]);
    });

    it("[ES-6] takes a chain of merges in one batch", async () => {
      await store.insert({
        rows: [sampleRow(1, { event: "a" }, PERSON_A), sampleRow(2, { event: "b" }, PERSON_B)],
        merges: [
          { position: 1, projectId: 1, from: PERSON_A, into: PERSON_B },
          { position: 2, projectId: 1, from: PERSON_B, into: PERSON_C },
        ],
        drops: [],
        deadLetters: [],
        end: 2,
      });
      expect(await names({ personId: PERSON_C })).toEqual(["a", "b"]);
    });

    it("[ES-7] keeps dead letters for an operator, once", async () => {
      const letter = { position: 2, event: sampleEvent(), reason: "cannot be read" };
      const batch = { rows: [], merges: [], drops: [], deadLetters: [letter], end: 3 };
      await store.insert(batch);
      await store.insert(batch);
      expect(await store.deadLetters({ limit: 10 })).toEqual([letter]);
      expect(await find()).toEqual([]);
    });

    it("[ES-7] keeps a large event both as it is stored and as the letter it also became", async () => {
      const row = sampleRow(1, { properties: { text: "ß".repeat(100_000) } });
      const letter = { position: 1, event: row.event, reason: "its person changes failed" };
      await store.insert({ rows: [row], merges: [], drops: [], deadLetters: [letter], end: 1 });
      expect((await find()).map(({ properties }) => properties)).toEqual([row.event.properties]);
      expect(await store.deadLetters({ limit: 10 })).toEqual([letter]);
    });

    it("[ES-13] deletes the events of a person and of those merged into them, up to a position", async () => {
      const text = "x".repeat(30_000);
      const rows = [
        sampleRow(1, { event: "merged" }, PERSON_A),
        sampleRow(2, { event: "own", properties: { text } }, PERSON_B),
        sampleRow(3, { event: "other" }, PERSON_C),
        sampleRow(4, { event: "elsewhere", projectId: 2 }, PERSON_B),
        sampleRow(5, { event: "later" }, PERSON_B),
      ];
      await insert(rows);
      await merge(6, PERSON_A, PERSON_B);
      await store.deleteEventsOf(1, [PERSON_B, PERSON_C.replace("c", "d")], 4);
      expect(await names()).toEqual(["other", "later"]);
      expect(await names({ projectId: 2 })).toEqual(["elsewhere"]);
      await store.deleteEventsOf(1, [PERSON_B], 4);
      expect(await names()).toEqual(["other", "later"]);
      const again = rows.slice(0, 2).map((row, at) => ({ ...row, position: 7 + at }));
      expect(await insert(again)).toMatchObject({ stored: 0, duplicates: 2 });
      await store.close();
      store = await place.open();
      expect(await names()).toEqual(["other", "later"]);
    });

    it("[ES-14] gives the events of ids up to a position to other persons", async () => {
      await insert([
        sampleRow(1, { event: "a", distinctId: "a" }, PERSON_A),
        sampleRow(2, { event: "b", distinctId: "b" }, PERSON_A),
        sampleRow(3, { event: "c", distinctId: "c'" }, PERSON_A),
        sampleRow(4, { event: "b", distinctId: "b", projectId: 2 }, PERSON_A),
        sampleRow(5, { event: "b later", distinctId: "b" }, PERSON_A),
      ]);
      const moves = [
        { distinctId: "b", personId: PERSON_B },
        { distinctId: "c'", personId: PERSON_C },
        { distinctId: "nobody", personId: PERSON_C },
      ];
      for (let times = 0; times < 2; times++) {
        await store.reassign(1, moves, 4);
        expect(await names({ personId: PERSON_A })).toEqual(["a", "b later"]);
        expect(await names({ personId: PERSON_B })).toEqual(["b"]);
        expect(await names({ personId: PERSON_C })).toEqual(["c"]);
        expect(await names({ projectId: 2, personId: PERSON_A })).toEqual(["b"]);
      }
    });

    it("[ES-8] tells when a position is reached, or that it was not in time", async () => {
      await insert([sampleRow(1)]);
      expect(await store.reached(1, 0)).toBe(true);
      const waiting = store.reached(2, 10_000);
      await insert([sampleRow(2)]);
      expect(await waiting).toBe(true);
      expect(await store.reached(3, 5)).toBe(false);
    });

    it("[ES-1] takes batches of many events", async () => {
      const rows = Array.from({ length: 5000 }, (_, index) => sampleRow(index + 1));
      expect(await insert(rows)).toMatchObject({ stored: 5000 });
      expect((await find({ limit: 1000 })).length).toBe(1000);
    });
  });
}

import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { sampleEvent } from "./event-log.contract.ts";
import { joinRows, releaseRows, rowsOfProjects } from "./event-rows.ts";
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

    it("[PI-45] stores what was added to events with their own properties, however long those are", async () => {
      const place = { $geoip_city_name: "Köln", $geoip_country_code: "DE" };
      const added = { properties: place, text: JSON.stringify(place) };
      const lengths = [0, 10, 4070, 12_200, 12_270, 50_000];
      const own = [{}, ...lengths.map((length) => ({ text: "x".repeat(length) }))];
      const rows = own.map((properties, index) => ({
        ...sampleRow(index + 1, { properties }),
        added,
      }));
      expect(await insert(rows)).toMatchObject({ stored: rows.length });
      const stored = (await find()).map(({ properties }) => properties);
      expect(stored).toEqual(own.map((properties) => ({ ...properties, ...place })));
    });

    it("[ES-26] stores rows that were packed before like others, beside them, and in any order", async () => {
      const long = "x".repeat(30_000);
      const rows = [1, 2, 3, 4, 5, 6].map((position) => ({
        ...sampleRow(position, {
          event: `e${position}`,
          properties: { position, long, $insert_id: "i" },
        }),
        groupKeys: [null, "acme"],
        changedBy: position === 4 ? ["step"] : [],
      }));
      const again = {
        ...sampleRow(7),
        event: { ...(rows[0] as EventRow).event, event: "another" },
      };
      const packed = await store.pack(rows.slice(2, 4));
      const parts = [await store.pack([...rows.slice(4), again]), packed, rows.slice(0, 2)];
      const letters = [{ position: 4, event: sampleEvent(), reason: "odd" }];
      const batch = { rows: joinRows(parts), merges: [], drops: [], deadLetters: letters, end: 7 };
      expect(batch.rows.length).toBe(7);
      expect(await store.insert(batch)).toEqual({ stored: 6, duplicates: 1 });
      releaseRows(batch.rows);
      expect(await names()).toEqual(["e1", "e2", "e3", "e4", "e5", "e6"]);
      expect((await find()).map(({ properties }) => properties)).toEqual(
        rows.map(({ event }) => event.properties),
      );
      const receipt = (row: EventRow) => store.receipt(1, row.event.uuid);
      expect(await receipt(rows[3] as EventRow)).toMatchObject({ changedBy: ["step"] });
      expect(await receipt(again)).toMatchObject({ duplicates: [{ outcome: "conflict" }] });
      expect(await store.deadLetters({ limit: 9 })).toMatchObject(letters);
    });

    it("[ES-26] refuses what cannot be stored when it is inserted, not when it is packed", async () => {
      const bad = await store.pack([sampleRow(1), sampleRow(2, {}, "no uuid")]);
      const batch = { rows: bad, merges: [], drops: [], deadLetters: [], end: 2 };
      await expect(store.insert(batch)).rejects.toThrow();
      expect([...bad].map(({ position }) => position)).toEqual([1, 2]);
      expect(await insert([sampleRow(3)])).toEqual({ stored: 1, duplicates: 0 });
    });

    it("[ES-26] stores packed rows above its position alone, and after a restart as well", async () => {
      const rows = [1, 2, 3].map((position) => sampleRow(position, { event: `e${position}` }));
      await insert(rows.slice(0, 2));
      const packed = await store.pack(rows);
      const projects = rowsOfProjects(packed, (projectId) => projectId === 1);
      expect([...projects].map(({ event }) => event)).toEqual(rows.map(({ event }) => event));
      expect([...rowsOfProjects(packed, () => false)]).toEqual([]);
      const batch = { rows: packed, merges: [], drops: [], deadLetters: [], end: 3 };
      expect(await store.insert(batch)).toEqual({ stored: 1, duplicates: 0 });
      expect(await store.insert(batch)).toEqual({ stored: 0, duplicates: 0 });
      await store.close();
      store = await place.open();
      expect(await names()).toEqual(["e1", "e2", "e3"]);
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

    it("[ES-21] knows the same event from another one with its uuid, also after a restart", async () => {
      const row = sampleRow(1, { distinctId: "ann", clientTimestamp: new Date(1) });
      const { event } = row;
      const changed = { ...sampleRow(2), changedBy: ["filter"] };
      const ask = () => [
        ...store.known(1, [
          event,
          { ...event, timestamp: new Date(2), properties: {} },
          { ...event, event: "$pagevieW" },
          { ...event, distinctId: "anna" },
          { ...event, clientTimestamp: new Date(2) },
          { ...event, uuid: crypto.randomUUID() },
          // What a transformation made of an event is no measure of what comes again.
          { ...changed.event, event: "another" },
        ]),
        ...store.known(2, [event]),
      ];
      expect(ask()).toEqual(Array(8).fill("new"));
      await insert([row, changed]);
      const conflicts = ["conflict", "conflict", "conflict"];
      const known = ["duplicate", "duplicate", ...conflicts, "new", "duplicate", "new"];
      expect(ask()).toEqual(known);
      await store.close();
      store = await place.open();
      expect(ask()).toEqual(known);
      const again = { ...event, event: "$pagevieW" };
      const later = [event, again].map((event, at) => ({ ...row, position: 3 + at, event }));
      expect(await insert(later)).toEqual({ stored: 0, duplicates: 2 });
      expect(await store.receipt(1, event.uuid)).toMatchObject({
        outcome: "stored",
        position: 1,
        duplicates: [
          { position: 3, outcome: "duplicate" },
          { position: 4, outcome: "conflict" },
        ],
        duplicateCount: 2,
      });
    });

    it("[ES-22] stores an event with the insert id of one that came shortly before once", async () => {
      const nowMs = Date.UTC(2024, 5, 1);
      const hours = (count: number) => new Date(nowMs + count * 3_600_000);
      const row = (position: number, fields: Parameters<typeof sampleEvent>[0] = {}) =>
        sampleRow(position, {
          properties: { $insert_id: "i" },
          receivedAt: hours(0),
          event: "paid",
          distinctId: "ann",
          ...fields,
        });
      const first = row(1);
      const second = row(2);
      expect(await insert([first, second])).toEqual({ stored: 1, duplicates: 1 });
      const others = [
        row(3, { event: "asked" }),
        row(4, { distinctId: "bob" }),
        row(5, { projectId: 2 }),
        row(6, { properties: { $insert_id: "j" } }),
        row(7, { properties: { $insert_id: "" } }),
        row(8, { properties: { $insert_id: "" } }),
      ];
      expect(await insert(others)).toEqual({ stored: 6, duplicates: 0 });
      const third = row(9, { receivedAt: hours(48) });
      expect(await insert([third])).toEqual({ stored: 0, duplicates: 1 });
      await store.close();
      store = await place.open();
      const fourth = row(10, { receivedAt: hours(40), event: "asked" });
      expect(await insert([fourth])).toEqual({ stored: 0, duplicates: 1 });
      for (const [{ position, event }, of] of [
        [second, first],
        [third, first],
        [fourth, others[0]],
      ] as const) {
        expect(await store.receipt(1, event.uuid)).toMatchObject({
          outcome: "duplicate-of",
          position,
          uuid: of?.event.uuid,
        });
        expect(store.known(1, [event])).toEqual(["new"]);
      }
      // The same event sent again as it was is a duplicate of its uuid.
      expect(await insert([{ ...first, position: 11 }])).toEqual({ stored: 0, duplicates: 1 });
      expect(await store.receipt(1, first.event.uuid)).toMatchObject({ duplicateCount: 1 });
      const late = [row(12, { receivedAt: hours(49) }), row(13, { receivedAt: hours(50) })];
      expect(await insert(late)).toEqual({ stored: 1, duplicates: 1 });
      expect(await store.receipt(1, late[1]?.event.uuid ?? "")).toMatchObject({
        outcome: "duplicate-of",
        uuid: late[0]?.event.uuid,
      });
    });

    it("[RC-10] tells what became of an event: stored, dropped, set aside, or unknown", async () => {
      const row = { ...sampleRow(1), changedBy: ["add place", "filter"] };
      const drop = {
        position: 2,
        projectId: 1,
        uuid: crypto.randomUUID(),
        by: "filter",
        reason: "a robot",
        droppedAt: new Date(),
      };
      const letter = { position: 3, event: sampleEvent(), reason: "cannot be read" };
      const aside = { position: 1, event: row.event, reason: "its person changes failed" };
      const batch = {
        rows: [row],
        merges: [],
        drops: [drop],
        deadLetters: [aside, letter],
        end: 3,
      };
      await store.insert(batch);
      for (let times = 0; times < 2; times++) {
        expect(await store.receipt(1, row.event.uuid)).toEqual({
          outcome: "stored",
          position: 1,
          storedAt: expect.any(Date),
          changedBy: ["add place", "filter"],
          duplicates: [],
          duplicateCount: 0,
          setAsideBecause: "its person changes failed",
        });
        expect(await store.receipt(1, drop.uuid)).toEqual({
          outcome: "dropped",
          position: 2,
          at: drop.droppedAt,
          by: "filter",
          reason: "a robot",
        });
        expect(await store.receipt(1, letter.event.uuid)).toEqual({
          outcome: "dead-lettered",
          position: 3,
          reason: "cannot be read",
        });
        expect(await store.receipt(2, row.event.uuid)).toBeUndefined();
        expect(await store.receipt(1, crypto.randomUUID())).toBeUndefined();
        await store.close();
        store = await place.open();
      }
    });

    it("[RC-11] keeps the oldest repetitions of a uuid one by one, and counts all", async () => {
      const row = sampleRow(1);
      const again = Array.from({ length: 150 }, (_, at) => ({ ...row, position: 2 + at }));
      await insert([row, ...again]);
      const receipt = await store.receipt(1, row.event.uuid);
      if (receipt?.outcome !== "stored") throw new Error("not stored");
      expect(receipt.duplicateCount).toBe(150);
      expect(receipt.duplicates.length).toBe(100);
      expect(receipt.duplicates.map(({ position }) => position)).toEqual(
        again.slice(0, 100).map(({ position }) => position),
      );
    });

    it("[ES-24] tells which projects have any event", async () => {
      await insert([sampleRow(1, { projectId: 3 }), sampleRow(2, { projectId: 5 })]);
      expect(await store.hasEvents([1, 3, 4, 5])).toEqual(new Set([3, 5]));
      expect(await store.hasEvents([1])).toEqual(new Set());
      expect(await store.hasEvents([])).toEqual(new Set());
      await store.deleteEventsOf(3, [PERSON_A], 2);
      expect(await store.hasEvents([3, 5])).toEqual(new Set([5]));
    });

    it("[ES-7] gives dead letters in pages, by project and position, and forgets them", async () => {
      const letters = [1, 2, 1, 1].map((projectId, at) => ({
        position: 2 * at + 1,
        event: sampleEvent({ projectId, properties: { text: "ß".repeat(at * 10_000) } }),
        reason: `reason ${at}`,
      }));
      await store.insert({ rows: [], merges: [], drops: [], deadLetters: letters, end: 9 });
      const places = async (query: Parameters<EventStore["deadLetters"]>[0]) =>
        (await store.deadLetters(query)).map(({ position }) => position);
      expect(await store.deadLetters({ limit: 10 })).toEqual(letters);
      expect(await places({ limit: 2 })).toEqual([1, 3]);
      expect(await places({ after: 3, limit: 2 })).toEqual([5, 7]);
      expect(await places({ projectId: 1, limit: 2 })).toEqual([1, 5]);
      expect(await places({ projectId: 1, after: 5, limit: 2 })).toEqual([7]);
      expect(await store.deadLetter(5)).toEqual(letters[2]);
      expect(await store.deadLetter(4)).toBeUndefined();
      await store.removeDeadLetters([5, 4, 1]);
      await store.removeDeadLetters([]);
      expect(await places({ limit: 10 })).toEqual([3, 7]);
      expect(await store.deadLetter(5)).toBeUndefined();
      const [, , third] = letters;
      if (!third) throw new Error("no letter");
      expect(await store.receipt(1, third.event.uuid)).toBeUndefined();
      // Its uuid is free: the event may come again.
      expect(store.known(1, [third.event])).toEqual(["new"]);
      expect(await insert([sampleRow(10, third.event)])).toMatchObject({ stored: 1 });
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
      const rows = Array.from({ length: 20_000 }, (_, index) => sampleRow(index + 1));
      const last = rows.at(-1);
      if (!last) throw new Error("no rows");
      const repeated = { ...last, position: 20_001 };
      const inserting = insert([...rows, repeated], 20_002);
      // Of a large batch, a part is stored after the other.
      expect(await store.reached(1, 60_000)).toBe(true);
      expect(await store.position()).toBeLessThan(20_000);
      expect(await inserting).toEqual({ stored: 20_000, duplicates: 1 });
      expect(await store.position()).toBe(20_002);
      expect((await find({ limit: 1000 })).length).toBe(1000);
      expect(await store.count({ projectId: 1 })).toBe(20_000);
    });
  });
}

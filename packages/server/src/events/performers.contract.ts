import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { PERSON_A, PERSON_B, PERSON_C, sampleRow } from "./event-store.contract.ts";
import type { EventRow, EventStore } from "./event-store.ts";
import type { PerformerSource, PerformersQuery } from "./performers.ts";

/** What every {@link PerformerSource} must do. */
export function describePerformerSource(
  title: string,
  create: () => Promise<{
    readonly store: EventStore & PerformerSource;
    readonly remove: () => void;
  }>,
): void {
  describe(title, () => {
    let store: EventStore & PerformerSource;
    let remove: () => void;
    beforeEach(async () => {
      ({ store, remove } = await create());
    });
    afterEach(async () => {
      await store.close();
      remove();
    });

    const insert = (rows: readonly EventRow[], merges: readonly [string, string][] = []) => {
      const end = (rows.at(-1)?.position ?? 0) + merges.length;
      return store.insert({
        rows,
        merges: merges.map(([from, into], at) => ({
          position: end - merges.length + at + 1,
          projectId: 1,
          from,
          into,
        })),
        drops: [],
        deadLetters: [],
        end,
      });
    };
    const find = async (query: Partial<PerformersQuery> = {}) => {
      const times = new Map<string, number>();
      const all = { projectId: 1, event: "bought", after: null, before: null, properties: null };
      for await (const run of store.performers({ ...all, ...query })) {
        for (const { personId, times: more } of run) {
          times.set(personId, (times.get(personId) ?? 0) + more);
        }
      }
      return times;
    };
    const bought = (position: number, personId: string, fields: object = {}) =>
      sampleRow(position, { event: "bought", ...fields }, personId);
    const having = (name: string, value: unknown) => ({
      requiredNames: [name],
      matches: (properties: object) => Reflect.get(properties, name) === value,
    });

    it("[ES-12] counts what each person did, of one project and one event", async () => {
      await insert([
        bought(1, PERSON_A),
        bought(2, PERSON_B),
        bought(3, PERSON_A),
        sampleRow(4, { event: "looked" }, PERSON_C),
        bought(5, PERSON_C, { projectId: 2 }),
      ]);
      expect(await find()).toEqual(
        new Map([
          [PERSON_A, 2],
          [PERSON_B, 1],
        ]),
      );
      expect(await find({ event: "nothing" })).toEqual(new Map());
    });

    it("[ES-12] counts within bounds of time, which are exclusive", async () => {
      const at = (day: number) => new Date(Date.UTC(2026, 2, day));
      await insert([
        bought(1, PERSON_A, { timestamp: at(1) }),
        bought(2, PERSON_A, { timestamp: at(2) }),
        bought(3, PERSON_A, { timestamp: at(3) }),
        bought(4, PERSON_B, { timestamp: at(9) }),
      ]);
      expect(await find({ after: at(1), before: at(3) })).toEqual(new Map([[PERSON_A, 1]]));
      expect(await find({ after: at(3) })).toEqual(new Map([[PERSON_B, 1]]));
      expect(await find({ before: at(3) })).toEqual(new Map([[PERSON_A, 2]]));
    });

    it("[ES-12] counts for the person that others became part of", async () => {
      await insert(
        [bought(1, PERSON_A), bought(2, PERSON_B), bought(3, PERSON_C)],
        [
          [PERSON_A, PERSON_B],
          [PERSON_B, PERSON_C],
        ],
      );
      expect(await find()).toEqual(new Map([[PERSON_C, 3]]));
      const everything = { requiredNames: [], matches: () => true };
      expect(await find({ properties: everything })).toEqual(new Map([[PERSON_C, 3]]));
    });

    it("[ES-12] counts only what has the properties asked for, in long texts too", async () => {
      const long = { text: "ß".repeat(50_000) };
      await insert([
        bought(1, PERSON_A, { properties: { price: 5 } }),
        bought(2, PERSON_A, { properties: { price: 6 } }),
        bought(3, PERSON_B, { properties: { price: 5, ...long } }),
        bought(4, PERSON_C, { properties: long }),
        bought(5, PERSON_C, { properties: { nested: { price: 5 } } }),
      ]);
      expect(await find({ properties: having("price", 5) })).toEqual(
        new Map([
          [PERSON_A, 1],
          [PERSON_B, 1],
        ]),
      );
    });

    it("[ES-12] goes through events that lie far apart", async () => {
      const positions = [1, 2, 19_999, 20_001, 20_002, 450_000, 450_001];
      await insert(positions.map((position) => bought(position, PERSON_A)));
      expect(await find()).toEqual(new Map([[PERSON_A, positions.length]]));
      const everything = { requiredNames: [], matches: () => true };
      expect(await find({ properties: everything })).toEqual(
        new Map([[PERSON_A, positions.length]]),
      );
    });

    const momentsOf = async (query: Partial<PerformersQuery> = {}) => {
      const moments: [string, number][] = [];
      const all = { projectId: 1, event: "bought", after: null, before: null, properties: null };
      for await (const run of store.moments({ ...all, ...query })) {
        for (const { personId, atMs } of run) moments.push([personId, atMs]);
      }
      return moments;
    };
    const atMinute = (minute: number) => new Date(Date.UTC(2026, 2, 1, 0, minute));

    it("[ES-25] tells what was done one by one, in the order of time, within bounds", async () => {
      await insert(
        [
          bought(1, PERSON_A, { timestamp: atMinute(9) }),
          bought(2, PERSON_B, { timestamp: atMinute(3) }),
          bought(3, PERSON_A, { timestamp: atMinute(5), properties: { price: 5 } }),
          sampleRow(4, { event: "looked", timestamp: atMinute(4) }, PERSON_A),
          bought(5, PERSON_C, { timestamp: atMinute(4), properties: { price: 5 } }),
          bought(6, PERSON_C, { timestamp: atMinute(4), projectId: 2 }),
        ],
        [[PERSON_C, PERSON_B]],
      );
      const [third, fourth, fifth, ninth] = [3, 4, 5, 9].map((minute) =>
        atMinute(minute).getTime(),
      );
      const all = [
        [PERSON_B, third],
        [PERSON_B, fourth],
        [PERSON_A, fifth],
        [PERSON_A, ninth],
      ];
      expect(await momentsOf()).toEqual(all);
      expect(await momentsOf({ after: atMinute(3), before: atMinute(9) })).toEqual(all.slice(1, 3));
      expect(await momentsOf({ properties: having("price", 5) })).toEqual(all.slice(1, 3));
      expect(await momentsOf({ event: "nothing" })).toEqual([]);
    });

    it("[ES-25] tells many in order, also where most have one and the same time", async () => {
      const count = 60_000;
      const minuteOf = (n: number) => (n % 3 === 0 ? (n * 7_919) % 5_000 : 2_500);
      for (let start = 0; start < count; start += 20_000) {
        const rows = Array.from({ length: 20_000 }, (_, n) =>
          bought(start + n + 1, n % 2 === 0 ? PERSON_A : PERSON_B, {
            timestamp: atMinute(minuteOf(start + n)),
          }),
        );
        await insert(rows);
      }
      const moments = await momentsOf();
      expect(moments).toHaveLength(count);
      const times = moments.map(([, atMs]) => atMs);
      expect(times).toEqual(times.toSorted((a, b) => a - b));
    });
  });
}

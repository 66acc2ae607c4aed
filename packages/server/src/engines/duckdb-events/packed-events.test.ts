import { encodeJson, parseExactJson } from "@hedgerow/core/exact-json";
import fc from "fast-check";
import { expect, it } from "vitest";
import { PERSON_A, sampleRow } from "../../events/event-store.contract.ts";
import type { EventRow } from "../../events/event-store.ts";
import { createEventPacking } from "./packed-events.ts";

const noKeys = () => ({ uuids: new Uint32Array(0), insertIds: new Uint32Array(0) });
/** As UTF-8 has it, in which halves of characters cannot be. */
const wellFormed = (text: string) => Buffer.from(text).toString();

const text = fc.oneof(
  fc.string({ unit: "binary", maxLength: 80 }),
  fc.constantFrom("", "\0", "\x1b", "a\x1fb", "é".repeat(100), "x\n".repeat(90)),
);
const row = fc.record({
  projectId: fc.integer({ min: 1, max: 3 }),
  event: text,
  distinctId: text,
  value: fc.oneof(text, fc.bigInt({ min: 10n ** 17n + 1n, max: 10n ** 30n }), fc.integer()),
  long: fc.constantFrom(0, 0, 0, 5000, 20_000),
  ms: fc.integer({ min: -62_167_219_200_000, max: 253_402_300_799_999 }),
  clientMs: fc.option(fc.integer({ min: -1e12, max: 1e12 })),
  isEmpty: fc.boolean(),
  place: fc.option(fc.constantFrom({}, { $geoip_city_name: "Köln", $geoip_time_zone: "x\u0001" })),
  groups: fc.array(fc.option(text.filter((key) => key !== "")), { maxLength: 5 }),
  changedBy: fc.array(text, { maxLength: 2 }),
});

it("[ES-26] makes the very rows again that were packed", async () => {
  const pack = createEventPacking();
  await fc.assert(
    fc.asyncProperty(fc.array(row, { maxLength: 12 }), async (cases) => {
      const rows = cases.map((one, index): EventRow => {
        const { projectId, event, distinctId, value, long, ms, clientMs } = one;
        const properties = one.isEmpty
          ? {}
          : { [`a${value}`]: value, long: "ß".repeat(long), $insert_id: "x" };
        const clientTimestamp = clientMs === null ? null : new Date(clientMs);
        return {
          ...sampleRow(index + 1, {
            ...{ projectId, event, distinctId, properties, clientTimestamp },
            timestamp: new Date(ms),
          }),
          groupKeys: one.groups,
          changedBy: one.changedBy,
          ...(one.place && {
            added: { properties: one.place, text: JSON.stringify(one.place) },
          }),
        };
      });
      const packed = await pack(rows, noKeys);
      const expected = rows.map(wholeRow).map((row) => ({
        position: row.position,
        personId: PERSON_A,
        event: {
          ...row.event,
          event: wellFormed(row.event.event),
          distinctId: wellFormed(row.event.distinctId),
          properties: parseExactJson(encodeJson(row.event.properties)),
        },
        groupKeys: withoutLastNulls(row.groupKeys).map((key) => key && wellFormed(key)),
        changedBy: row.changedBy,
        propertiesText: encodeJson(row.event.properties),
      }));
      expect(packed.length).toBe(rows.length);
      expect([...packed]).toEqual(expected);
      const isWanted = (projectId: number) => projectId !== 2;
      expect([...packed.ofProjects(isWanted)]).toEqual(
        expected.filter(({ event }) => isWanted(event.projectId)),
      );
      packed.release();
      if (rows.length > 0) expect(() => [...packed]).toThrow(/given back/);
    }),
  );
});

function wholeRow(row: EventRow): EventRow {
  const properties = { ...row.event.properties, ...row.added?.properties };
  return { ...row, event: { ...row.event, properties } };
}

function withoutLastNulls(keys: readonly (string | null)[]): readonly (string | null)[] {
  return keys.slice(0, 1 + keys.findLastIndex((key) => key !== null));
}

it("[ES-26] takes little more memory than what is packed, however little that is", async () => {
  const pack = createEventPacking();
  const row = sampleRow(1, { properties: { text: "x".repeat(500) } });
  const one = () => pack([row], noKeys);
  const first = await one();
  const second = await one();
  for (const packed of [first, second]) {
    expect(packed.memoryBytes).toBeGreaterThan(500);
    expect(packed.memoryBytes).toBeLessThan(2000);
  }
  expect([...first]).toEqual([...second]);
  const large = await pack(
    Array.from({ length: 300 }, (_, index) => sampleRow(index + 1)),
    noKeys,
  );
  expect([...large].map(({ position }) => position)).toEqual(
    Array.from({ length: 300 }, (_, index) => index + 1),
  );
});

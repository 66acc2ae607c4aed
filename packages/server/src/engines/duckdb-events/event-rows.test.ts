import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type DuckDBConnection, DuckDBInstance } from "@duckdb/node-api";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { PERSON_A, sampleRow } from "../../events/event-store.contract.ts";
import type { EventRow } from "../../events/event-store.ts";
import { createTables, openDuckDbEvents } from "./duckdb-events.ts";
import { createEventTable, createRowAppending } from "./event-rows.ts";
import { createTextTables } from "./long-texts.ts";
import { createEventPacking } from "./packed-events.ts";
import { createStatements } from "./statements.ts";

const STORED_AT = new Date("2024-05-06T07:08:09.010Z");

async function inMemory<Result>(use: (connection: DuckDBConnection) => Promise<Result>) {
  const instance = await DuckDBInstance.create(":memory:");
  const connection = await instance.connect();
  try {
    await createEventTable(connection);
    await createTextTables(connection);
    return await use(connection);
  } finally {
    connection.closeSync();
    instance.closeSync();
  }
}

const textRow = (position: number, fields: object, rest: Partial<EventRow> = {}) => {
  const row = sampleRow(position, fields);
  return { ...row, propertiesText: JSON.stringify(row.event.properties), ...rest };
};

const noKeys = () => ({ uuids: new Uint32Array(0), insertIds: new Uint32Array(0) });

/** Packs rows and appends them all. */
function createAppending() {
  const pack = createEventPacking();
  const append = createRowAppending(createStatements());
  return async (connection: DuckDBConnection, rows: readonly EventRow[], storedAt: Date) => {
    const events = await pack(rows, noKeys);
    const indexes = rows.map((_, index) => index);
    await append(connection, [{ events, indexes }], storedAt);
    events.release();
  };
}

async function rowsOf(connection: DuckDBConnection, columns: string) {
  const result = await connection.runAndReadAll(`select ${columns} from events order by position`);
  return result.getRows();
}

/** As UTF-8 has it. */
const wellFormed = (text: string) => Buffer.from(text).toString();

describe("createRowAppending", () => {
  it("[ES-1] keeps every text as it is: empty ones, control characters, halves of characters", () =>
    fc.assert(
      fc.asyncProperty(
        fc.array(
          fc.record({
            event: fc.oneof(fc.string({ unit: "binary" }), fc.string({ minLength: 60 })),
            distinctId: fc.oneof(
              fc.string({ unit: "grapheme" }),
              fc.constantFrom(
                "",
                "\0",
                "\x1b",
                "a\x1fb",
                "\ud800",
                "é".repeat(100),
                "x\n".repeat(90),
              ),
            ),
            group: fc.option(fc.string({ unit: "binary", maxLength: 80 })),
            flag: fc.option(fc.oneof(fc.string({ unit: "binary" }), fc.boolean(), fc.integer())),
          }),
          { minLength: 1, maxLength: 8 },
        ),
        (cases) =>
          inMemory(async (connection) => {
            const rows = cases.map(({ event, distinctId, group, flag }, index) =>
              textRow(
                index + 1,
                { event, distinctId, properties: { $feature_flag: flag, again: event } },
                { groupKeys: [null, group] },
              ),
            );
            await createAppending()(connection, rows, STORED_AT);
            expect(
              await rowsOf(connection, "event, distinct_id, group_1, feature_flag, properties"),
            ).toEqual(
              cases.map(({ event, distinctId, group, flag }, index) => [
                wellFormed(event),
                wellFormed(distinctId),
                group === null ? null : wellFormed(group),
                flag === null ? null : wellFormed(String(flag)),
                rows[index]?.propertiesText,
              ]),
            );
          }),
      ),
      { numRuns: 40 },
    ));

  it("[ES-1] keeps positions up to 2^53 and instants of all years, also before 1970", () =>
    inMemory(async (connection) => {
      const instants = [-62_167_219_200_000, -1, 0, 1, 253_402_300_799_999, 999_999_999, 1e9];
      const rows = instants.map((ms, index) => {
        const position = index === 0 ? 1 : Number.MAX_SAFE_INTEGER - 10 + index;
        return textRow(position, {
          timestamp: new Date(ms),
          clientTimestamp: ms < 0 ? null : new Date(ms),
        });
      });
      await createAppending()(connection, rows, STORED_AT);
      const read = await rowsOf(
        connection,
        `position, epoch_ms(timestamp)::double, epoch_ms(client_timestamp)::double,
          epoch_ms(stored_at)::double, person_id::varchar, uuid::varchar`,
      );
      expect(read).toEqual(
        rows.map(({ position, event }) => [
          BigInt(position),
          event.timestamp.getTime(),
          event.clientTimestamp?.getTime() ?? null,
          STORED_AT.getTime(),
          PERSON_A,
          event.uuid,
        ]),
      );
    }));

  it("[ES-1] takes more rows than one statement, and texts of every length", () =>
    inMemory(async (connection) => {
      const rows = Array.from({ length: 5000 }, (_, index) =>
        textRow(index + 1, { properties: { text: "ß".repeat((index * 7) % 2000) } }),
      );
      const append = createAppending();
      await append(connection, rows, STORED_AT);
      await append(connection, [], STORED_AT);
      await append(connection, [textRow(5001, { properties: { last: true } })], STORED_AT);
      const lengths = await rowsOf(connection, "length(properties)::integer");
      const expected = [...rows, textRow(5001, { properties: { last: true } })].map(
        ({ propertiesText }) => [propertiesText?.length],
      );
      expect(lengths).toEqual(expected);
    }));

  it.each([
    ["a person", { personId: "no uuid" }],
    ["a person as long as a UUID", { personId: "x".repeat(36) }],
    ["a person with the mark between fields", { personId: `\x1f${PERSON_A.slice(1)}` }],
    ["a position", { position: 1.5 }],
  ])("[ES-10] stores nothing of a batch with what is none: %s", (_, broken) =>
    inMemory(async (connection) => {
      const append = createAppending();
      const bad = [textRow(1, {}), textRow(2, {}, broken)];
      await expect(append(connection, bad, STORED_AT)).rejects.toThrow();
      await append(connection, [textRow(3, {})], STORED_AT);
      expect(await rowsOf(connection, "position::integer")).toEqual([[3]]);
    }),
  );

  it("[ES-2] goes on with a file of an earlier version, whose tables were made otherwise", async () => {
    const folder = mkdtempSync(join(tmpdir(), "hedgerow-duckdb-"));
    const path = join(folder, "old's events.duckdb");
    const instance = await DuckDBInstance.create(path);
    const connection = await instance.connect();
    const asBefore = {
      run: (sql: string) => connection.run(sql.replace(/using compression \w+/, "")),
    };
    await createTables(Object.assign(Object.create(connection), asBefore));
    await createAppending()(connection, [textRow(1, {})], STORED_AT);
    await connection.run("update consumer set position = 1");
    connection.closeSync();
    instance.closeSync();
    const store = await openDuckDbEvents(path);
    const row = sampleRow(2);
    const batch = { rows: [row], merges: [], drops: [], deadLetters: [], end: 2 };
    expect(await store.insert(batch)).toEqual({ stored: 1, duplicates: 0 });
    await store.close();
    const again = await openDuckDbEvents(path);
    expect([await again.count({ projectId: 1 }), await again.position()]).toEqual([2, 2]);
    await again.close();
    rmSync(folder, { recursive: true, force: true });
  });

  it("[ES-1] stores the text of properties that a row brings along", async () => {
    const folder = mkdtempSync(join(tmpdir(), "hedgerow-duckdb-"));
    const store = await openDuckDbEvents(join(folder, "events.duckdb"));
    const row = sampleRow(1, { properties: { number: 12345678901234567890n, text: "x" } });
    const rows = [{ ...row, propertiesText: '{"number":12345678901234567890,"text":"x"}' }];
    await store.insert({ rows, merges: [], drops: [], deadLetters: [], end: 1 });
    const query = { projectId: 1, limit: 1, offset: 0, order: "newest-first" } as const;
    expect((await store.events(query)).events[0]?.properties).toEqual(row.event.properties);
    await store.close();
    rmSync(folder, { recursive: true, force: true });
  });
});

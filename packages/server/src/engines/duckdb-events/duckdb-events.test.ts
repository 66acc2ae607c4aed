import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, it } from "vitest";
import {
  describeEventStore,
  PERSON_A,
  PERSON_B,
  PERSON_C,
  sampleRow,
} from "../../events/event-store.contract.ts";
import { openDuckDbEvents } from "./duckdb-events.ts";
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
      deadLetters: [],
      end: position,
    });
    const first = await openDuckDbEvents(path);
    await first.insert(batch(1));
    await first.close();
    for (const suffix of ["", "-wal", "-shm"]) rmSync(`${path}.uuids${suffix}`, { force: true });
    const second = await openDuckDbEvents(path);
    expect(await second.insert(batch(2))).toEqual({ stored: 0 });
    await second.close();
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

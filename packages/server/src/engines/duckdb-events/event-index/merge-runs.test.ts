import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import fc from "fast-check";
import { expect, it } from "vitest";
import { indexFiles } from "./index-files.ts";
import { RECORD_WORDS, writeHolder } from "./key-records.ts";
import { openKeyRun, type RunInfo } from "./key-run.ts";
import { openKeyStore } from "./key-store.ts";
import { mergeRuns } from "./merge-runs.ts";

interface Entry {
  readonly key: number;
  readonly second: number;
}

/** Records with keys of a few numbers, many of which agree in their first word. */
function recordOf(number: number, position = 1, receivedSeconds = 0): Uint32Array {
  const record = new Uint32Array(RECORD_WORDS);
  record.set([number % 7 === 0 ? 2 ** 32 - 1 : Math.imul(number >> 2, 0x9e3779b1), number, 1, 2]);
  writeHolder(record, 0, { position, fingerprint: number, receivedSeconds });
  return record;
}

/** Writes runs, merges them, and compares with a map. Positions follow the order of the entries. */
async function checkMerge(lists: readonly (readonly Entry[])[], sinceSecond: number) {
  const folder = mkdtempSync(join(tmpdir(), "hedgerow-merge-"));
  const options = { folder, files: indexFiles, runs: [], capacity: 60_000, runRecords: 1000 };
  const store = openKeyStore(options);
  const latest = new Map<number, { position: number; second: number }>();
  let position = 0;
  for (const [at, entries] of lists.entries()) {
    for (const { key, second } of entries) {
      position++;
      store.fresh.put(recordOf(key, position, second), 0);
    }
    store.setApart();
    await store.writeRun(`${at}.run`);
  }
  // Of one key within a run only the last is left: what comes before it is gone already.
  position = 0;
  for (const entries of lists) {
    const last = new Map<number, { position: number; second: number }>();
    for (const { key, second } of entries) {
      position++;
      last.set(key, { position, second });
    }
    for (const [key, holder] of last) if (holder.second >= sinceSecond) latest.set(key, holder);
  }
  const inputs: readonly RunInfo[] = store.runs;
  const { info, summary } = await mergeRuns({ folder, inputs, file: "all.run", sinceSecond });
  expect(info.count).toBe(latest.size);
  for (const { second } of latest.values()) {
    expect(info.lastSecond).toBeGreaterThanOrEqual(second);
  }
  for (const known of [summary, undefined]) {
    const run = openKeyRun(join(folder, "all.run"), info, known);
    for (const key of new Set(lists.flat().map(({ key }) => key))) {
      const holder = latest.get(key);
      const found = holder && {
        position: holder.position,
        fingerprint: key,
        receivedSeconds: holder.second,
      };
      expect(run.find(recordOf(key), 0)).toEqual(found);
      // Whatever is there passes the filter.
      const possible = run.sift(recordOf(key), Uint32Array.of(0), 1, new Uint32Array(1));
      if (holder) expect(possible).toBe(1);
    }
    expect(run.find(recordOf(999_999), 0)).toBeUndefined();
    run.close();
  }
  store.close();
  rmSync(folder, { recursive: true });
}

it("[ES-20] keeps of each key the record of the latest event, and none from before a time", async () => {
  const entry = fc.record({ key: fc.nat(40), second: fc.integer({ min: 1, max: 10 }) });
  await fc.assert(
    fc.asyncProperty(
      fc.array(fc.array(entry, { minLength: 1, maxLength: 30 }), { minLength: 1, maxLength: 5 }),
      fc.nat(11),
      checkMerge,
    ),
    { numRuns: 60 },
  );
});

it("[ES-20] merges more records than it reads or writes at a time", async () => {
  const list = (start: number, second: number) =>
    Array.from({ length: 12_000 }, (_, at) => ({ key: start + at, second }));
  await checkMerge([list(1, 1), list(6000, 2), list(9000, 3)], 2);
});

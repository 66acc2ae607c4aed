import { join } from "node:path";
import type { IndexFiles } from "./index-files.ts";
import { type KeyHolder, positionAt } from "./key-records.ts";
import {
  bytesOf,
  createSummaryBuilder,
  type KeyRun,
  openKeyRun,
  type RunInfo,
  runInfoOf,
  summaryParts,
} from "./key-run.ts";
import { createKeyTable, type KeyTable, sortedRecords } from "./key-table.ts";
import type { Merged } from "./merge-runs.ts";

/** So many runs of about one size become one: a lookup asks few of them, however many keys there are. */
const RUNS_PER_MERGE = 4;

/**
 * Keys with their records: the latest in memory, the others in runs on disk. Records of one key
 * hide those of lesser positions.
 */
export interface KeyStore {
  /** Records in memory that no run is being made of. */
  readonly fresh: KeyTable;
  /** From the oldest to the latest. */
  readonly runs: readonly RunInfo[];
  /**
   * For each of some records, in order, what has its key (at the greatest position, where several
   * have); `undefined` for what nothing has, and for records without a position. All of them are
   * looked for in one run before the next.
   */
  findAll(records: Uint32Array, start: number, end: number): readonly (KeyHolder | undefined)[];
  /** Sets the fresh records apart, for a run to be made of them. Nothing may be set apart already. */
  setApart(): void;
  /** Writes what is set apart to a file; it stays where it is when that fails. */
  writeRun(file: string): Promise<void>;
  /** Runs of one size that are to become one, where there are enough: neighbours, the oldest first. */
  mergeable(): readonly RunInfo[] | undefined;
  /** Puts the run that others became in their place. */
  replace(inputs: readonly RunInfo[], merged: Merged): void;
  /** Leaves out runs of which nothing was received since a time. */
  dropBefore(second: number): void;
  close(): void;
}

export interface KeyStoreOptions {
  readonly folder: string;
  readonly files: IndexFiles;
  readonly runs: readonly RunInfo[];
  /** Most records in one table. */
  readonly capacity: number;
  /** Records of a run of the smallest size. */
  readonly runRecords: number;
}

/** Opens the runs of a store. Throws `DamagedRun` where one is missing or not whole. */
export function openKeyStore(options: KeyStoreOptions): KeyStore {
  const { folder, files, capacity, runRecords } = options;
  let runs: KeyRun[] = [];
  try {
    for (const info of options.runs) runs.push(openKeyRun(join(folder, info.file), info));
  } catch (error) {
    for (const run of runs) run.close();
    throw error;
  }
  let fresh = createKeyTable(capacity);
  let apart = createKeyTable(capacity);
  /** Indexes of records that are looked for. */
  let asked = new Uint32Array(0);
  let possible = asked;

  /** 0 for the runs that are made of tables, one more for each fourfold size. */
  const sizeOf = ({ count }: RunInfo) =>
    Math.max(0, Math.floor(Math.log(count / runRecords) / Math.log(RUNS_PER_MERGE) + 0.5));

  /** Takes what is found out of what is asked for; answers how many are left. */
  function withoutFound(
    count: number,
    found: readonly (KeyHolder | undefined)[],
    start: number,
  ): number {
    let left = 0;
    for (let n = 0; n < count; n++) {
      const index = asked[n] as number;
      if (found[index - start] === undefined) asked[left++] = index;
    }
    return left;
  }

  function leaveOut(isLeftOut: (run: KeyRun) => boolean): void {
    const [gone, kept] = [runs.filter(isLeftOut), runs.filter((run) => !isLeftOut(run))];
    runs = kept;
    for (const run of gone) run.close();
  }

  return {
    get fresh() {
      return fresh;
    },
    get runs() {
      return runs.map(({ info }) => info);
    },
    findAll(records, start, end) {
      const found = new Array<KeyHolder | undefined>(end - start);
      if (asked.length < end - start) {
        asked = new Uint32Array(end - start);
        possible = new Uint32Array(end - start);
      }
      let count = 0;
      // What is younger has greater positions.
      for (let index = start; index < end; index++) {
        if (positionAt(records, index) === 0) continue;
        const held = fresh.find(records, index) ?? apart.find(records, index);
        if (held) found[index - start] = held;
        else asked[count++] = index;
      }
      for (let at = runs.length - 1; at >= 0 && count > 0; at--) {
        const run = runs[at] as KeyRun;
        const many = run.sift(records, asked, count, possible);
        let hits = 0;
        for (let n = 0; n < many; n++) {
          const index = possible[n] as number;
          const held = run.find(records, index);
          if (!held) continue;
          found[index - start] = held;
          hits++;
        }
        if (hits > 0) count = withoutFound(count, found, start);
      }
      return found;
    },
    setApart() {
      [fresh, apart] = [apart, fresh];
    },
    async writeRun(file) {
      if (apart.size === 0) return;
      const records = sortedRecords(apart.records);
      const { size: count, lastSecond } = apart;
      const builder = createSummaryBuilder(count);
      for (let index = 0; index < count; index++) builder.add(records, index);
      const summary = builder.finish();
      const path = join(folder, file);
      await files.write(path, [bytesOf(records), ...summaryParts(summary)]);
      runs.push(openKeyRun(path, runInfoOf({ file, count, lastSecond }, summary), summary));
      apart.clear();
    },
    mergeable() {
      const infos = runs.map(({ info }) => info);
      const sizes = infos.map(sizeOf);
      for (let size = 0; size <= Math.max(0, ...sizes); size++) {
        // Behind the last larger one: between runs of a size lie smaller ones at most.
        const start = sizes.findLastIndex((other) => other > size) + 1;
        const first = sizes.indexOf(size, start);
        const some = first < 0 ? [] : infos.slice(first, sizes.lastIndexOf(size) + 1);
        if (some.filter((info) => sizeOf(info) === size).length >= RUNS_PER_MERGE) return some;
      }
      return undefined;
    },
    replace(inputs, { info, summary }) {
      const isInput = ({ info }: KeyRun) => inputs.some(({ file }) => file === info.file);
      const at = runs.findIndex(isInput);
      if (info.count > 0) {
        runs.splice(at, 0, openKeyRun(join(folder, info.file), info, summary));
      }
      leaveOut(isInput);
    },
    dropBefore: (second) => leaveOut(({ info }) => info.lastSecond < second),
    close: () => leaveOut(() => true),
  };
}

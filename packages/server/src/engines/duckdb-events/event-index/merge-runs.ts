import { closeSync, fdatasyncSync, openSync, writeSync } from "node:fs";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { openThread } from "../../../platform/open-thread.ts";
import {
  compareKeys,
  copyRecord,
  positionAt,
  RECORD_BYTES,
  RECORD_WORDS,
  secondsAt,
} from "./key-records.ts";
import {
  bytesOf,
  createSummaryBuilder,
  type RunInfo,
  type RunSummary,
  readWhole,
  runInfoOf,
  summaryParts,
} from "./key-run.ts";

/** Several runs that are to become one. */
export interface Merge {
  readonly folder: string;
  readonly inputs: readonly RunInfo[];
  /** Name of the file to write. */
  readonly file: string;
  /** What was received before is left out. */
  readonly sinceSecond: number;
}

/** The run that several became, durable in its file. */
export interface Merged {
  readonly info: RunInfo;
  readonly summary: RunSummary;
}

/** Rejects when it is given up. */
export type MergeRuns = (merge: Merge, givenUp: AbortSignal) => Promise<Merged>;

const RECORDS_AT_A_TIME = 8192;
/** After each share of work there is a rest: others need the processor more. */
const REST_MS = 1;

/** Merges runs. Of records with one key that of the greatest position stays. */
export async function mergeRuns({ folder, inputs, file, sinceSecond }: Merge): Promise<Merged> {
  const readers = inputs.map((info) => openReader(join(folder, info.file), info));
  const fd = openSync(join(folder, file), "w");
  try {
    const summary = createSummaryBuilder(inputs.reduce((sum, { count }) => sum + count, 0));
    const out = new Uint32Array(RECORDS_AT_A_TIME * RECORD_WORDS);
    let waiting = 0;
    let count = 0;
    let lastSecond = 0;

    const flush = () => {
      writeWhole(fd, bytesOf(out.subarray(0, waiting * RECORD_WORDS)));
      waiting = 0;
    };
    for (let least = leastOf(readers); least; least = leastOf(readers)) {
      const { records, index } = least;
      const isSameKey = waiting > 0 && compareKeys(records, index, out, waiting - 1) === 0;
      if (secondsAt(records, index) >= sinceSecond) {
        lastSecond = Math.max(lastSecond, secondsAt(records, index));
        if (isSameKey) {
          if (positionAt(records, index) > positionAt(out, waiting - 1)) {
            copyRecord(records, index, out, waiting - 1);
          }
        } else {
          // The last one stays back: another with its key may follow.
          if (waiting === RECORDS_AT_A_TIME) {
            waiting--;
            const last = out.slice(waiting * RECORD_WORDS);
            flush();
            out.set(last);
            waiting = 1;
            await sleep(REST_MS);
          }
          copyRecord(records, index, out, waiting);
          summary.add(out, waiting);
          waiting++;
          count++;
        }
      }
      least.next();
    }
    flush();
    const finished = summary.finish();
    for (const part of summaryParts(finished)) writeWhole(fd, part);
    fdatasyncSync(fd);
    return { info: runInfoOf({ file, count, lastSecond }, finished), summary: finished };
  } finally {
    closeSync(fd);
    for (const { close } of readers) close();
  }
}

/** The records of a run one after the other. */
interface Reader {
  readonly records: Uint32Array;
  /** Of the record whose turn it is. */
  index: number;
  /** The first word of its key; infinite after the last. */
  word: number;
  readonly next: () => void;
  readonly close: () => void;
}

function openReader(path: string, { count, file }: RunInfo): Reader {
  const fd = openSync(path, "r");
  const records = new Uint32Array(Math.min(count, RECORDS_AT_A_TIME) * RECORD_WORDS);
  let start = 0;
  let length = 0;
  function fill(): void {
    start += length;
    reader.index = 0;
    length = Math.min(RECORDS_AT_A_TIME, count - start);
    if (length > 0) {
      readWhole(fd, records.subarray(0, length * RECORD_WORDS), start * RECORD_BYTES, file);
    }
  }
  function look(): void {
    const { index } = reader;
    reader.word = length > 0 ? (records[index * RECORD_WORDS] as number) : Number.POSITIVE_INFINITY;
  }
  const reader: Reader = {
    records,
    index: 0,
    word: 0,
    next() {
      reader.index++;
      if (reader.index === length) fill();
      look();
    },
    close: () => closeSync(fd),
  };
  fill();
  look();
  return reader;
}

/** The reader whose record comes first. */
function leastOf(readers: readonly Reader[]): Reader | undefined {
  let least: Reader | undefined;
  let word = Number.POSITIVE_INFINITY;
  for (const reader of readers) {
    if (reader.word > word || reader.word === Number.POSITIVE_INFINITY) continue;
    const comesFirst =
      !least ||
      reader.word < word ||
      compareKeys(reader.records, reader.index, least.records, least.index) < 0;
    if (!comesFirst) continue;
    least = reader;
    word = reader.word;
  }
  return least;
}

/** Merges runs in a thread of its own. */
export const mergeInThread: MergeRuns = (merge, givenUp) =>
  new Promise((resolve, reject) => {
    const thread = openThread(new URL("./merge-runs-thread.ts", import.meta.url), merge);
    const giveUp = () => void thread.terminate();
    givenUp.addEventListener("abort", giveUp);
    thread.once("message", resolve);
    thread.once("error", reject);
    thread.once("exit", () => {
      givenUp.removeEventListener("abort", giveUp);
      // After an answer or an error this changes nothing.
      reject(new Error("the thread that merges runs ended"));
    });
  });

function writeWhole(fd: number, bytes: Uint8Array): void {
  for (let done = 0; done < bytes.length; ) done += writeSync(fd, bytes, done);
}

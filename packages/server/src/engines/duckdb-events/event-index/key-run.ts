import { closeSync, fstatSync, openSync, readSync } from "node:fs";
import { crc32 } from "node:zlib";
import { addToFilter, createKeyFilter, keepPossible } from "./key-filter.ts";
import {
  compareKeys,
  KEY_WORDS,
  type KeyHolder,
  RECORD_BYTES,
  RECORD_WORDS,
  readHolder,
} from "./key-records.ts";

/** Records of one read. */
const PAGE_RECORDS = 128;
const PAGE_BYTES = PAGE_RECORDS * RECORD_BYTES;

/**
 * A file of records in the order of their keys. Behind them lie the first word of the first key of
 * each page, and the filter; both are held in memory.
 */
export interface RunInfo {
  /** Name of the file. */
  readonly file: string;
  readonly count: number;
  /** Words of the filter. */
  readonly filterWords: number;
  /** Of all that is held in memory. */
  readonly checksum: number;
  /** None of its events was received later. */
  readonly lastSecond: number;
}

/** What of a run is held in memory. */
export interface RunSummary {
  readonly pageStarts: Uint32Array;
  readonly filter: Uint32Array;
}

/** Gathers the summary of a run while its records are written in order. */
export interface SummaryBuilder {
  /** The record at an index of a list comes next. */
  add(records: Uint32Array, index: number): void;
  /** The summary of as many records as were added. */
  finish(): RunSummary;
}

/** @param most records that there may be */
export function createSummaryBuilder(most: number): SummaryBuilder {
  const pageStarts = new Uint32Array(Math.ceil(most / PAGE_RECORDS));
  const filter = createKeyFilter(most);
  let count = 0;
  return {
    add(records, index) {
      const at = index * RECORD_WORDS;
      if (count % PAGE_RECORDS === 0) pageStarts[count / PAGE_RECORDS] = records[at] as number;
      addToFilter(filter, records, at);
      count++;
    },
    finish: () => ({ pageStarts: pageStarts.slice(0, Math.ceil(count / PAGE_RECORDS)), filter }),
  };
}

/** The bytes of a summary as they lie in the file. */
export function summaryParts({ pageStarts, filter }: RunSummary): readonly Uint8Array[] {
  return [bytesOf(pageStarts), bytesOf(filter)];
}

/** What describes a run with a summary. */
export function runInfoOf(
  run: Pick<RunInfo, "file" | "count" | "lastSecond">,
  summary: RunSummary,
): RunInfo {
  const [starts, filter] = summaryParts(summary) as [Uint8Array, Uint8Array];
  const checksum = crc32(filter, crc32(starts));
  return { ...run, filterWords: summary.filter.length, checksum };
}

/** The bytes of a list of words. */
export function bytesOf(words: Uint32Array): Uint8Array {
  return new Uint8Array(words.buffer, words.byteOffset, words.byteLength);
}

/** A run that can be asked. */
export interface KeyRun {
  readonly info: RunInfo;
  /**
   * Which of some records may have a key of this run: writes their indexes to `possible` and answers
   * how many they are.
   * @param asked indexes in `records`, as many as `count`
   */
  sift(records: Uint32Array, asked: Uint32Array, count: number, possible: Uint32Array): number;
  /**
   * What the run holds for the key of a record. Reads the disk: for those that were sifted out. Throws
   * {@link DamagedRun} where the file cannot be read.
   */
  find(records: Uint32Array, index: number): KeyHolder | undefined;
  close(): void;
}

/** A file that is not what it was when it was written. */
export class DamagedRun extends Error {
  override readonly name = "DamagedRun";
}

/**
 * Opens a run. Throws {@link DamagedRun} where the file is missing or not whole.
 * @param known its summary, where it need not be read
 */
export function openKeyRun(path: string, info: RunInfo, known?: RunSummary): KeyRun {
  let fd: number;
  try {
    fd = openSync(path, "r");
  } catch (error) {
    throw new DamagedRun(`${info.file} cannot be opened`, { cause: error });
  }
  const { pageStarts, filter } = known ?? readSummary(fd, info);
  const page = new Uint32Array(PAGE_RECORDS * RECORD_WORDS);
  const sought = new Uint32Array(RECORD_WORDS);

  /** The last page that starts before a word: where the first record with it may be. */
  function firstPageOf(word: number): number {
    let low = 0;
    let high = pageStarts.length - 1;
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if ((pageStarts[middle] as number) < word) low = middle;
      else high = middle - 1;
    }
    return low;
  }

  function readPage(records: Uint32Array, number: number): void {
    try {
      readWhole(fd, records, number * PAGE_BYTES, info.file);
    } catch (error) {
      throw new DamagedRun(`${info.file} cannot be read`, { cause: error });
    }
  }

  function findInPage(records: number): number {
    let low = 0;
    let high = records - 1;
    while (low <= high) {
      const middle = (low + high) >> 1;
      const order = compareKeys(page, middle, sought, 0);
      if (order === 0) return middle;
      if (order < 0) low = middle + 1;
      else high = middle - 1;
    }
    return -1;
  }

  return {
    info,
    sift: (records, asked, count, possible) =>
      keepPossible(filter, records, asked, count, possible),
    find(records, index) {
      const start = index * RECORD_WORDS;
      const word = records[start] as number;
      for (let word = 0; word < KEY_WORDS; word++) sought[word] = records[start + word] as number;
      for (let at = firstPageOf(word); at < pageStarts.length; at++) {
        if ((pageStarts[at] as number) > word) return undefined;
        const length = Math.min(PAGE_RECORDS, info.count - at * PAGE_RECORDS);
        readPage(page.subarray(0, length * RECORD_WORDS), at);
        const found = findInPage(length);
        if (found >= 0) return readHolder(page, found);
      }
      return undefined;
    },
    close: () => closeSync(fd),
  };
}

function readSummary(fd: number, info: RunInfo): RunSummary {
  try {
    const { count, filterWords, checksum } = info;
    const pageStarts = new Uint32Array(Math.ceil(count / PAGE_RECORDS));
    const filter = new Uint32Array(filterWords);
    const start = count * RECORD_BYTES;
    const { size } = fstatSync(fd);
    if (size !== start + pageStarts.byteLength + filter.byteLength) {
      throw new DamagedRun(`${info.file} has another length`);
    }
    readWhole(fd, pageStarts, start, info.file);
    readWhole(fd, filter, start + pageStarts.byteLength, info.file);
    if (runInfoOf(info, { pageStarts, filter }).checksum !== checksum) {
      throw new DamagedRun(`${info.file} has other contents`);
    }
    return { pageStarts, filter };
  } catch (error) {
    closeSync(fd);
    throw error;
  }
}

/** Fills a list of words from a file. */
export function readWhole(fd: number, words: Uint32Array, start: number, file: string): void {
  const bytes = bytesOf(words);
  for (let done = 0; done < bytes.length; ) {
    const read = readSync(fd, bytes, done, bytes.length - done, start + done);
    if (read === 0) throw new DamagedRun(`${file} ends too early`);
    done += read;
  }
}

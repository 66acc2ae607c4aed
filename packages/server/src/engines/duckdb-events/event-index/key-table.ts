import {
  compareKeys,
  copyRecord,
  KEY_WORDS,
  type KeyHolder,
  positionAt,
  RECORD_WORDS,
  readHolder,
  secondsAt,
} from "./key-records.ts";

/** Records in memory, found by key. Takes no more than it was made for. */
export interface KeyTable {
  readonly size: number;
  /** When the latest of its events was received; 0 while it is empty. */
  readonly lastSecond: number;
  /** What is held for the key of the record at an index of a list. */
  find(records: Uint32Array, index: number): KeyHolder | undefined;
  /** Adds the record at an index of a list. Of two with one key that of the greater position stays. */
  put(records: Uint32Array, index: number): void;
  putAll(from: KeyTable): void;
  /** The records in the order in which they came, without copying them. */
  readonly records: Uint32Array;
  clear(): void;
}

/** A slot holds the number of a record, from 1, and some bits of its key: most others need no look at it. */
const NUMBER_BITS = 17;
const NUMBER_MASK = 2 ** NUMBER_BITS - 1;

/** @param capacity most records at a time; less than 131,072 */
export function createKeyTable(capacity: number): KeyTable {
  if (capacity > NUMBER_MASK) throw new Error("a table of keys cannot hold so many");
  const slotCount = 2 ** Math.ceil(Math.log2(2 * capacity));
  const slots = new Uint32Array(slotCount);
  const records = new Uint32Array(capacity * RECORD_WORDS);
  let size = 0;
  let lastSecond = 0;

  /** The slot of a key, or the free one where it belongs. */
  function slotOf(keys: Uint32Array, at: number): number {
    const tag = (keys[at + 1] as number) >>> NUMBER_BITS;
    let slot = (keys[at] as number) & (slotCount - 1);
    for (;;) {
      const held = slots[slot] as number;
      if (held === 0) return slot;
      if (held >>> NUMBER_BITS === tag && isKeyOf(keys, at, (held & NUMBER_MASK) - 1)) return slot;
      slot = (slot + 1) & (slotCount - 1);
    }
  }

  function isKeyOf(keys: Uint32Array, keyAt: number, index: number): boolean {
    const at = index * RECORD_WORDS;
    for (let word = 0; word < KEY_WORDS; word++) {
      if (records[at + word] !== keys[keyAt + word]) return false;
    }
    return true;
  }

  /** Where the record of a key is to be written; -1 where a later one is there. */
  function placeFor(keys: Uint32Array, at: number, position: number): number {
    const slot = slotOf(keys, at);
    const held = slots[slot] as number;
    if (held !== 0) {
      const index = (held & NUMBER_MASK) - 1;
      return positionAt(records, index) > position ? -1 : index;
    }
    if (size === capacity) throw new Error("a table of keys is full");
    size++;
    slots[slot] = (((keys[at + 1] as number) >>> NUMBER_BITS) << NUMBER_BITS) | size;
    return size - 1;
  }

  function put(others: Uint32Array, index: number): void {
    const place = placeFor(others, index * RECORD_WORDS, positionAt(others, index));
    if (place < 0) return;
    copyRecord(others, index, records, place);
    lastSecond = Math.max(lastSecond, secondsAt(others, index));
  }

  return {
    get size() {
      return size;
    },
    get lastSecond() {
      return lastSecond;
    },
    get records() {
      return records.subarray(0, size * RECORD_WORDS);
    },
    find(others, index) {
      const held = slots[slotOf(others, index * RECORD_WORDS)] as number;
      return held === 0 ? undefined : readHolder(records, (held & NUMBER_MASK) - 1);
    },
    put,
    putAll(from) {
      const others = from.records;
      for (let index = 0; index < from.size; index++) put(others, index);
    },
    clear() {
      slots.fill(0);
      size = 0;
      lastSecond = 0;
    },
  };
}

const BUCKET_BITS = 16;

/** Records in the order of their keys. */
export function sortedRecords(records: Uint32Array): Uint32Array {
  const count = records.length / RECORD_WORDS;
  const bucketOf = (index: number) =>
    (records[index * RECORD_WORDS] as number) >>> (32 - BUCKET_BITS);
  // Keys are random: by the upper bits of the first word alone they are nearly in order.
  const places = new Uint32Array(2 ** BUCKET_BITS + 1);
  for (let index = 0; index < count; index++) {
    const next = bucketOf(index) + 1;
    places[next] = (places[next] as number) + 1;
  }
  for (let bucket = 1; bucket < places.length; bucket++) {
    places[bucket] = (places[bucket] as number) + (places[bucket - 1] as number);
  }
  const sorted = new Uint32Array(records.length);
  for (let index = 0; index < count; index++) {
    const bucket = bucketOf(index);
    const place = places[bucket] as number;
    places[bucket] = place + 1;
    copyRecord(records, index, sorted, place);
  }
  const spare = new Uint32Array(RECORD_WORDS);
  for (let index = 1; index < count; index++) {
    if (compareKeys(sorted, index - 1, sorted, index) <= 0) continue;
    copyRecord(sorted, index, spare, 0);
    let at = index;
    for (; at > 0 && compareKeys(sorted, at - 1, spare, 0) > 0; at--) {
      copyRecord(sorted, at - 1, sorted, at);
    }
    copyRecord(spare, 0, sorted, at);
  }
  return sorted;
}

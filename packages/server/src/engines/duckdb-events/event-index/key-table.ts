import {
  compareKeys,
  copyRecord,
  KEY_WORDS,
  type KeyHolder,
  positionAt,
  RECORD_WORDS,
  readHolder,
  secondsAt,
  writeRecord,
} from "./key-records.ts";

/** Records in memory, found by key. Takes no more than it was made for. */
export interface KeyTable {
  readonly size: number;
  find(key: Uint32Array): KeyHolder | undefined;
  /** Of two records with one key the one of the greater position stays. */
  put(key: Uint32Array, holder: KeyHolder): void;
  putAll(from: KeyTable): void;
  forEach(visit: (records: Uint32Array, index: number) => void): void;
  clear(): void;
}

/** @param capacity most records at a time */
export function createKeyTable(capacity: number): KeyTable {
  const slotCount = 2 ** Math.ceil(Math.log2(1.5 * capacity));
  const slots = new Uint32Array(slotCount * RECORD_WORDS);
  // Which slots are taken, so that emptying and visiting a table costs as much as it holds.
  const taken = new Uint32Array(capacity);
  let size = 0;

  /** The slot of a key, or the free one where it belongs. */
  function slotOf(key: Uint32Array, keyAt: number): number {
    let slot = (key[keyAt] as number) & (slotCount - 1);
    while (positionAt(slots, slot) !== 0 && !isKeyOf(key, keyAt, slot)) {
      slot = (slot + 1) & (slotCount - 1);
    }
    return slot;
  }

  function isKeyOf(key: Uint32Array, keyAt: number, slot: number): boolean {
    const at = slot * RECORD_WORDS;
    for (let word = 0; word < KEY_WORDS; word++) {
      if (slots[at + word] !== key[keyAt + word]) return false;
    }
    return true;
  }

  /** Whether a record of a position is to be written into a slot. */
  function takeSlot(slot: number, position: number): boolean {
    const before = positionAt(slots, slot);
    if (before > position) return false;
    if (before === 0) {
      if (size === capacity) throw new Error("a table of keys is full");
      taken[size] = slot;
      size++;
    }
    return true;
  }

  const table: KeyTable = {
    get size() {
      return size;
    },
    find(key) {
      const slot = slotOf(key, 0);
      return positionAt(slots, slot) === 0 ? undefined : readHolder(slots, slot);
    },
    put(key, holder) {
      const slot = slotOf(key, 0);
      if (takeSlot(slot, holder.position)) writeRecord(slots, slot, key, holder);
    },
    putAll(from) {
      from.forEach((records, index) => {
        const slot = slotOf(records, index * RECORD_WORDS);
        if (takeSlot(slot, positionAt(records, index))) copyRecord(records, index, slots, slot);
      });
    },
    forEach(visit) {
      for (let index = 0; index < size; index++) visit(slots, taken[index] as number);
    },
    clear() {
      for (let index = 0; index < size; index++) {
        const at = (taken[index] as number) * RECORD_WORDS;
        slots.fill(0, at, at + RECORD_WORDS);
      }
      size = 0;
    },
  };
  return table;
}

/** The records of a table by key, and the latest second of them (0 without any). */
export function sortedRecords(table: KeyTable): { records: Uint32Array; lastSecond: number } {
  const records = new Uint32Array(table.size * RECORD_WORDS);
  // By the first word of the key, with the number of the record below it: numbers sort fast.
  const order = new Float64Array(table.size);
  const unsorted = new Uint32Array(table.size * RECORD_WORDS);
  let count = 0;
  let lastSecond = 0;
  table.forEach((slots, index) => {
    copyRecord(slots, index, unsorted, count);
    order[count] = (slots[index * RECORD_WORDS] as number) * 2 ** 20 + count;
    lastSecond = Math.max(lastSecond, secondsAt(slots, index));
    count++;
  });
  order.sort();
  const spare = new Uint32Array(RECORD_WORDS);
  for (let index = 0; index < count; index++) {
    copyRecord(unsorted, (order[index] as number) % 2 ** 20, records, index);
    // Keys that agree in their first word are rare, and put in order one by one.
    for (let at = index; at > 0 && compareKeys(records, at - 1, records, at) > 0; at--) {
      copyRecord(records, at, spare, 0);
      copyRecord(records, at - 1, records, at);
      copyRecord(spare, 0, records, at - 1);
    }
  }
  return { records, lastSecond };
}

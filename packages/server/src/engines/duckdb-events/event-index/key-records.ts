/**
 * What the index knows of one key, as eight 32-bit words: four of the key, two of the log position
 * (lower half first), the fingerprint of the event, and when it was received, in seconds. Lists of
 * records lie in one array, so that millions of them are few objects.
 */
export const RECORD_WORDS = 8;
export const RECORD_BYTES = 32;
export const KEY_WORDS = 4;

const POSITION = 4;
const FINGERPRINT = 6;
const SECONDS = 7;

/** What a record says of its event. */
export interface KeyHolder {
  readonly position: number;
  /** 0 where it is not known; see `fingerprintOf`. */
  readonly fingerprint: number;
  readonly receivedSeconds: number;
}

/** The record at an index. */
export function readHolder(records: Uint32Array, index: number): KeyHolder {
  const at = index * RECORD_WORDS;
  return {
    position: positionAt(records, index),
    fingerprint: records[at + FINGERPRINT] as number,
    receivedSeconds: records[at + SECONDS] as number,
  };
}

/** The position of the record at an index; 0 where there is none. */
export function positionAt(records: Uint32Array, index: number): number {
  const at = index * RECORD_WORDS + POSITION;
  return (records[at] as number) + (records[at + 1] as number) * 2 ** 32;
}

export function secondsAt(records: Uint32Array, index: number): number {
  return records[index * RECORD_WORDS + SECONDS] as number;
}

/** Writes what a record says of its event; its key is written by itself. */
export function writeHolder(
  records: Uint32Array,
  index: number,
  { position, fingerprint, receivedSeconds }: KeyHolder,
): void {
  const at = index * RECORD_WORDS;
  records[at + POSITION] = position % 2 ** 32;
  records[at + POSITION + 1] = Math.floor(position / 2 ** 32);
  records[at + FINGERPRINT] = fingerprint;
  records[at + SECONDS] = receivedSeconds;
}

/** Copies a record from one list to another. */
export function copyRecord(
  from: Uint32Array,
  fromIndex: number,
  to: Uint32Array,
  toIndex: number,
): void {
  const source = fromIndex * RECORD_WORDS;
  const target = toIndex * RECORD_WORDS;
  for (let word = 0; word < RECORD_WORDS; word++) {
    to[target + word] = from[source + word] as number;
  }
}

/** Less than zero where the key of the first record comes before that of the second. */
export function compareKeys(
  one: Uint32Array,
  oneIndex: number,
  other: Uint32Array,
  otherIndex: number,
): number {
  const a = oneIndex * RECORD_WORDS;
  const b = otherIndex * RECORD_WORDS;
  for (let word = 0; word < KEY_WORDS; word++) {
    const difference = (one[a + word] as number) - (other[b + word] as number);
    if (difference !== 0) return difference;
  }
  return 0;
}

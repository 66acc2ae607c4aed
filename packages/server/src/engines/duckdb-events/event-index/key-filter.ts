import { RECORD_WORDS } from "./key-records.ts";

/**
 * A Bloom filter in blocks of one cache line: asking it touches memory once, however many bits it
 * looks at. Says for certain that a key is not there, or that it may be. Blocks follow the order of
 * keys, so that a filter for sorted ones is made from its beginning to its end.
 */
const BLOCK_WORDS = 16;
const PROBES = 6;
const BITS_PER_KEY = 12;
/** Filters of few keys may be better: all of them together take little. */
const FEW_KEYS = 2 ** 20;
const BITS_PER_FEW_KEYS = 18;

/** A filter for as many keys as there may be. */
export function createKeyFilter(keys: number): Uint32Array {
  const bits = keys * (keys <= FEW_KEYS ? BITS_PER_FEW_KEYS : BITS_PER_KEY);
  return new Uint32Array(BLOCK_WORDS * Math.max(1, Math.ceil(bits / (32 * BLOCK_WORDS))));
}

/** @param at index of the key's first word in `keys` */
export function addToFilter(filter: Uint32Array, keys: Uint32Array, at: number): void {
  const block = blockOf(filter, keys[at] as number);
  const step = (keys[at + 3] as number) | 1;
  let bits = keys[at + 2] as number;
  for (let probe = 0; probe < PROBES; probe++) {
    const word = block + ((bits >>> 28) & 15);
    filter[word] = (filter[word] as number) | (1 << ((bits >>> 23) & 31));
    bits = (bits + step) | 0;
  }
}

/**
 * False where the key was never added.
 * @param at index of the key's first word in `keys`
 */
function mayBeIn(filter: Uint32Array, keys: Uint32Array, at: number): boolean {
  const block = blockOf(filter, keys[at] as number);
  const step = (keys[at + 3] as number) | 1;
  let bits = keys[at + 2] as number;
  for (let probe = 0; probe < PROBES; probe++) {
    const word = filter[block + ((bits >>> 28) & 15)] as number;
    if (((word >>> ((bits >>> 23) & 31)) & 1) === 0) return false;
    bits = (bits + step) | 0;
  }
  return true;
}

/**
 * Writes to `possible` which of the first `count` of some records may have a key of the filter;
 * answers how many. In a large filter each key's block is far from all others: the first loop does
 * nothing but look at one word of each, none of which depends on another, so that the processor
 * fetches many at a time; the second finds the blocks of what is left near by.
 * @param asked indexes of records
 */
export function keepPossible(
  filter: Uint32Array,
  records: Uint32Array,
  asked: Uint32Array,
  count: number,
  possible: Uint32Array,
): number {
  let left = 0;
  for (let n = 0; n < count; n++) {
    const index = asked[n] as number;
    const at = index * RECORD_WORDS;
    const bits = records[at + 2] as number;
    const word = filter[blockOf(filter, records[at] as number) + ((bits >>> 28) & 15)] as number;
    possible[left] = index;
    left += (word >>> ((bits >>> 23) & 31)) & 1;
  }
  let kept = 0;
  for (let n = 0; n < left; n++) {
    const index = possible[n] as number;
    if (mayBeIn(filter, records, index * RECORD_WORDS)) possible[kept++] = index;
  }
  return kept;
}

function blockOf(filter: Uint32Array, word: number): number {
  return BLOCK_WORDS * Math.floor((word / 2 ** 32) * (filter.length / BLOCK_WORDS));
}

import { addSha1Block } from "./sha1.ts";

/** UTF-8 of a text, packed big-endian into 32-bit words as SHA-1 reads it; the tail is zero. */
export interface EncodedText {
  readonly words: Int32Array;
  readonly byteLength: number;
}

/**
 * The bucketing hash (flag-evaluation 2). Texts are encoded once (a prefix per flag, a suffix per
 * request) and joined as words, so that one hash costs little more than its SHA-1 block.
 */
export interface Bucketing {
  encode(text: string): EncodedText;
  /** Where `prefix` followed by `suffix` falls: from 0 to 1, both included. */
  hash(prefix: EncodedText, suffix: EncodedText): number;
}

/** Appended to the identifier when the variant is chosen (flag-evaluation 2.4). */
export const VARIANT_SALT = "variant";

/** All holdouts of a project share this prefix, whatever their id (flag-evaluation 2.5). */
export const HOLDOUT_PREFIX = "holdout-";

/** 0xFFFFFFFFFFFFFFF, the divisor of the definition, rounds to 2 to the 60th as a binary64. */
const TWO_TO_60 = 2 ** 60;

/** Bucketing over SHA-1: the first 60 bits as a binary64, divided by 0xFFFFFFFFFFFFFFF. */
export function createSha1Bucketing(): Bucketing {
  const state = new Int32Array(5);
  let message = new Int32Array(32);
  return {
    encode: encodeUtf8,
    hash(prefix, suffix) {
      const byteLength = prefix.byteLength + suffix.byteLength;
      const wordCount = (((byteLength + 8) >> 6) + 1) << 4;
      if (wordCount > message.length) message = new Int32Array(wordCount);
      joinWords(message, prefix, suffix, byteLength, wordCount);
      state[0] = 0x67452301;
      state[1] = -0x10325477;
      state[2] = -0x67452302;
      state[3] = 0x10325476;
      state[4] = -0x3c2d1e10;
      for (let offset = 0; offset < wordCount; offset += 16) addSha1Block(state, message, offset);
      const high = (state[0] as number) >>> 0;
      const low = (state[1] as number) >>> 4;
      // The sum rounds to nearest even exactly as converting the 60-bit integer would: both
      // terms are exact and there is one addition.
      return (high * 0x10000000 + low) / TWO_TO_60;
    },
  };
}

/** Inside a rollout or not; equality is inside, and 100 is inside without a hash (3.2). */
export function isInsideRollout(hash: number, percentage: number): boolean {
  return percentage === 100 || hash <= percentage / 100;
}

/** Held out or not: the percentage is clamped to 0..100 first (flag-evaluation 9.1). */
export function isHeldOut(hash: number, exclusionPercentage: number): boolean {
  if (exclusionPercentage >= 100) return true;
  return hash <= Math.max(exclusionPercentage, 0) / 100;
}

/**
 * Upper bounds of the variants' shares, in stored order: a running binary64 sum of
 * percentage/100, never a division of summed percentages, whose last bits differ (3.4).
 */
export function accumulateShares(percentages: readonly number[]): Float64Array {
  const bounds = new Float64Array(percentages.length);
  let sum = 0;
  for (const [index, percentage] of percentages.entries()) {
    sum += percentage / 100;
    bounds[index] = sum;
  }
  return bounds;
}

/** Index of the first variant whose bound is above the hash; -1 when none is (3.4, 3.5). */
export function chooseVariant(hash: number, bounds: Float64Array): number {
  for (let index = 0; index < bounds.length; index += 1) {
    if ((bounds[index] as number) > hash) return index;
  }
  return -1;
}

function encodeUtf8(text: string): EncodedText {
  const words = new Int32Array((text.length * 3 + 3) >> 2);
  let length = 0;
  for (let index = 0; index < text.length; index += 1) {
    let code = text.charCodeAt(index);
    if (code < 0x80) {
      putByte(words, length, code);
      length += 1;
      continue;
    }
    if (code >= 0xd800 && code <= 0xdfff) {
      const next = code <= 0xdbff ? text.charCodeAt(index + 1) : Number.NaN;
      if (next >= 0xdc00 && next <= 0xdfff) {
        code = 0x10000 + ((code - 0xd800) << 10) + (next - 0xdc00);
        index += 1;
      } else {
        code = 0xfffd;
      }
    }
    if (code < 0x800) {
      putByte(words, length, 0xc0 | (code >> 6));
      length += 1;
    } else {
      if (code < 0x10000) {
        putByte(words, length, 0xe0 | (code >> 12));
        length += 1;
      } else {
        putByte(words, length, 0xf0 | (code >> 18));
        putByte(words, length + 1, 0x80 | ((code >> 12) & 0x3f));
        length += 2;
      }
      putByte(words, length, 0x80 | ((code >> 6) & 0x3f));
      length += 1;
    }
    putByte(words, length, 0x80 | (code & 0x3f));
    length += 1;
  }
  return { words, byteLength: length };
}

function putByte(words: Int32Array, position: number, byte: number): void {
  const index = position >> 2;
  words[index] = (words[index] as number) | (byte << (24 - ((position & 3) << 3)));
}

/** Writes prefix, suffix and SHA-1's padding into `message`, the suffix shifted word by word. */
function joinWords(
  message: Int32Array,
  prefix: EncodedText,
  suffix: EncodedText,
  byteLength: number,
  wordCount: number,
): void {
  const prefixWords = (prefix.byteLength + 3) >> 2;
  const suffixWords = (suffix.byteLength + 3) >> 2;
  for (let index = 0; index < prefixWords; index += 1) {
    message[index] = prefix.words[index] as number;
  }
  for (let index = prefixWords; index < wordCount; index += 1) message[index] = 0;
  let at = prefix.byteLength >> 2;
  const shift = (prefix.byteLength & 3) << 3;
  if (shift === 0) {
    for (let index = 0; index < suffixWords; index += 1) {
      message[at + index] = suffix.words[index] as number;
    }
  } else {
    const back = 32 - shift;
    for (let index = 0; index < suffixWords; index += 1) {
      const word = suffix.words[index] as number;
      message[at] = (message[at] as number) | (word >>> shift);
      at += 1;
      message[at] = word << back;
    }
  }
  putByte(message, byteLength, 0x80);
  message[wordCount - 1] = byteLength << 3;
}

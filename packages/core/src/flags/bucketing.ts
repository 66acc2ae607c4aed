import { sha1First60 } from "./sha1.ts";

/**
 * UTF-8 of a text, packed big-endian into 32-bit words as SHA-1 reads it; the tail is zero. A plain
 * array: making a typed one costs more than the whole hash.
 */
export interface EncodedText {
  readonly words: readonly number[];
  readonly byteLength: number;
}

/**
 * The bucketing hash (flag-evaluation 2). Texts are encoded once (a prefix per flag, an identifier
 * per request) and joined as words, so that one hash costs little more than its SHA-1 block.
 */
export interface Bucketing {
  encode(text: string): EncodedText;
  /** Where prefix, identifier and salt, one after the other, fall: from 0 to 1, both included. */
  hash(prefix: EncodedText, identifier: EncodedText, salt: EncodedText): number;
}

/** Appended to the identifier when the variant is chosen (flag-evaluation 2.4). */
export const VARIANT_SALT: EncodedText = encodeUtf8("variant");

/** Appended for rollouts and holdouts: nothing. */
export const NO_SALT: EncodedText = encodeUtf8("");

/** All holdouts of a project share this prefix, whatever their id (flag-evaluation 2.5). */
export const HOLDOUT_PREFIX = "holdout-";

/** 0xFFFFFFFFFFFFFFF, the divisor of the definition, rounds to 2 to the 60th as a binary64. */
const TWO_TO_60 = 2 ** 60;

/** Bucketing over SHA-1: the first 60 bits as a binary64, divided by 0xFFFFFFFFFFFFFFF. */
export function createSha1Bucketing(): Bucketing {
  let message = new Int32Array(64);
  return {
    encode: encodeUtf8,
    hash(prefix, identifier, salt) {
      const byteLength = prefix.byteLength + identifier.byteLength + salt.byteLength;
      const wordCount = (((byteLength + 8) >> 6) + 1) << 4;
      if (wordCount > message.length) message = new Int32Array(wordCount);
      joinWords(message, wordCount, byteLength, prefix, identifier, salt);
      return sha1First60(message, wordCount) / TWO_TO_60;
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

/** Writes three texts one after the other, and SHA-1's padding: a one bit, zeros, the bit length. */
function joinWords(
  message: Int32Array,
  wordCount: number,
  byteLength: number,
  prefix: EncodedText,
  identifier: EncodedText,
  salt: EncodedText,
): void {
  for (let index = 0; index < prefix.words.length; index += 1) {
    message[index] = prefix.words[index] as number;
  }
  append(message, prefix.byteLength, identifier.words);
  const saltAt = prefix.byteLength + identifier.byteLength;
  // Words up to here are written whole; the salt and the one bit are added into zeros.
  for (let index = (saltAt + 3) >> 2; index < wordCount; index += 1) message[index] = 0;
  append(message, saltAt, salt.words);
  const end = byteLength >> 2;
  message[end] = (message[end] as number) | (0x80 << (24 - ((byteLength & 3) << 3)));
  message[wordCount - 1] = byteLength << 3;
}

/** Adds words at a byte position: the word there keeps its leading bytes, later ones are replaced. */
function append(message: Int32Array, position: number, words: readonly number[]): void {
  const shift = (position & 3) << 3;
  let at = position >> 2;
  if (shift === 0) {
    for (let index = 0; index < words.length; index += 1) {
      message[at + index] = words[index] as number;
    }
    return;
  }
  let carry = message[at] as number;
  for (let index = 0; index < words.length; index += 1) {
    const word = words[index] as number;
    message[at] = carry | (word >>> shift);
    carry = word << (32 - shift);
    at += 1;
  }
  message[at] = carry;
}

function encodeUtf8(text: string): EncodedText {
  const words: number[] = [];
  const whole = text.length & ~3;
  let index = 0;
  for (; index < whole; index += 4) {
    const a = text.charCodeAt(index);
    const b = text.charCodeAt(index + 1);
    const c = text.charCodeAt(index + 2);
    const d = text.charCodeAt(index + 3);
    if ((a | b | c | d) >= 0x80) return encodeRest(text, index, words);
    words.push((a << 24) | (b << 16) | (c << 8) | d);
  }
  if (index === text.length) return { words, byteLength: index };
  return encodeRest(text, index, words);
}

/** Encodes what follows the leading ASCII: the last few characters, or all from a wider one on. */
function encodeRest(text: string, start: number, words: number[]): EncodedText {
  let length = start;
  const put = (byte: number): void => {
    const shift = 24 - ((length & 3) << 3);
    if (shift === 24) words.push(byte << 24);
    else words[words.length - 1] = (words[words.length - 1] as number) | (byte << shift);
    length += 1;
  };
  for (let index = start; index < text.length; index += 1) {
    let code = text.charCodeAt(index);
    if (code >= 0xd800 && code <= 0xdfff) {
      const next = code <= 0xdbff ? text.charCodeAt(index + 1) : Number.NaN;
      if (next >= 0xdc00 && next <= 0xdfff) {
        code = 0x10000 + ((code - 0xd800) << 10) + (next - 0xdc00);
        index += 1;
      } else {
        code = 0xfffd;
      }
    }
    if (code < 0x80) {
      put(code);
      continue;
    }
    if (code < 0x800) put(0xc0 | (code >> 6));
    else {
      if (code < 0x10000) put(0xe0 | (code >> 12));
      else {
        put(0xf0 | (code >> 18));
        put(0x80 | ((code >> 12) & 0x3f));
      }
      put(0x80 | ((code >> 6) & 0x3f));
    }
    put(0x80 | (code & 0x3f));
  }
  return { words, byteLength: length };
}

import { sha1First60 } from "./sha1.ts";

/** UTF-8 of a text, packed big-endian into 32-bit words as SHA-1 reads it; the tail is zero. */
export interface EncodedText {
  readonly words: Int32Array;
  readonly byteLength: number;
}

/**
 * The bucketing hash (flag-evaluation 2). Prefixes and salts are encoded once per flag, and an
 * identifier once for all flags that hash it in a row; joining them as words costs little.
 */
export interface Bucketing {
  encode(text: string): EncodedText;
  /** Where prefix, identifier and salt, one after the other, fall: from 0 to 1, both included. */
  hash(prefix: EncodedText, identifier: string, salt: EncodedText): number;
}

/** Appended to the identifier when the variant is chosen (flag-evaluation 2.4). */
export const VARIANT_SALT: EncodedText = encodeUtf8("variant");

/** Appended for rollouts and holdouts: nothing. */
export const NO_SALT: EncodedText = encodeUtf8("");

/** All holdouts of a project share this prefix, whatever their id (flag-evaluation 2.5). */
export const HOLDOUT_PREFIX = "holdout-";

/** 0xFFFFFFFFFFFFFFF, the divisor of the definition, rounds to 2 to the 60th as a binary64. */
const TWO_TO_60 = 2 ** 60;

/** Bytes that fit one block of SHA-1 beside its padding; nearly all keys and ids together do. */
const MAX_SHORT_BYTES = 55;
const BLOCK_WORDS = 16;

/** Bucketing over SHA-1: the first 60 bits as a binary64, divided by 0xFFFFFFFFFFFFFFF. */
export function createSha1Bucketing(): Bucketing {
  // Memory is kept from call to call: making a typed array costs more than the whole hash.
  let message = new Int32Array(64);
  const last = { text: "", words: new Int32Array(64), byteLength: 0 };
  // What follows a prefix (identifier, salt, one bit, zeros) for each of the two salts and each of
  // the four places in a word where a prefix may end: all flags of a request share these. Made for an
  // identifier that is hashed again.
  const tails = new Int32Array(8 * BLOCK_WORDS);
  const tail = new Int32Array(2 * BLOCK_WORDS);
  let knownTails = 0;

  function takeTail(prefix: EncodedText, salt: EncodedText): number {
    const misfit = prefix.byteLength & 3;
    const place = salt === VARIANT_SALT ? misfit + 4 : misfit;
    const at = place * BLOCK_WORDS;
    if ((knownTails & (1 << place)) !== 0) return at;
    knownTails |= 1 << place;
    joinWords(tail, BLOCK_WORDS, misfit + last.byteLength + salt.byteLength, {
      prefix: ZEROS[misfit] as EncodedText,
      identifier: last,
      salt,
    });
    for (let index = 0; index < BLOCK_WORDS; index += 1) tails[at + index] = tail[index] as number;
    // The length is the whole message's and differs.
    tails[at + BLOCK_WORDS - 1] = 0;
    return at;
  }

  return {
    encode: encodeUtf8,
    hash(prefix, identifier, salt) {
      if (identifier !== last.text) {
        last.text = identifier;
        last.byteLength = NOT_ENCODED;
        if (writeShort(message, prefix, identifier, salt)) {
          return sha1First60(message, BLOCK_WORDS) / TWO_TO_60;
        }
      }
      if (last.byteLength === NOT_ENCODED) {
        if (wordsFor(identifier) > last.words.length)
          last.words = new Int32Array(wordsFor(identifier));
        last.byteLength = writeUtf8(last.words, identifier);
        knownTails = 0;
      }
      const byteLength = prefix.byteLength + last.byteLength + salt.byteLength;
      if (byteLength <= MAX_SHORT_BYTES && (salt === NO_SALT || salt === VARIANT_SALT)) {
        const { words } = prefix;
        const from = takeTail(prefix, salt);
        const whole = prefix.byteLength >> 2;
        for (let index = 0; index < whole; index += 1) message[index] = words[index] as number;
        for (let index = whole, next = from; index < BLOCK_WORDS - 1; index += 1, next += 1) {
          message[index] = tails[next] as number;
        }
        if ((prefix.byteLength & 3) !== 0) {
          message[whole] = (message[whole] as number) | (words[whole] as number);
        }
        message[BLOCK_WORDS - 1] = byteLength << 3;
        return sha1First60(message, BLOCK_WORDS) / TWO_TO_60;
      }
      const wordCount = (((byteLength + 8) >> 6) + 1) << 4;
      if (wordCount > message.length) message = new Int32Array(wordCount);
      joinWords(message, wordCount, byteLength, { prefix, identifier: last, salt });
      return sha1First60(message, wordCount) / TWO_TO_60;
    },
  };
}

const NOT_ENCODED = -1;

/**
 * Writes a message of one block with its padding, in one go: the quickest for an identifier that is
 * hashed once. Gives up, with what it wrote left over, where the identifier is not ASCII or all
 * together do not fit.
 */
function writeShort(
  message: Int32Array,
  prefix: EncodedText,
  identifier: string,
  salt: EncodedText,
): boolean {
  const byteLength = prefix.byteLength + identifier.length + salt.byteLength;
  if (byteLength > MAX_SHORT_BYTES) return false;
  let at = prefix.byteLength >> 2;
  let shift = 24 - ((prefix.byteLength & 3) << 3);
  let word = shift === 24 ? 0 : (prefix.words[at] as number);
  for (let index = 0; index < at; index += 1) message[index] = prefix.words[index] as number;
  for (let index = 0; index < identifier.length; index += 1) {
    const code = identifier.charCodeAt(index);
    if (code >= 0x80) return false;
    word |= code << shift;
    shift -= 8;
    if (shift < 0) {
      message[at] = word;
      at += 1;
      word = 0;
      shift = 24;
    }
  }
  for (let index = 0; index < salt.byteLength; index += 1) {
    word |= (((salt.words[index >> 2] as number) >>> (24 - ((index & 3) << 3))) & 0xff) << shift;
    shift -= 8;
    if (shift < 0) {
      message[at] = word;
      at += 1;
      word = 0;
      shift = 24;
    }
  }
  message[at] = word | (0x80 << shift);
  for (let index = at + 1; index < BLOCK_WORDS - 1; index += 1) message[index] = 0;
  message[BLOCK_WORDS - 1] = byteLength << 3;
  return true;
}

/** Texts of no to three zero bytes. */
const ZEROS: readonly EncodedText[] = [0, 1, 2, 3].map((byteLength) => ({
  words: new Int32Array(1),
  byteLength,
}));

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
  { prefix, identifier, salt }: { prefix: EncodedText; identifier: EncodedText; salt: EncodedText },
): void {
  append(message, 0, prefix);
  append(message, prefix.byteLength, identifier);
  const saltAt = prefix.byteLength + identifier.byteLength;
  // Words up to here are written whole; the salt and the one bit are added into zeros.
  for (let index = (saltAt + 3) >> 2; index < wordCount; index += 1) message[index] = 0;
  append(message, saltAt, salt);
  const end = byteLength >> 2;
  message[end] = (message[end] as number) | (0x80 << (24 - ((byteLength & 3) << 3)));
  message[wordCount - 1] = byteLength << 3;
}

/** Adds a text at a byte position: the word there keeps its leading bytes, later ones are replaced. */
function append(message: Int32Array, position: number, text: EncodedText): void {
  const { words } = text;
  const count = (text.byteLength + 3) >> 2;
  const shift = (position & 3) << 3;
  let at = position >> 2;
  if (shift === 0) {
    for (let index = 0; index < count; index += 1) message[at + index] = words[index] as number;
    return;
  }
  let carry = message[at] as number;
  for (let index = 0; index < count; index += 1) {
    const word = words[index] as number;
    message[at] = carry | (word >>> shift);
    carry = word << (32 - shift);
    at += 1;
  }
  message[at] = carry;
}

/** Words that always suffice for a text: three bytes for every UTF-16 unit. */
function wordsFor(text: string): number {
  return (text.length * 3 + 3) >> 2;
}

function encodeUtf8(text: string): EncodedText {
  const words = new Int32Array(wordsFor(text));
  return { words, byteLength: writeUtf8(words, text) };
}

/** Writes a text and answers its length in bytes; bytes after it in its last word become zero. */
function writeUtf8(words: Int32Array, text: string): number {
  const whole = text.length & ~3;
  let index = 0;
  for (; index < whole; index += 4) {
    const a = text.charCodeAt(index);
    const b = text.charCodeAt(index + 1);
    const c = text.charCodeAt(index + 2);
    const d = text.charCodeAt(index + 3);
    if ((a | b | c | d) >= 0x80) break;
    words[index >> 2] = (a << 24) | (b << 16) | (c << 8) | d;
  }
  return index === text.length ? index : writeRest(words, text, index);
}

/** Writes what follows the leading ASCII: the last few characters, or all from a wider one on. */
function writeRest(words: Int32Array, text: string, start: number): number {
  let length = start;
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
      length = writeByte(words, length, code);
      continue;
    }
    if (code < 0x800) length = writeByte(words, length, 0xc0 | (code >> 6));
    else {
      if (code < 0x10000) length = writeByte(words, length, 0xe0 | (code >> 12));
      else {
        length = writeByte(words, length, 0xf0 | (code >> 18));
        length = writeByte(words, length, 0x80 | ((code >> 12) & 0x3f));
      }
      length = writeByte(words, length, 0x80 | ((code >> 6) & 0x3f));
    }
    length = writeByte(words, length, 0x80 | (code & 0x3f));
  }
  return length;
}

/** Writes one byte and answers the position after it; the first byte of a word clears the rest. */
function writeByte(words: Int32Array, position: number, byte: number): number {
  const index = position >> 2;
  const shift = 24 - ((position & 3) << 3);
  words[index] = shift === 24 ? byte << 24 : (words[index] as number) | (byte << shift);
  return position + 1;
}

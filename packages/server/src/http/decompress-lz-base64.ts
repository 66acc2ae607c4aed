const ALPHABET = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
const SIX_BITS = new Map([...ALPHABET].map((character, value) => [character, value]));

/** Codes with a meaning of their own: a new 8-bit character, a new 16-bit one, the end. */
const NEW_8_BIT = 0;
const NEW_16_BIT = 1;
const END = 2;

/**
 * Decompresses the base64 form of lz-string (`compression=lz64`), never building more than
 * `maxChars` characters: the library itself has no bound, and a few kilobytes can hold gigabytes.
 * Answers `"not-lz"` for texts that are no such stream and `"too-large"` beyond the bound.
 */
export function decompressLzBase64(
  text: string,
  maxChars: number,
): { text: string } | "not-lz" | "too-large" {
  const bits = new BitReader(text);
  // Entries below 3 are never referred to: they are the special codes.
  const phrases: string[] = ["", "", ""];
  const pieces: string[] = [];
  let length = 0;
  let previous: string | undefined;
  let width = 2;
  let untilWider = 4;
  for (;;) {
    const code = bits.read(width);
    if (code === undefined) return "not-lz";
    if (code === END) return { text: pieces.join("") };
    let phrase: string | undefined;
    if (code === NEW_8_BIT || code === NEW_16_BIT) {
      const unit = bits.read(code === NEW_8_BIT ? 8 : 16);
      if (unit === undefined) return "not-lz";
      phrase = String.fromCharCode(unit);
      phrases.push(phrase);
      if (previous !== undefined) untilWider--;
    } else if (previous !== undefined) {
      phrase = code === phrases.length ? previous + previous.charAt(0) : phrases[code];
    }
    if (phrase === undefined) return "not-lz";
    if (previous !== undefined) {
      if (untilWider === 0) {
        untilWider = 2 ** width;
        width++;
      }
      phrases.push(previous + phrase.charAt(0));
      untilWider--;
    } else {
      width = 3;
    }
    length += phrase.length;
    if (length > maxChars) return "too-large";
    pieces.push(phrase);
    previous = phrase;
    if (untilWider === 0) {
      untilWider = 2 ** width;
      width++;
    }
  }
}

/** Numbers of any width out of base64 characters: most significant bit of each character first, least significant bit of each number first. */
class BitReader {
  readonly #text: string;
  #at = 0;
  #value = 0;
  #bitsLeft = 0;

  constructor(text: string) {
    this.#text = text;
  }

  /** `undefined` past the end or at a character that is not base64. */
  read(width: number): number | undefined {
    let number = 0;
    for (let power = 0; power < width; power++) {
      if (this.#bitsLeft === 0) {
        const value = SIX_BITS.get(this.#text.charAt(this.#at++));
        if (value === undefined) return undefined;
        this.#value = value;
        this.#bitsLeft = 6;
      }
      this.#bitsLeft--;
      if ((this.#value >> this.#bitsLeft) & 1) number += 2 ** power;
    }
    return number;
  }
}

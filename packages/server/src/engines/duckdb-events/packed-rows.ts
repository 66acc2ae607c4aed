/** Ends a field; in UTF-8 this byte stands for nothing else. */
export const FIELD_END = 0x1f;
const FIELD_MARK = String.fromCharCode(FIELD_END);
/** Stands between two rows. */
export const ROW_END = 0;
/** Begins a text of which every byte follows as two hexadecimal digits. */
export const HEX_MARK = 0x1b;

const COMMA = 0x2c;
/** Text of an object without members. */
export const NO_MEMBERS = "{}";

/** Shorter texts are copied here: calling for it takes longer. */
const SHORT_CHARS = 64;
/** A UTF-16 unit takes at most this many bytes of UTF-8. */
const MAX_UNIT_BYTES = 3;
/** Memory to begin with, unless told otherwise. */
export const FIRST_CAPACITY = 64 * 1024;
const HIGH_FACTOR = 1e9;
const HIGH_DIGITS = 9;

/** Rows of fields as one run of UTF-8, which DuckDB takes apart on a thread of its own. */
export interface PackedRows {
  /** A whole number, exact as a `number`. Throws for any other. */
  whole(value: number): void;
  /** A text; control characters in it, and the lack of any, are written as {@link HEX_MARK} tells. */
  text(value: string): void;
  /**
   * The text of a JSON object, and that of another whose members follow: neither holds control
   * characters, and they are joined here so that no text of both is made.
   */
  json(object: string, more?: string): void;
  /** A field without a value: it has no bytes. */
  absent(): void;
  /** Answers whether any text of the row is written in hexadecimal digits. */
  endRow(): boolean;
  /** Adds a whole row from bytes that end with it. */
  copyRow(from: Uint8Array, start: number, end: number, hasHex: boolean): void;
  /** Adds all rows of others. */
  copyRows(from: PackedRows): void;
  readonly rowCount: number;
  readonly byteCount: number;
  /** Bytes of memory that it holds, written or not. */
  readonly capacity: number;
  /** Whether any row has a text in hexadecimal digits. */
  readonly hasHex: boolean;
  /** All rows since the beginning; of use until more is written. */
  bytes(): Uint8Array;
  /** The texts of the fields that lie at some bytes, without the end of their row. */
  fieldsAt(start: number, end: number): readonly string[];
  /** Begins anew, in the same memory. */
  clear(): void;
}

/** @param firstCapacity bytes of memory to begin with */
export function createPackedRows(firstCapacity: number = FIRST_CAPACITY): PackedRows {
  let to = Buffer.allocUnsafeSlow(firstCapacity);
  let at = 0;
  let rowCount = 0;
  let hasHex = false;
  let isHexRow = false;

  function makeRoom(bytes: number): void {
    if (at + bytes <= to.length) return;
    const larger = Buffer.allocUnsafeSlow(Math.max(2 * to.length, at + bytes));
    to.copy(larger, 0, 0, at);
    to = larger;
  }

  function endField(): void {
    to[at++] = FIELD_END;
  }

  function putDigits(value: number, digits: number): void {
    let rest = value;
    for (let index = at + digits - 1; index >= at; index--) {
      const next = Math.trunc(rest / 10);
      to[index] = 0x30 + rest - 10 * next;
      rest = next;
    }
    at += digits;
  }

  function putWhole(value: number): void {
    if (value >= HIGH_FACTOR) {
      const high = Math.floor(value / HIGH_FACTOR);
      putWhole(high);
      putDigits(value - HIGH_FACTOR * high, HIGH_DIGITS);
      return;
    }
    let digits = 1;
    for (let bound = 10; value >= bound; bound *= 10) digits++;
    putDigits(value, digits);
  }

  /** False for a text that is not to be written a byte a character; nothing is written then. */
  function putAscii(value: string): boolean {
    for (let index = 0; index < value.length; index++) {
      const code = value.charCodeAt(index);
      if (code < 0x20 || code > 0x7e) return false;
      to[at + index] = code;
    }
    at += value.length;
    return true;
  }

  function putHex(value: string): void {
    const digits = Buffer.from(value).toString("hex");
    makeRoom(digits.length + 2);
    to[at++] = HEX_MARK;
    at += to.write(digits, at);
    isHexRow = true;
  }

  return {
    whole(value) {
      if (!Number.isSafeInteger(value)) throw new Error(`not a whole number: ${value}`);
      makeRoom(32);
      if (value < 0) to[at++] = 0x2d;
      putWhole(Math.abs(value));
      endField();
    },
    text(value) {
      makeRoom(MAX_UNIT_BYTES * value.length + 1);
      if (value === "" || value.length > SHORT_CHARS || !putAscii(value)) {
        if (value === "" || holdsControls(value)) putHex(value);
        else at += to.write(value, at);
      }
      endField();
    },
    json(object, more = NO_MEMBERS) {
      makeRoom(MAX_UNIT_BYTES * (object.length + more.length) + 1);
      at += to.write(object, at);
      if (more !== NO_MEMBERS) {
        const isFirst = object === NO_MEMBERS;
        // In the place of the bracket that ends the one stands that which begins the other.
        at -= isFirst ? object.length : 1;
        const length = to.write(more, at);
        if (!isFirst) to[at] = COMMA;
        at += length;
      }
      endField();
    },
    absent() {
      makeRoom(1);
      endField();
    },
    endRow() {
      makeRoom(1);
      to[at++] = ROW_END;
      rowCount++;
      const isHex = isHexRow;
      hasHex ||= isHex;
      isHexRow = false;
      return isHex;
    },
    copyRow(from, start, end, isHex) {
      makeRoom(end - start);
      to.set(from.subarray(start, end), at);
      at += end - start;
      rowCount++;
      hasHex ||= isHex;
    },
    copyRows(from) {
      makeRoom(from.byteCount);
      to.set(from.bytes(), at);
      at += from.byteCount;
      rowCount += from.rowCount;
      hasHex ||= from.hasHex;
    },
    get rowCount() {
      return rowCount;
    },
    get byteCount() {
      return at;
    },
    get capacity() {
      return to.length;
    },
    get hasHex() {
      return hasHex;
    },
    bytes: () => to.subarray(0, at),
    fieldsAt: (start, end) => to.toString("utf8", start, end).split(FIELD_MARK),
    clear() {
      at = 0;
      rowCount = 0;
      hasHex = false;
      isHexRow = false;
    },
  };
}

function holdsControls(text: string): boolean {
  for (let index = 0; index < text.length; index++) if (text.charCodeAt(index) < 0x20) return true;
  return false;
}

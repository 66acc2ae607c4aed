import { viewOf } from "./part.ts";

/** Names of encodings as Node.js writes them. */
const NAMES: Readonly<Record<string, string>> = {
  utf8: "utf8",
  "utf-8": "utf8",
  ucs2: "utf16le",
  "ucs-2": "utf16le",
  utf16le: "utf16le",
  "utf-16le": "utf16le",
  latin1: "latin1",
  binary: "latin1",
  ascii: "ascii",
  hex: "hex",
  base64: "base64",
  base64url: "base64url",
};

/** Node's `StringDecoder`: makes texts of bytes that come in pieces, and keeps back what is not whole yet. */
export class StringDecoder {
  readonly encoding: string;
  #kept = new Uint8Array(0);

  constructor(encoding: unknown = "utf8") {
    const name = String(encoding).toLowerCase();
    const known = Object.hasOwn(NAMES, name) ? NAMES[name] : undefined;
    if (known === undefined) {
      const error = new TypeError(`Unknown encoding: ${String(encoding)}`);
      throw Object.assign(error, { code: "ERR_UNKNOWN_ENCODING" });
    }
    this.encoding = known;
  }

  write(bytes: unknown): string {
    if (typeof bytes === "string") return bytes;
    const more = viewOf(bytes);
    const all = new Uint8Array(this.#kept.length + more.length);
    all.set(this.#kept);
    all.set(more, this.#kept.length);
    const whole = all.length - keptBytes(all, this.encoding);
    this.#kept = all.slice(whole);
    return textOf(all.subarray(0, whole), this.encoding);
  }

  end(bytes?: unknown): string {
    const text = bytes === undefined ? "" : this.write(bytes);
    const rest = this.#kept;
    this.#kept = new Uint8Array(0);
    // Half a unit of UTF-16 is nothing.
    const length = this.encoding === "utf16le" ? rest.length - (rest.length % 2) : rest.length;
    return text + textOf(rest.subarray(0, length), this.encoding);
  }
}

function textOf(bytes: Uint8Array, encoding: string): string {
  if (bytes.length === 0) return "";
  if (encoding === "utf8") return new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes);
  const { buffer, byteOffset, byteLength } = bytes;
  return Buffer.from(buffer, byteOffset, byteLength).toString(encoding as BufferEncoding);
}

/** How many bytes at the end begin something that goes on behind them. */
function keptBytes(bytes: Uint8Array, encoding: string): number {
  const { length } = bytes;
  switch (encoding) {
    case "utf8":
      return keptOfUtf8(bytes);
    case "utf16le": {
      const odd = length % 2;
      const isHigh = length - odd >= 2 && ((bytes[length - odd - 1] ?? 0) & 0xfc) === 0xd8;
      return odd + (isHigh ? 2 : 0);
    }
    case "base64":
    case "base64url":
      return length % 3;
    default:
      return 0;
  }
}

function keptOfUtf8(bytes: Uint8Array): number {
  for (let back = 1; back <= Math.min(3, bytes.length); back += 1) {
    const byte = bytes[bytes.length - back] ?? 0;
    if ((byte & 0xc0) === 0x80) continue;
    const needed =
      (byte & 0xe0) === 0xc0 ? 2 : (byte & 0xf0) === 0xe0 ? 3 : (byte & 0xf8) === 0xf0 ? 4 : 1;
    return needed > back ? back : 0;
  }
  return 0;
}

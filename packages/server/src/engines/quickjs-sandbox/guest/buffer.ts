import * as library from "buffer/";
import { fromLatin1, type GuestCore, toLatin1, utf8, viewOf } from "./part.ts";

type AnyFunction = (...values: unknown[]) => unknown;
type Methods = Record<string, AnyFunction>;

/** From so many on the host is quicker. */
const MANY_BYTES = 1_000;
const BY_HOST = new Set(["utf8", "utf-8", "latin1", "binary", "hex", "base64", "base64url"]);

/** Node's `Buffer`, from the kept library, which lacks one encoding: `base64url`. */
export function makePart(core: GuestCore): Record<string, unknown> {
  const { Buffer, SlowBuffer, kMaxLength } = library as unknown as Record<string, unknown>;
  const statics = Buffer as Methods;
  const { prototype } = Buffer as { prototype: Methods };
  // Arguments before these are never encodings.
  for (const [name, first] of [
    ["from", 1],
    ["byteLength", 1],
    ["alloc", 2],
  ] as const) {
    readAsNode(statics, name, first);
  }
  for (const name of ["write", "fill", "indexOf", "lastIndexOf", "includes"]) {
    readAsNode(prototype, name, 1);
  }
  const { from, byteLength } = statics as { from: AnyFunction; byteLength: AnyFunction };
  const isLong = (text: unknown, encoding: unknown): text is string =>
    typeof text === "string" &&
    text.length > MANY_BYTES &&
    (encoding === undefined || /^utf-?8$/i.test(String(encoding)));
  define(statics, "from", function (this: unknown, data, encoding, ...rest) {
    const bytes = isLong(data, encoding) ? fromLatin1(utf8(data)).buffer : undefined;
    return Reflect.apply(from, this, bytes === undefined ? [data, encoding, ...rest] : [bytes]);
  });
  define(statics, "byteLength", function (this: unknown, data, encoding) {
    if (isLong(data, encoding)) return utf8(data).length;
    return Reflect.apply(byteLength, this, [data, encoding]);
  });
  const { isEncoding } = statics as { isEncoding: AnyFunction };
  define(statics, "isEncoding", (encoding) => isBase64Url(encoding) || isEncoding(encoding));
  const { toString: write } = prototype as { toString: AnyFunction };
  define(prototype, "toString", function (this: unknown, encoding, ...range) {
    const name = encoding === undefined ? "utf8" : String(encoding).toLowerCase();
    if (this instanceof Uint8Array && this.length > MANY_BYTES && BY_HOST.has(name)) {
      const [start, end] = range as [number | undefined, number | undefined];
      const part = Uint8Array.prototype.subarray.call(this, Math.max(0, start ?? 0), end);
      if (part.length > MANY_BYTES) return core.textOf(part, name);
    }
    if (!isBase64Url(encoding)) {
      const text = Reflect.apply(write, this, [encoding, ...range]) as string;
      // The library counts bytes that are no text otherwise than Node.js does.
      if (!/^utf-?8$/.test(name) || !text.includes("\uFFFD")) return text;
      const [start, end] = range as [number | undefined, number | undefined];
      const bytes = this as Uint8Array;
      return core.textOf(bytes.subarray(Math.max(0, start ?? 0), end), "utf8");
    }
    const text = Reflect.apply(write, this, ["base64", ...range]) as string;
    return text.replaceAll("+", "-").replaceAll("/", "_").replace(/=+$/, "");
  });
  Object.defineProperty(Buffer, "name", { value: "Buffer" });
  Reflect.deleteProperty(prototype, Symbol.for("nodejs.util.inspect.custom"));
  define(prototype, "inspect", function (this: unknown) {
    return core.show(this, 1);
  });
  const utf8Of = (bytes: unknown) => core.textOf(viewOf(bytes), "utf8");
  return {
    Buffer,
    SlowBuffer,
    kMaxLength,
    kStringMaxLength: MAX_STRING_LENGTH,
    constants: { MAX_LENGTH: kMaxLength, MAX_STRING_LENGTH },
    INSPECT_MAX_BYTES: 50,
    // Of other parts, which most code that has buffers does not ask for.
    get Blob() {
      return Blob;
    },
    get File() {
      return File;
    },
    get atob() {
      return atob;
    },
    get btoa() {
      return btoa;
    },
    isUtf8: (bytes: unknown) => utf8(utf8Of(bytes)) === toLatin1(viewOf(bytes), core),
    isAscii: (bytes: unknown) => viewOf(bytes).every((byte) => byte < 0x80),
    transcode: (bytes: unknown, from: string, to: string) =>
      Reflect.apply(statics["from"] as AnyFunction, Buffer, [core.textOf(viewOf(bytes), from), to]),
  };
}

const MAX_STRING_LENGTH = 536_870_888;

/**
 * Gives the library what it reads as Node.js does: it decodes both alphabets as base64, loses halves
 * of characters that follow one another, and reads on behind what is no hexadecimal number.
 * @param first the first of the arguments that may name an encoding; the one before is the text
 */
function readAsNode(target: Methods, name: string, first: number): void {
  const method = target[name] as AnyFunction;
  define(target, name, function (this: unknown, ...values) {
    const at = values.findIndex((value, index) => index >= first && typeof value === "string");
    const encoding = at < 0 ? "utf8" : (values[at] as string).toLowerCase();
    if (encoding === "base64url") values[at] = "base64";
    const text = values[first - 1];
    if (typeof text === "string") {
      if (encoding === "hex" && name !== "byteLength")
        values[first - 1] = text.slice(0, hexLength(text));
      else if (UTF8.test(encoding)) values[first - 1] = text.toWellFormed();
    }
    return Reflect.apply(method, this, values);
  });
}

/** How much of a text is hexadecimal, in whole bytes. */
function hexLength(text: string): number {
  const end = text.search(NOT_HEX);
  return (end < 0 ? text.length : end) & ~1;
}

const NOT_HEX = /[^\da-fA-F]/;
const UTF8 = /^utf-?8$/;

function isBase64Url(encoding: unknown): boolean {
  return typeof encoding === "string" && encoding.toLowerCase() === "base64url";
}

function define(
  target: Methods,
  name: string,
  value: (this: unknown, ...values: unknown[]) => unknown,
): void {
  Object.defineProperty(target, name, { value, writable: true, configurable: true });
}

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
  // The library decodes both alphabets as base64; arguments before these are never encodings.
  for (const [name, first] of [
    ["from", 1],
    ["byteLength", 1],
    ["alloc", 2],
  ] as const) {
    replaceEncoding(statics, name, first);
  }
  for (const name of ["write", "fill", "indexOf", "lastIndexOf", "includes"]) {
    replaceEncoding(prototype, name, 1);
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

function replaceEncoding(target: Methods, name: string, first: number): void {
  const method = target[name] as AnyFunction;
  define(target, name, function (this: unknown, ...values) {
    const plain = values.map((value, index) =>
      index >= first && isBase64Url(value) ? "base64" : value,
    );
    return Reflect.apply(method, this, plain);
  });
}

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

import { fromLatin1, type GuestCore, toLatin1, utf8, viewOf } from "./part.ts";
import { makeSubtle } from "./subtle.ts";

interface BufferClass {
  from(data: unknown, encoding?: string): Uint8Array & { toString(encoding?: string): string };
}

type Callback = (error: unknown, value?: unknown) => void;

/**
 * Web Crypto and Node's functions, as far as they hash, derive, sign, encrypt with shared keys, and
 * draw. The host computes, within bounds of work.
 */
export function makePart(core: GuestCore): Record<string, unknown> {
  const { call } = core;
  const ask = (...values: unknown[]) => call("crypto", values);
  const bufferClass = () => core.part("buffer")["Buffer"] as BufferClass;
  const bufferOf = (latin1: unknown) => bufferClass().from(latin1, "latin1");

  /** Texts as the bytes of an encoding, bytes as they are. */
  function bytesOf(data: unknown, encoding?: unknown): string {
    if (typeof data !== "string") return toLatin1(viewOf(data), core);
    if (encoding === undefined || encoding === "utf8" || encoding === "utf-8") return utf8(data);
    return toLatin1(bufferClass().from(data, String(encoding)), core);
  }

  function encode(latin1: string, encoding: unknown): unknown {
    if (encoding === undefined || encoding === "buffer") return bufferOf(latin1);
    if (encoding === "hex" || encoding === "base64" || encoding === "base64url") {
      return call("encode", [latin1, encoding]);
    }
    return bufferOf(latin1).toString(String(encoding));
  }

  /** Answers by callback, in a turn of its own, what was worked out. */
  function tell(callback: Callback, work: () => unknown): void {
    if (typeof callback !== "function") {
      throw new TypeError('The "callback" argument must be of type function');
    }
    queueMicrotask(() => {
      let value: unknown;
      try {
        value = work();
      } catch (error) {
        callback(error);
        return;
      }
      callback(null, value);
    });
  }

  function hashed(algorithm: unknown, data: string, key: string | null, length?: unknown): string {
    return ask("hash", String(algorithm), data, key, length ?? null) as string;
  }

  class Hash {
    readonly #algorithm: string;
    readonly #key: string | null;
    readonly #length: unknown;
    #data = "";
    #isDone = false;
    constructor(algorithm: string, key: string | null, length?: unknown) {
      this.#algorithm = algorithm;
      this.#key = key;
      this.#length = length;
    }
    update(data: unknown, encoding?: unknown): this {
      if (this.#isDone) throw new Error("Digest already called");
      this.#data += bytesOf(data, encoding);
      return this;
    }
    digest(encoding?: unknown): unknown {
      if (this.#isDone) throw new Error("Digest already called");
      this.#isDone = true;
      return encode(hashed(this.#algorithm, this.#data, this.#key, this.#length), encoding);
    }
    copy(): Hash {
      if (this.#isDone) throw new Error("Digest already called");
      const copy = new Hash(this.#algorithm, this.#key, this.#length);
      copy.#data = this.#data;
      return copy;
    }
    // As streams are used: what is written is hashed, and read at the end.
    write(data: unknown, encoding?: unknown): boolean {
      this.update(data, encoding);
      return true;
    }
    end(data?: unknown, encoding?: unknown): this {
      return data === undefined ? this : this.update(data, encoding);
    }
    read(): unknown {
      return this.digest();
    }
  }

  function createHash(algorithm: unknown, options?: { outputLength?: number }): Hash {
    hashed(algorithm, "", null, options?.outputLength);
    return new Hash(String(algorithm), null, options?.outputLength);
  }

  function createHmac(algorithm: unknown, key: unknown): Hash {
    hashed(algorithm, "", "");
    return new Hash(String(algorithm), bytesOf(key));
  }

  function hash(algorithm: unknown, data: unknown, encoding: unknown = "hex"): unknown {
    return encode(hashed(algorithm, bytesOf(data), null), encoding);
  }

  // Keys derived from passwords -----------------------------------------------------------------

  function checkWhole(name: string, value: unknown, least: number): void {
    if (typeof value !== "number") {
      throw new TypeError(`The "${name}" argument must be of type number`);
    }
    if (!Number.isInteger(value) || value < least || value >= 2 ** 31) {
      throw new RangeError(`The value of "${name}" is out of range`);
    }
  }

  function pbkdf2Sync(
    password: unknown,
    salt: unknown,
    iterations: unknown,
    length: unknown,
    digest: unknown,
  ): unknown {
    if (typeof digest !== "string") {
      throw new TypeError('The "digest" argument must be of type string');
    }
    checkWhole("iterations", iterations, 1);
    checkWhole("keylen", length, 0);
    return bufferOf(ask("pbkdf2", bytesOf(password), bytesOf(salt), iterations, length, digest));
  }

  function scryptSync(
    password: unknown,
    salt: unknown,
    length: unknown,
    options: unknown = null,
  ): unknown {
    checkWhole("keylen", length, 0);
    return bufferOf(ask("scrypt", bytesOf(password), bytesOf(salt), length, options));
  }

  function hkdfSync(
    digest: unknown,
    key: unknown,
    salt: unknown,
    info: unknown,
    length: unknown,
  ): ArrayBuffer {
    checkWhole("length", length, 0);
    const derived = ask("hkdf", digest, bytesOf(key), bytesOf(salt), bytesOf(info), length);
    return fromLatin1(derived as string).buffer;
  }

  /** The last argument is the callback. */
  const byCallback =
    (work: (...values: never[]) => unknown) =>
    (...values: unknown[]) => {
      const callback = values.pop() as Callback;
      tell(callback, () => Reflect.apply(work as (...all: unknown[]) => unknown, null, values));
    };

  // Ciphers and signatures ----------------------------------------------------------------------

  interface CipherOptions {
    authTagLength?: number;
  }

  /** Holds what it is given until the end: then all of it comes out. */
  class Cipher {
    readonly #isDecipher: boolean;
    readonly #algorithm: string;
    readonly #key: string;
    readonly #iv: string | null;
    readonly #tagLength: number | null;
    #data = "";
    #aad: string | null = null;
    #tag: string | null = null;
    #isPadded = true;
    #told = 0;
    #isDone = false;
    constructor(
      isDecipher: boolean,
      algorithm: unknown,
      key: unknown,
      iv: unknown,
      options?: CipherOptions,
    ) {
      this.#isDecipher = isDecipher;
      this.#algorithm = String(algorithm);
      this.#key = bytesOf(key);
      this.#iv = iv === null ? null : bytesOf(iv);
      this.#tagLength = options?.authTagLength ?? null;
      // What is wrong with them is told at once.
      this.#next(false);
    }
    update(data: unknown, inputEncoding?: unknown, outputEncoding?: unknown): unknown {
      if (this.#isDone) throw new Error("Trying to add data in unsupported state");
      this.#data += bytesOf(data, inputEncoding);
      return encode(this.#next(false), outputEncoding);
    }
    final(outputEncoding?: unknown): unknown {
      if (this.#isDone) throw new Error("Unsupported state");
      this.#isDone = true;
      return encode(this.#next(true), outputEncoding);
    }
    #next(isFinal: boolean): string {
      const tag = this.#isDecipher ? this.#tag : null;
      const work = {
        ...{ isDecipher: this.#isDecipher, algorithm: this.#algorithm, key: this.#key, tag },
        ...{ iv: this.#iv, data: this.#data, aad: this.#aad, tagLength: this.#tagLength },
        ...{ isPadded: this.#isPadded, isFinal, told: this.#told },
      };
      const [text, made] = ask("cipher", work) as [string, string | null];
      this.#told += text.length;
      if (isFinal && !this.#isDecipher) this.#tag = made;
      return text;
    }
    setAAD(data: unknown): this {
      this.#aad = bytesOf(data);
      return this;
    }
    setAuthTag(tag: unknown, encoding?: unknown): this {
      this.#tag = bytesOf(tag, encoding);
      return this;
    }
    getAuthTag(): unknown {
      if (this.#isDecipher || !this.#isDone || this.#tag === null) {
        throw new Error("Invalid state for operation getAuthTag");
      }
      return bufferOf(this.#tag);
    }
    setAutoPadding(isPadded = true): this {
      this.#isPadded = isPadded;
      return this;
    }
  }

  /** A key as the host reads it: PEM, or an object around it. */
  function plainKey(key: unknown): unknown {
    if (typeof key === "string") return key;
    if (key instanceof Uint8Array) return bufferClass().from(key).toString("utf8");
    const { key: inner, ...rest } = key as Record<string, unknown>;
    return { ...rest, key: plainKey(inner) };
  }

  class Signature {
    readonly #algorithm: string;
    #data = "";
    constructor(algorithm: unknown) {
      this.#algorithm = String(algorithm);
    }
    update(data: unknown, encoding?: unknown): this {
      this.#data += bytesOf(data, encoding);
      return this;
    }
    write(data: unknown, encoding?: unknown): boolean {
      this.update(data, encoding);
      return true;
    }
    end(): this {
      return this;
    }
    sign(key: unknown, encoding?: unknown): unknown {
      return encode(ask("sign", this.#algorithm, plainKey(key), this.#data) as string, encoding);
    }
    verify(key: unknown, signature: unknown, encoding?: unknown): unknown {
      const given = bytesOf(signature, encoding);
      return ask("verify", this.#algorithm, plainKey(key), this.#data, given);
    }
  }

  // Randomness ----------------------------------------------------------------------------------

  function randomText(size: unknown): string {
    return call("random", Number(size)) as string;
  }

  function randomBytes(size: unknown, callback?: Callback): unknown {
    checkWhole("size", size, 0);
    const bytes = bufferOf(randomText(size));
    if (callback === undefined) return bytes;
    tell(callback, () => bytes);
    return undefined;
  }

  function randomFillSync<T>(target: T, offset = 0, size?: number): T {
    const bytes = viewOf(target);
    const end = size === undefined ? bytes.length : offset + size;
    if (!(offset >= 0 && offset <= end && end <= bytes.length)) {
      throw new RangeError('The value of "offset" or "size" is out of range');
    }
    bytes.set(fromLatin1(randomText(end - offset)), offset);
    return target;
  }

  const randomUUID = () => call("uuid", null) as string;

  function getRandomValues<T extends ArrayBufferView>(array: T): T {
    const isWhole =
      ArrayBuffer.isView(array) && !/^(Float|DataView)/.test((array as object).constructor.name);
    if (!isWhole) throw new TypeError("The data argument must be an integer-type TypedArray");
    const bytes = viewOf(array);
    if (bytes.length > 65_536) {
      const error = new Error("The requested length exceeds 65,536 bytes");
      throw Object.assign(error, { name: "QuotaExceededError" });
    }
    bytes.set(fromLatin1(randomText(bytes.length)));
    return array;
  }

  function drawInt(low: number, high: number): number {
    if (!Number.isSafeInteger(low) || !Number.isSafeInteger(high)) {
      throw new TypeError('The "min" and "max" arguments must be safe integers');
    }
    const range = high - low;
    if (!(range > 0 && range < 2 ** 48)) throw new RangeError("The range is out of bounds");
    const limit = 2 ** 48 - (2 ** 48 % range);
    for (;;) {
      let value = 0;
      for (const byte of fromLatin1(randomText(6))) value = value * 256 + byte;
      if (value < limit) return low + (value % range);
    }
  }

  function randomInt(first: number, second?: unknown, third?: unknown): unknown {
    const hasBoth = typeof second === "number";
    const callback = hasBoth ? third : second;
    const draw = () => (hasBoth ? drawInt(first, second) : drawInt(0, first));
    return callback === undefined ? draw() : tell(callback as Callback, draw);
  }

  function timingSafeEqual(left: unknown, right: unknown): boolean {
    const [one, other] = [viewOf(left), viewOf(right)];
    if (one.length !== other.length) {
      const error = new RangeError("Input buffers must have the same byte length");
      throw Object.assign(error, { code: "ERR_CRYPTO_TIMING_SAFE_EQUAL_LENGTH" });
    }
    let difference = 0;
    for (let at = 0; at < one.length; at += 1) difference |= (one[at] ?? 0) ^ (other[at] ?? 0);
    return difference === 0;
  }

  const shared = { ask, hashed, randomText, timingSafeEqual, checkWhole };
  const { subtle, CryptoKey } = makeSubtle(core, shared);

  const crypto: Record<string, unknown> = {
    ...{ subtle, randomUUID, getRandomValues, createHash, createHmac, hash, randomBytes },
    ...{ randomInt, randomFillSync, timingSafeEqual, pbkdf2Sync, scryptSync, hkdfSync },
    pbkdf2: byCallback(pbkdf2Sync),
    scrypt: byCallback(scryptSync),
    hkdf: byCallback(hkdfSync),
    randomFill: byCallback(randomFillSync),
    pseudoRandomBytes: randomBytes,
    createCipheriv: (algorithm: unknown, key: unknown, iv: unknown, options?: CipherOptions) =>
      new Cipher(false, algorithm, key, iv, options),
    createDecipheriv: (algorithm: unknown, key: unknown, iv: unknown, options?: CipherOptions) =>
      new Cipher(true, algorithm, key, iv, options),
    createSign: (algorithm: unknown) => new Signature(algorithm),
    createVerify: (algorithm: unknown) => new Signature(algorithm),
    sign: (algorithm: unknown, data: unknown, key: unknown) =>
      new Signature(algorithm).update(data).sign(key),
    verify: (algorithm: unknown, data: unknown, key: unknown, signature: unknown) =>
      new Signature(algorithm).update(data).verify(key, signature),
    getHashes: () => ask("hashes"),
    getCiphers: () => ask("ciphers"),
    CryptoKey,
  };
  crypto["webcrypto"] = { subtle, randomUUID, getRandomValues, CryptoKey };
  Object.defineProperty(crypto, "constants", {
    get: () => ask("constants"),
    configurable: true,
    enumerable: true,
  });

  const compress = (kind: string) => (data: unknown) =>
    bufferOf(call("zlib", [kind, bytesOf(data)]));
  const later =
    (work: (data: unknown) => unknown) =>
    (data: unknown, ...rest: unknown[]) =>
      tell(rest.at(-1) as Callback, () => work(data));
  const zlib: Record<string, unknown> = {};
  Object.defineProperty(zlib, "constants", {
    get: () => call("zlib", ["constants"]),
    configurable: true,
    enumerable: true,
  });
  for (const kind of [
    "gzip",
    "gunzip",
    "deflate",
    "inflate",
    "deflateRaw",
    "inflateRaw",
    "unzip",
    "brotliCompress",
    "brotliDecompress",
  ]) {
    zlib[`${kind}Sync`] = compress(kind);
    zlib[kind] = later(compress(kind));
  }

  return { crypto, zlib };
}

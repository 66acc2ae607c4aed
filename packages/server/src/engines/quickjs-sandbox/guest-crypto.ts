import { fromLatin1, type GuestCore, toLatin1, utf8, viewOf } from "./guest-part.ts";

interface BufferClass {
  from(data: unknown, encoding?: string): Uint8Array & { toString(encoding?: string): string };
}

/** Web Crypto and Node's synchronous functions, as far as they hash and draw. The host computes. */
export function makePart(core: GuestCore): Record<string, unknown> {
  const { call } = core;
  const bufferClass = () => core.part("buffer")["Buffer"] as BufferClass;

  /** Texts as the bytes of an encoding, bytes as they are. */
  function bytesOf(data: unknown, encoding?: unknown): string {
    if (typeof data !== "string") return toLatin1(viewOf(data), core);
    if (encoding === undefined || encoding === "utf8" || encoding === "utf-8") return utf8(data);
    return toLatin1(bufferClass().from(data, String(encoding)), core);
  }

  function encode(latin1: string, encoding: unknown): unknown {
    if (encoding === undefined || encoding === "buffer")
      return bufferClass().from(latin1, "latin1");
    if (encoding === "hex" || encoding === "base64" || encoding === "base64url") {
      return call("encode", [latin1, encoding]);
    }
    return bufferClass().from(latin1, "latin1").toString(String(encoding));
  }

  class Hash {
    readonly #algorithm: string;
    readonly #key: string | null;
    #data = "";
    #isDone = false;
    constructor(algorithm: string, key: string | null) {
      this.#algorithm = algorithm;
      this.#key = key;
    }
    update(data: unknown, encoding?: unknown): this {
      if (this.#isDone) throw new Error("Digest already called");
      this.#data += bytesOf(data, encoding);
      return this;
    }
    digest(encoding?: unknown): unknown {
      if (this.#isDone) throw new Error("Digest already called");
      this.#isDone = true;
      return encode(call("hash", [this.#algorithm, this.#data, this.#key]) as string, encoding);
    }
    copy(): Hash {
      const copy = new Hash(this.#algorithm, this.#key);
      copy.#data = this.#data;
      return copy;
    }
  }

  function createHash(algorithm: unknown): Hash {
    call("hash", [String(algorithm), "", null]);
    return new Hash(String(algorithm), null);
  }

  function createHmac(algorithm: unknown, key: unknown): Hash {
    call("hash", [String(algorithm), "", ""]);
    return new Hash(String(algorithm), bytesOf(key));
  }

  function randomText(size: unknown): string {
    return call("random", Number(size)) as string;
  }

  function randomBytes(size: unknown, callback?: (error: null, bytes: unknown) => void): unknown {
    const bytes = bufferClass().from(randomText(size), "latin1");
    if (callback === undefined) return bytes;
    queueMicrotask(() => callback(null, bytes));
    return undefined;
  }

  const randomUUID = () => call("uuid", null) as string;

  function getRandomValues<T extends ArrayBufferView>(array: T): T {
    const bytes = viewOf(array);
    if (bytes.length > 65_536) throw new Error("QuotaExceededError: more than 65536 bytes");
    bytes.set(fromLatin1(randomText(bytes.length)));
    return array;
  }

  function randomInt(first: number, second?: number): number {
    const [low, high] = second === undefined ? [0, first] : [first, second];
    const range = high - low;
    if (!(range > 0 && range < 2 ** 48)) throw new RangeError("The range is out of bounds");
    const limit = 2 ** 48 - (2 ** 48 % range);
    for (;;) {
      let value = 0;
      for (const byte of fromLatin1(randomText(6))) value = value * 256 + byte;
      if (value < limit) return low + (value % range);
    }
  }

  function timingSafeEqual(left: unknown, right: unknown): boolean {
    const [one, other] = [viewOf(left), viewOf(right)];
    if (one.length !== other.length)
      throw new RangeError("Input buffers must have the same byte length");
    let difference = 0;
    for (let at = 0; at < one.length; at += 1) difference |= (one[at] ?? 0) ^ (other[at] ?? 0);
    return difference === 0;
  }

  function algorithmName(algorithm: unknown): string {
    const name =
      typeof algorithm === "string" ? algorithm : (algorithm as { name?: unknown })?.name;
    return String(name).replace("-", "").toLowerCase();
  }

  interface HmacKey {
    readonly type: "secret";
    readonly algorithm: { name: "HMAC"; hash: { name: string } };
    readonly latin1: string;
  }

  const subtle = {
    async digest(algorithm: unknown, data: unknown): Promise<ArrayBuffer> {
      const name = algorithmName(algorithm);
      if (!/^sha(1|256|384|512)$/.test(name)) throw new Error("Unrecognized algorithm name");
      return fromLatin1(call("hash", [name, toLatin1(viewOf(data), core), null]) as string).buffer;
    },
    async importKey(
      format: string,
      key: unknown,
      algorithm: { name?: string; hash?: unknown },
    ): Promise<HmacKey> {
      if (format !== "raw" || algorithm.name?.toUpperCase() !== "HMAC") {
        throw new Error("Only raw keys of HMAC can be imported here");
      }
      const hash = { name: algorithmName(algorithm.hash) };
      return {
        type: "secret",
        algorithm: { name: "HMAC", hash },
        latin1: toLatin1(viewOf(key), core),
      };
    },
    async sign(_algorithm: unknown, key: HmacKey, data: unknown): Promise<ArrayBuffer> {
      const { name } = key.algorithm.hash;
      return fromLatin1(call("hash", [name, toLatin1(viewOf(data), core), key.latin1]) as string)
        .buffer;
    },
    async verify(
      algorithm: unknown,
      key: HmacKey,
      signature: unknown,
      data: unknown,
    ): Promise<boolean> {
      const [given, own] = [viewOf(signature), viewOf(await subtle.sign(algorithm, key, data))];
      return given.length === own.length && timingSafeEqual(given, own);
    },
  };

  const crypto: Record<string, unknown> = {
    subtle,
    randomUUID,
    getRandomValues,
    createHash,
    createHmac,
    randomBytes,
    randomInt,
    timingSafeEqual,
    getHashes: () => ["md5", "ripemd160", "sha1", "sha224", "sha256", "sha384", "sha512"],
  };
  crypto["webcrypto"] = crypto;

  const compress = (kind: string) => (data: unknown) =>
    bufferClass().from(call("zlib", [kind, bytesOf(data)]) as string, "latin1");
  const later =
    (work: (data: unknown) => unknown) =>
    (data: unknown, ...rest: unknown[]) => {
      const callback = rest.at(-1) as (error: unknown, value?: unknown) => void;
      queueMicrotask(() => {
        let value: unknown;
        try {
          value = work(data);
        } catch (error) {
          callback(error);
          return;
        }
        callback(null, value);
      });
    };
  const zlib: Record<string, unknown> = {};
  for (const kind of [
    "gzip",
    "gunzip",
    "deflate",
    "inflate",
    "deflateRaw",
    "inflateRaw",
    "unzip",
  ]) {
    zlib[`${kind}Sync`] = compress(kind);
    zlib[kind] = later(compress(kind));
  }

  return { crypto, zlib };
}

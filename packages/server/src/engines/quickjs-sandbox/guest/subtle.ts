import { fromLatin1, type GuestCore, toLatin1, viewOf } from "./part.ts";

/** What it shares with Node's functions. */
interface Shared {
  ask(...values: unknown[]): unknown;
  hashed(algorithm: unknown, data: string, key: string | null): string;
  randomText(size: unknown): string;
  timingSafeEqual(left: unknown, right: unknown): boolean;
  /** Throws unless a value is a whole number, no less than the least. */
  checkWhole(name: string, value: unknown, least: number): void;
}

const DIGESTS: Record<string, string> = {
  "SHA-1": "sha1",
  "SHA-256": "sha256",
  "SHA-384": "sha384",
  "SHA-512": "sha512",
};

function namedError(name: string, message: string): Error {
  return Object.assign(new Error(message), { name });
}

function nameOf(algorithm: unknown): string {
  const name =
    typeof algorithm === "string" ? algorithm : (algorithm as { name?: unknown } | null)?.name;
  return String(name).toUpperCase();
}

function digestOf(algorithm: unknown): string {
  const name = nameOf(algorithm);
  const digest = Object.hasOwn(DIGESTS, name) ? DIGESTS[name] : undefined;
  if (digest === undefined) {
    throw namedError("NotSupportedError", "Unrecognized algorithm name");
  }
  return digest;
}

interface Derivation {
  readonly name: string;
  readonly hash: unknown;
  readonly salt: unknown;
  readonly info: unknown;
  readonly iterations: unknown;
}

const KEY_SIZES: Record<string, number> = { sha1: 64, sha256: 64, sha384: 128, sha512: 128 };

function keyAlgorithm(algorithm: { hash?: unknown }, latin1: string): Record<string, unknown> {
  const name = nameOf(algorithm);
  if (name === "HMAC") {
    digestOf(algorithm.hash);
    return { name, hash: { name: nameOf(algorithm.hash) }, length: latin1.length * 8 };
  }
  if (name === "PBKDF2" || name === "HKDF") return { name };
  throw namedError("NotSupportedError", "Only keys of HMAC, PBKDF2 and HKDF can be had here");
}

/** Web Crypto, as far as it digests, signs with shared keys and derives bits. */
export function makeSubtle(core: GuestCore, shared: Shared) {
  const { ask, hashed, randomText, timingSafeEqual, checkWhole } = shared;

  /** What keys hold stays outside of them, as with the platform's. */
  const keyBytes = new WeakMap<object, string>();

  class CryptoKey {
    readonly type = "secret";
    readonly algorithm: Record<string, unknown>;
    readonly extractable: boolean;
    readonly usages: readonly string[];
    constructor(
      latin1: string,
      algorithm: Record<string, unknown>,
      extractable: boolean,
      usages: readonly string[],
    ) {
      this.algorithm = algorithm;
      this.extractable = extractable;
      this.usages = [...usages];
      keyBytes.set(this, latin1);
    }
  }

  function bytesOfKey(key: CryptoKey, usage: string, name: string): string {
    const latin1 = keyBytes.get(key);
    if (latin1 === undefined) throw new TypeError("The key is no CryptoKey");
    if (!key.usages.includes(usage) || key.algorithm["name"] !== name) {
      throw namedError("InvalidAccessError", `The key cannot be used to ${usage}`);
    }
    return latin1;
  }

  function hmacOf(key: CryptoKey, usage: string, data: unknown): string {
    const latin1 = bytesOfKey(key, usage, "HMAC");
    return hashed(digestOf(key.algorithm["hash"]), toLatin1(viewOf(data), core), latin1);
  }

  const subtle = {
    async digest(algorithm: unknown, data: unknown): Promise<ArrayBuffer> {
      return fromLatin1(hashed(digestOf(algorithm), toLatin1(viewOf(data), core), null)).buffer;
    },
    async importKey(
      format: string,
      key: unknown,
      algorithm: { hash?: unknown },
      extractable = false,
      usages: readonly string[] = [],
    ): Promise<CryptoKey> {
      if (format !== "raw") {
        throw namedError("NotSupportedError", "Only raw keys can be imported here");
      }
      const latin1 = toLatin1(viewOf(key), core);
      return new CryptoKey(latin1, keyAlgorithm(algorithm, latin1), extractable, usages);
    },
    async generateKey(
      algorithm: { hash?: unknown; length?: number },
      extractable: boolean,
      usages: readonly string[],
    ): Promise<CryptoKey> {
      if (nameOf(algorithm) !== "HMAC") {
        throw namedError("NotSupportedError", "Only keys of HMAC can be made here");
      }
      const bits = algorithm.length ?? (KEY_SIZES[digestOf(algorithm.hash)] ?? 64) * 8;
      const latin1 = randomText(Math.ceil(bits / 8));
      return new CryptoKey(latin1, keyAlgorithm(algorithm, latin1), extractable, usages);
    },
    async exportKey(format: string, key: CryptoKey): Promise<ArrayBuffer> {
      const latin1 = keyBytes.get(key);
      if (latin1 === undefined || format !== "raw") {
        throw namedError("NotSupportedError", "Only raw keys can be exported here");
      }
      if (!key.extractable) throw namedError("InvalidAccessError", "key is not extractable");
      return fromLatin1(latin1).buffer;
    },
    async sign(_algorithm: unknown, key: CryptoKey, data: unknown): Promise<ArrayBuffer> {
      return fromLatin1(hmacOf(key, "sign", data)).buffer;
    },
    async verify(
      _algorithm: unknown,
      key: CryptoKey,
      signature: unknown,
      data: unknown,
    ): Promise<boolean> {
      const [given, own] = [viewOf(signature), fromLatin1(hmacOf(key, "verify", data))];
      return given.length === own.length && timingSafeEqual(given, own);
    },
    async deriveBits(algorithm: Derivation, key: CryptoKey, bits: number): Promise<ArrayBuffer> {
      const name = nameOf(algorithm);
      const latin1 = bytesOfKey(key, "deriveBits", name);
      const digest = digestOf(algorithm.hash);
      const salt = toLatin1(viewOf(algorithm.salt), core);
      if (!(Number.isInteger(bits) && bits > 0 && bits % 8 === 0)) {
        throw namedError("OperationError", "The length must be a multiple of 8");
      }
      if (name === "PBKDF2") {
        checkWhole("iterations", algorithm.iterations, 1);
        const derived = ask("pbkdf2", latin1, salt, algorithm.iterations, bits / 8, digest);
        return fromLatin1(derived as string).buffer;
      }
      const info = toLatin1(viewOf(algorithm.info), core);
      return fromLatin1(ask("hkdf", digest, latin1, salt, info, bits / 8) as string).buffer;
    },
  };
  for (const name of ["encrypt", "decrypt", "deriveKey", "wrapKey", "unwrapKey"]) {
    Object.defineProperty(subtle, name, {
      value: async () => {
        throw namedError("NotSupportedError", `crypto.subtle.${name} is not available here`);
      },
    });
  }

  return { subtle, CryptoKey };
}

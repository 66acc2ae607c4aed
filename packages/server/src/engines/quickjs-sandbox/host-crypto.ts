import {
  type BinaryToTextEncoding,
  constants,
  createCipheriv,
  createDecipheriv,
  createHash,
  createHmac,
  createPrivateKey,
  createPublicKey,
  createSign,
  createVerify,
  getCiphers,
  getHashes,
  hkdfSync,
  type KeyObject,
  pbkdf2Sync,
  scryptSync,
} from "node:crypto";
import type { Charge } from "./host-allowance.ts";

/** One derivation may take about as long as an event may compute: it cannot be interrupted. */
const MAX_PBKDF2_ROUNDS = 250_000;
/** `N * r * p` of scrypt: twice what Node.js does unless told otherwise. */
const MAX_SCRYPT_WORK = 2 ** 18;
const MAX_SCRYPT_BYTES = 64 * 1024 * 1024;
const MAX_DERIVED_BYTES = 4_096;
const MAX_HASH_BYTES = 65_536;
/** As long as an RSA key of so many bits is as PEM; longer numbers take too long to compute with. */
const MAX_PEM_LENGTH = 4_096;
const MAX_MODULUS_BITS = 4_096;
/**
 * A private RSA key (RFC 8017, A.1.2) has its modulus, two exponents that may be as long, and five
 * numbers half as long; and some bytes around them.
 */
const PRIVATE_KEY_MODULI = 5.6;
const AROUND_PRIVATE_KEY_BYTES = 120;
/** What a millisecond is enough for, about. */
const ROUNDS_PER_MS = 2_600;
const SCRYPT_WORK_PER_MS = 2_700;
const BYTES_PER_MS = 100_000;
const SIGNING_MS = 5;
const VERIFYING_MS = 1;
/** Ciphers that need more than a key, a vector and a tag. */
const UNUSUAL_CIPHER = /ccm|ocb|wrap|siv/i;

type Values = readonly unknown[];

/**
 * What Node's `crypto` answers to code in the sandbox, within bounds of work, which is charged before
 * it is done. Bytes are texts of one character each.
 * @throws what Node.js throws, and where something would take too long
 */
export function answerCrypto([op, ...values]: Values, charge: Charge): unknown {
  switch (op) {
    case "hash":
      chargeBytes(charge, values[1], values[2]);
      return answerHash(values);
    case "hashes":
      return getHashes();
    case "constants":
      return constants;
    case "ciphers":
      return getCiphers().filter((name) => !UNUSUAL_CIPHER.test(name));
    case "pbkdf2":
      return answerPbkdf2(values, charge);
    case "scrypt":
      return answerScrypt(values, charge);
    case "hkdf": {
      const [digest, key, salt, info, length] = values;
      chargeBytes(charge, key, salt, info);
      const derived = hkdfSync(
        String(digest),
        bytesOf(key),
        bytesOf(salt),
        bytesOf(info),
        checkLength(length),
      );
      return textOf(Buffer.from(derived));
    }
    case "cipher":
      return answerCipher(values, charge);
    case "sign": {
      const [algorithm, key, data] = values;
      charge(SIGNING_MS);
      chargeBytes(charge, data);
      return textOf(
        createSign(String(algorithm)).update(bytesOf(data)).sign(keyOf(key, createPrivateKey)),
      );
    }
    case "verify": {
      const [algorithm, key, data, signature] = values;
      charge(VERIFYING_MS);
      chargeBytes(charge, data);
      return createVerify(String(algorithm))
        .update(bytesOf(data))
        .verify(keyOf(key, createPublicKey), bytesOf(signature));
    }
    default:
      throw new Error(`There is no ${String(op)}`);
  }
}

function answerHash([algorithm, data, key, length]: Values): string {
  const name = String(algorithm);
  if (typeof key === "string") {
    return textOf(createHmac(name, bytesOf(key)).update(bytesOf(data)).digest());
  }
  const outputLength = typeof length === "number" ? length : undefined;
  if (outputLength !== undefined && outputLength > MAX_HASH_BYTES) {
    throw new RangeError(`A hash has no more than ${MAX_HASH_BYTES} bytes here`);
  }
  const hash = createHash(name, outputLength === undefined ? {} : { outputLength });
  return hash.update(bytesOf(data)).digest("latin1" as BinaryToTextEncoding);
}

function answerPbkdf2(
  [password, salt, iterations, length, digest]: Values,
  charge: Charge,
): string {
  const rounds = Number(iterations);
  const size = checkLength(length);
  const blockBytes = createHash(String(digest)).digest().length;
  const allRounds = rounds * Math.ceil(size / blockBytes);
  if (allRounds > MAX_PBKDF2_ROUNDS) {
    throw new RangeError(`pbkdf2 takes no more than ${MAX_PBKDF2_ROUNDS} iterations here`);
  }
  charge(allRounds / ROUNDS_PER_MS);
  chargeBytes(charge, password, salt);
  return textOf(pbkdf2Sync(bytesOf(password), bytesOf(salt), rounds, size, String(digest)));
}

function answerScrypt([password, salt, length, options]: Values, charge: Charge): string {
  const given = (options ?? {}) as Record<string, unknown>;
  const number = (names: readonly string[], usual: number) => {
    const value = names.map((name) => given[name]).find((one) => one !== undefined);
    return value === undefined ? usual : Number(value);
  };
  const cost = number(["N", "cost"], 16_384);
  const blockSize = number(["r", "blockSize"], 8);
  const parallelization = number(["p", "parallelization"], 1);
  if (cost * blockSize * parallelization > MAX_SCRYPT_WORK) {
    throw new RangeError(`scrypt takes no more than N * r * p = ${MAX_SCRYPT_WORK} here`);
  }
  charge((cost * blockSize * parallelization) / SCRYPT_WORK_PER_MS);
  chargeBytes(charge, password, salt);
  const maxmem = Math.min(number(["maxmem"], 32 * 1024 * 1024), MAX_SCRYPT_BYTES);
  return textOf(
    scryptSync(bytesOf(password), bytesOf(salt), checkLength(length), {
      ...{ cost, blockSize, parallelization, maxmem },
    }),
  );
}

interface CipherWork {
  readonly isDecipher: boolean;
  readonly algorithm: string;
  readonly key: string;
  readonly iv: string | null;
  readonly data: string;
  readonly aad: string | null;
  readonly tag: string | null;
  readonly tagLength: number | null;
  readonly isPadded: boolean;
  readonly isFinal: boolean;
  /** Bytes of the answer that were told before. */
  readonly told: number;
}

/**
 * What an answer has come to with all of the data so far, and the tag at its end. Nothing is kept
 * between two calls: whoever asks piece by piece pays for it.
 */
function answerCipher([work]: Values, charge: Charge): readonly [text: string, tag: string | null] {
  const { isDecipher, algorithm, key, iv, aad, tag, tagLength, isPadded } = work as CipherWork;
  const { data, isFinal, told } = work as CipherWork;
  chargeBytes(charge, data, aad);
  if (UNUSUAL_CIPHER.test(algorithm)) throw new Error(`There is no cipher ${algorithm} here`);
  // The types tell ciphers with tags apart by their names.
  const name = algorithm as "aes-256-gcm";
  const options = tagLength === null ? {} : { authTagLength: tagLength };
  // Some ciphers have no vector, which they do not know of either.
  const vector = (iv === null ? null : bytesOf(iv)) as Buffer;
  const cipher = isDecipher
    ? createDecipheriv(name, bytesOf(key), vector, options)
    : createCipheriv(name, bytesOf(key), vector, options);
  cipher.setAutoPadding(isPadded);
  if (aad !== null) cipher.setAAD(bytesOf(aad));
  if (tag !== null && "setAuthTag" in cipher) cipher.setAuthTag(bytesOf(tag));
  const parts = [cipher.update(bytesOf(data)), ...(isFinal ? [cipher.final()] : [])];
  const hasTag = isFinal && "getAuthTag" in cipher && /gcm|poly1305/i.test(algorithm);
  return [
    textOf(Buffer.concat(parts).subarray(told)),
    hasTag && !isDecipher ? textOf(cipher.getAuthTag()) : null,
  ];
}

/**
 * A key as PEM, or with how to use it. Encrypted ones name themselves how much work it is to read them,
 * so there is no passphrase here.
 */
function keyOf(key: unknown, read: (pem: string) => KeyObject): { key: KeyObject } {
  const { key: pem, ...use } =
    typeof key === "string" ? { key } : (key as Record<string, undefined>);
  const { padding, saltLength, dsaEncoding } = use as Record<string, never>;
  const text = String(pem);
  if (text.length > MAX_PEM_LENGTH) {
    throw new RangeError(`A key has no more than ${MAX_PEM_LENGTH} characters here`);
  }
  if (/ENCRYPTED/i.test(text)) throw new Error("Encrypted keys cannot be used here");
  const made = read(text);
  const { modulusLength } = made.asymmetricKeyDetails ?? {};
  if (modulusLength !== undefined) checkNumbers(made, modulusLength);
  return {
    key: made,
    ...(padding !== undefined && { padding: Number(padding) }),
    ...(saltLength !== undefined && { saltLength: Number(saltLength) }),
    ...(dsaEncoding !== undefined && { dsaEncoding }),
  };
}

/** @throws where it takes longer to compute with the numbers of a key than with usual ones */
function checkNumbers(key: KeyObject, modulusBits: number): void {
  if (modulusBits > MAX_MODULUS_BITS) {
    throw new RangeError(`A key has no more than ${MAX_MODULUS_BITS} bits here`);
  }
  if (key.type !== "private") return;
  const mostBytes = (PRIVATE_KEY_MODULI * modulusBits) / 8 + AROUND_PRIVATE_KEY_BYTES;
  if (key.export({ type: "pkcs8", format: "der" }).length > mostBytes) {
    throw new RangeError("A key has no numbers here that are too long for its modulus");
  }
}

function chargeBytes(charge: Charge, ...texts: readonly unknown[]): void {
  for (const text of texts) if (typeof text === "string") charge(text.length / BYTES_PER_MS);
}

function checkLength(length: unknown): number {
  const size = Number(length);
  if (size > MAX_DERIVED_BYTES) {
    throw new RangeError(`A derived key has no more than ${MAX_DERIVED_BYTES} bytes here`);
  }
  return size;
}

function bytesOf(latin1: unknown): Buffer {
  return Buffer.from(String(latin1), "latin1");
}

function textOf(bytes: Buffer): string {
  return bytes.toString("latin1");
}

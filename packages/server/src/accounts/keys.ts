import { createHash } from "node:crypto";

/** Source of randomness: that many unpredictable bytes. */
export type RandomBytes = (byteCount: number) => Uint8Array;

/** Public project key, personal key, secret project key (posthog-api 1.1). */
export type KeyPrefix = "phc_" | "phx_" | "phs_";

const ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";
const KEY_BYTES = 32;
/** Digits of base 62 that hold 32 bytes. */
const KEY_DIGITS = 43;

/** A new key: its prefix and 256 random bits in base 62, always 43 characters. */
export function generateKey(prefix: KeyPrefix, randomBytes: RandomBytes): string {
  return `${prefix}${base62(randomBytes(KEY_BYTES)).padStart(KEY_DIGITS, "0")}`;
}

/** A password a person can copy: 18 random bytes in base 62. */
export function generatePassword(randomBytes: RandomBytes): string {
  return base62(randomBytes(18)).padStart(25, "0");
}

/**
 * What is stored of a personal key. A plain hash suffices where the secret has 256 random bits: there
 * is nothing to guess, and it is computed on every request.
 */
export function hashKey(key: string): string {
  return createHash("sha256").update(key).digest("hex");
}

/** What is shown of a key once it has been handed out: its first and last four characters. */
export function maskKey(key: string): string {
  return key.length < 16 ? "********" : `${key.slice(0, 4)}...${key.slice(-4)}`;
}

function base62(bytes: Uint8Array): string {
  let rest = BigInt(`0x${Buffer.from(bytes).toString("hex")}`);
  let digits = "";
  for (; rest > 0n; rest /= 62n) digits = ALPHABET.charAt(Number(rest % 62n)) + digits;
  return digits;
}

import { type ScryptOptions, scrypt, timingSafeEqual } from "node:crypto";
import type { RandomBytes } from "./keys.ts";

/** Stretching makes guessing dear; what was drawn at random cannot be guessed at any price. */
const COSTS = {
  chosen: { N: 2 ** 15, r: 8, p: 3 },
  generated: { N: 2 ** 10, r: 8, p: 1 },
} as const;
const HASH_BYTES = 32;
const SALT_BYTES = 16;

/**
 * `scrypt$N$r$p$salt$hash`, the last two in base64. A password that a person chose takes about
 * 0.3 s of a worker thread.
 */
export async function hashPassword(
  password: string,
  { origin, randomBytes }: { origin: keyof typeof COSTS; randomBytes: RandomBytes },
): Promise<string> {
  const cost = COSTS[origin];
  const salt = Buffer.from(randomBytes(SALT_BYTES));
  const hash = await derive(password, salt, cost);
  const { N, r, p } = cost;
  return ["scrypt", N, r, p, salt.toString("base64"), hash.toString("base64")].join("$");
}

/** Whether the password is the one that was hashed. */
export async function verifyPassword(password: string, stored: string): Promise<boolean> {
  const [scheme, N, r, p, salt, hash] = stored.split("$");
  if (scheme !== "scrypt" || salt === undefined || hash === undefined) {
    throw new Error("a stored password is in no known format");
  }
  const cost = { N: Number(N), r: Number(r), p: Number(p) };
  const derived = await derive(password, Buffer.from(salt, "base64"), cost);
  return timingSafeEqual(derived, Buffer.from(hash, "base64"));
}

function derive(
  password: string,
  salt: Buffer,
  cost: { N: number; r: number; p: number },
): Promise<Buffer> {
  const options: ScryptOptions = { ...cost, maxmem: 2 * 128 * cost.N * cost.r };
  return new Promise((resolve, reject) => {
    // One form per password, however the keyboard composed its accents.
    scrypt(password.normalize("NFKC"), salt, HASH_BYTES, options, (error, key) => {
      if (error) reject(error);
      else resolve(key);
    });
  });
}

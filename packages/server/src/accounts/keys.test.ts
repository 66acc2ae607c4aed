import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { generateKey, generatePassword, hashKey, maskKey } from "./keys.ts";

const bytes = fc.uint8Array({ minLength: 32, maxLength: 32 });

describe("keys", () => {
  test("[AC-3] a key is its prefix and 43 base-62 digits that tell all random bytes apart", () => {
    fc.assert(
      fc.property(bytes, bytes, (one, other) => {
        const [first, second] = [one, other].map((source) => generateKey("phx_", () => source));
        expect(first).toMatch(/^phx_[0-9A-Za-z]{43}$/);
        expect(first === second).toBe(Buffer.from(one).equals(Buffer.from(other)));
      }),
    );
  });

  test("[AC-3] the smallest and the largest random numbers keep the length", () => {
    expect(generateKey("phc_", (count) => new Uint8Array(count))).toBe(`phc_${"0".repeat(43)}`);
    expect(generateKey("phs_", (count) => new Uint8Array(count).fill(255))).toHaveLength(47);
    expect(generatePassword((count) => new Uint8Array(count))).toHaveLength(25);
    expect(generatePassword((count) => new Uint8Array(count).fill(255))).toHaveLength(25);
  });

  test("[AC-3] a key is stored as its SHA-256", () => {
    expect(hashKey("abc")).toBe("ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
  });

  test.each([
    ["phx_0123456789012345678901234567890123456789abc", "phx_...9abc"],
    ["phx_0123456789ab", "phx_...89ab"],
    ["phx_0123456789a", "********"],
  ])("[AC-3] %s is shown as %s", (key, mask) => {
    expect(maskKey(key)).toBe(mask);
  });
});

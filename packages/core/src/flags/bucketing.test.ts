import { createHash } from "node:crypto";
import fc from "fast-check";
import { describe, expect, it } from "vitest";
import {
  accumulateShares,
  chooseVariant,
  createSha1Bucketing,
  isInsideRollout,
  NO_SALT,
  VARIANT_SALT,
} from "./bucketing.ts";

const bucketing = createSha1Bucketing();

function hashOf(prefix: string, identifier: string, salt = NO_SALT): number {
  return bucketing.hash(bucketing.encode(prefix), identifier, salt);
}

function expectedHash(text: string): number {
  const hex = createHash("sha1").update(text, "utf8").digest("hex").slice(0, 15);
  return Number(BigInt(`0x${hex}`)) / Number(0xfffffffffffffffn);
}

describe("bucketing", () => {
  it("[FE-1] is the first 60 bits of SHA-1 over UTF-8, whatever the texts", () => {
    const text = fc.oneof(
      fc.string({ unit: "binary", maxLength: 90 }),
      fc.string({ maxLength: 200 }),
    );
    fc.assert(
      fc.property(text, text, (prefix, identifier) => {
        expect(hashOf(prefix, identifier)).toBe(expectedHash(prefix + identifier));
        expect(hashOf(prefix, identifier, VARIANT_SALT)).toBe(
          expectedHash(`${prefix + identifier}variant`),
        );
      }),
      { numRuns: 200 },
    );
  });

  it("[FE-1] is right at every length around the ends of blocks", () => {
    for (let length = 0; length <= 200; length += 1) {
      const identifier = "é".repeat(length % 3) + "x".repeat(length);
      expect(hashOf("k.", identifier)).toBe(expectedHash(`k.${identifier}`));
    }
  });

  it("[FE-1] encodes a lone surrogate as the replacement character", () => {
    expect(hashOf("", "a\ud800b")).toBe(expectedHash("a\ufffdb"));
  });

  it("[FE-5] spreads people evenly", () => {
    const buckets = new Array<number>(20).fill(0);
    const people = 20_000;
    for (let person = 0; person < people; person += 1) {
      const bucket = Math.floor(hashOf("some-flag.", `person-${person}`) * buckets.length);
      buckets[bucket] = (buckets[bucket] ?? 0) + 1;
    }
    const expected = people / buckets.length;
    const chiSquare = buckets.reduce((sum, count) => sum + (count - expected) ** 2 / expected, 0);
    // 99.9 % of uniform samples stay below 43.8 with 19 degrees of freedom.
    expect(chiSquare).toBeLessThan(43.8);
  });

  it("[FE-5] never removes anyone when a rollout is raised", () => {
    fc.assert(
      fc.property(
        fc.string(),
        fc.double({ min: 0, max: 100, noNaN: true }),
        fc.double({ min: 0, max: 100, noNaN: true }),
        (identifier, one, other) => {
          const hash = hashOf("f.", identifier);
          const lower = isInsideRollout(hash, Math.min(one, other));
          expect(!lower || isInsideRollout(hash, Math.max(one, other))).toBe(true);
        },
      ),
    );
  });

  it("[FE-7] gives no variant to a hash at the very top", () => {
    expect(chooseVariant(1, accumulateShares([50, 50]))).toBe(-1);
    expect(chooseVariant(1 - 2 ** -53, accumulateShares([50, 50]))).toBe(1);
  });

  it("[FE-7] moves people only towards a variant whose share grows at the cost of its neighbour", () => {
    fc.assert(
      fc.property(
        fc.double({ min: 0, max: 1, noNaN: true, maxExcluded: true }),
        fc.integer({ min: 0, max: 100 }),
        fc.integer({ min: 0, max: 100 }),
        (hash, one, other) => {
          const [small, large] = [Math.min(one, other), Math.max(one, other)];
          const before = chooseVariant(hash, accumulateShares([small, 100 - small]));
          const after = chooseVariant(hash, accumulateShares([large, 100 - large]));
          if (before === 0) expect(after).toBe(0);
        },
      ),
    );
  });
});

import { describe, expect, it } from "vitest";
import { decompressZstd } from "./decompress-zstd.ts";
import { zstdParts } from "./zstd-parts.ts";

/** Made by the reference command (`zstd`) of one text. */
const FRAMES: readonly (readonly [string, string])[] = [
  [
    "a stream with a checksum",
    "KLUv/QRYDQIAEgQOFZA5HYNHtc3EwUIjhM/u1mnM0e7ECq0NIEi1MDW+M2nO7lVM1YRUujx8GwySOJgLzWXhO0+PzgIBAI4iVaAEsugS",
  ],
  [
    "one segment that says its size",
    "KLUv/SDsRQIA1AN7ImV2ZW50IjoiYSIsImRpc3RpbmN0X2lkIjoiYiIsInByb3BlcnRpZXMiOnsidGV4aGVkZ2Vyb3cgIn19AgAoFjrhLAUF",
  ],
  [
    "the strongest level",
    "KLUv/QR49QEAEkQNEaDtMN+qqbgl5qmK+8ZT/4IBcxrA1X7MkdUbv5Zq97TtbDXmYGK1SWKLSuuScfCwetXfLQMBAI4iVaAEsugS",
  ],
];
const TEXT = `{"event":"a","distinct_id":"b","properties":{"text":"${"hedgerow ".repeat(20)}"}}`;
const SKIPPABLE = Buffer.from([0x53, 0x2a, 0x4d, 0x18, 3, 0, 0, 0, 1, 2, 3]);

describe("[DE-8] Zstandard", () => {
  it.each(FRAMES)(
    "is opened from %s, alone, behind what is skipped and twice",
    (_title, base64) => {
      const frame = Buffer.from(base64, "base64");
      const open = (...parts: readonly Uint8Array[]) =>
        decompressZstd(Buffer.concat(parts), 10_000).toString();
      expect(open(frame)).toBe(TEXT);
      expect(open(SKIPPABLE, frame)).toBe(TEXT);
      expect(open(frame, frame)).toBe(TEXT + TEXT);
    },
  );

  it.each(FRAMES)(
    "parts of %s stand one behind the other, and none is missing",
    (_title, base64) => {
      const frame = Buffer.from(base64, "base64");
      const parts = [...zstdParts(frame)];
      expect(parts.map(({ from }) => from)).toEqual([0, ...parts.slice(0, -1).map(({ to }) => to)]);
      expect(parts.at(-1)?.to).toBe(frame.length);
      for (let length = 1; length < frame.length; length++) {
        expect(() => [...zstdParts(frame.subarray(0, length))]).toThrow(Error);
      }
    },
  );

  it("is bound by what all frames claim together", () => {
    const [, [, base64 = ""] = []] = FRAMES;
    const frame = Buffer.from(base64, "base64");
    expect(() => decompressZstd(frame, TEXT.length - 1)).toThrow(RangeError);
    const two = Buffer.concat([frame, frame]);
    expect(() => decompressZstd(two, 2 * TEXT.length - 1)).toThrow(RangeError);
  });
});

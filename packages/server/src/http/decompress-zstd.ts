import { Decompress } from "fzstd";
import { type FramePart, zstdParts } from "./zstd-parts.ts";

/** True for what begins like a frame of Zstandard. */
export function isZstd(bytes: Uint8Array): boolean {
  return bytes[0] === 0x28 && bytes[1] === 0xb5 && bytes[2] === 0x2f && bytes[3] === 0xfd;
}

/** The library moves its whole window for each block: so many bytes in all, and more for larger bounds. */
const MAX_MOVED_BYTES = 128 * 1024 * 1024;
const MOVED_BY_BOUND = 200;

/**
 * The content of Zstandard frames. Throws a `RangeError` as soon as it would exceed `maxBytes`, or takes
 * more work than content of that size does, and an `Error` for anything that is no such frame or ends
 * too early. What a frame claims is looked at before anything is done for it: a dozen bytes may claim
 * gigabytes.
 */
export function decompressZstd(bytes: Uint8Array, maxBytes: number): Buffer {
  const chunks: Uint8Array[] = [];
  let length = 0;
  let claimed = 0;
  let moved = 0;
  const bound = (size: number) => {
    if (size > maxBytes) throw new RangeError(`more than ${maxBytes} bytes`);
  };
  const stream = new Decompress((chunk) => {
    length += chunk.length;
    bound(length);
    chunks.push(chunk);
  });
  const count = (part: FramePart) => {
    switch (part.kind) {
      case "header":
        claimed += part.contentBytes ?? 0;
        bound(claimed);
        moved += part.windowBytes;
        break;
      case "block":
        bound(length + part.knownBytes);
        moved += part.windowBytes;
        break;
    }
    if (moved > MAX_MOVED_BYTES + MOVED_BY_BOUND * maxBytes) {
      throw new RangeError("more work than its content is worth");
    }
  };
  for (const part of zstdParts(bytes)) {
    count(part);
    stream.push(bytes.subarray(part.from, part.to), part.to === bytes.length);
  }
  return Buffer.concat(chunks, length);
}

import { Decompress } from "fzstd";

/** Given piece by piece, so that the bound is noticed before much of what follows is looked at. */
const PIECE_BYTES = 64 * 1024;

/** True for what begins like a frame of Zstandard. */
export function isZstd(bytes: Uint8Array): boolean {
  return bytes[0] === 0x28 && bytes[1] === 0xb5 && bytes[2] === 0x2f && bytes[3] === 0xfd;
}

/**
 * The content of Zstandard frames. Throws a `RangeError` as soon as it would exceed `maxBytes`, and
 * an `Error` for anything that is no such frame or ends too early.
 */
export function decompressZstd(bytes: Uint8Array, maxBytes: number): Buffer {
  const chunks: Uint8Array[] = [];
  let length = 0;
  const stream = new Decompress((chunk) => {
    length += chunk.length;
    if (length > maxBytes) throw new RangeError(`more than ${maxBytes} bytes`);
    chunks.push(chunk);
  });
  for (let at = 0; at < bytes.length; at += PIECE_BYTES) {
    stream.push(bytes.subarray(at, at + PIECE_BYTES), at + PIECE_BYTES >= bytes.length);
  }
  return Buffer.concat(chunks, length);
}

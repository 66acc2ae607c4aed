/** A Zstandard frame of uncompressed blocks; for tests, where nothing compresses. */
export function zstdRaw(text: string): Buffer {
  const content = Buffer.from(text);
  const parts: Uint8Array[] = [Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58])];
  for (let at = 0; at === 0 || at < content.length; at += MOST) {
    const block = content.subarray(at, at + MOST);
    parts.push(header(block.length, "raw", at + MOST >= content.length), block);
  }
  return Buffer.concat(parts);
}

/** A frame that stands for `megabytes` MiB of blanks in four bytes for each 128 KiB. */
export function zstdBomb(megabytes: number): Buffer {
  const blocks = megabytes * 8;
  const parts: Uint8Array[] = [Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x58])];
  for (let block = 1; block <= blocks; block++) {
    parts.push(header(MOST, "run", block === blocks), Buffer.from(" "));
  }
  return Buffer.concat(parts);
}

/** A frame of one segment that claims to hold so much, in two runs. */
export function zstdClaim(bytes: number): Buffer {
  const head = Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0xa0, 0, 0, 0, 0]);
  head.writeUInt32LE(bytes, 5);
  const run = (isLast: boolean) => [header(1000, "run", isLast), Buffer.from(" ")];
  return Buffer.concat([head, ...run(false), ...run(true)]);
}

/** A frame with a window of 8 MiB and blocks of a single blank. */
export function zstdOfEmptyBlocks(count: number): Buffer {
  const parts: Uint8Array[] = [Buffer.from([0x28, 0xb5, 0x2f, 0xfd, 0x00, 0x68])];
  for (let block = 1; block <= count; block++) {
    parts.push(header(1, "run", block === count), Buffer.from(" "));
  }
  return Buffer.concat(parts);
}

/** Largest block. */
const MOST = 128 * 1024;

function header(length: number, kind: "raw" | "run", isLast: boolean): Buffer {
  const bits = (length << 3) | (kind === "run" ? 2 : 0) | (isLast ? 1 : 0);
  return Buffer.from([bits & 0xff, (bits >> 8) & 0xff, (bits >> 16) & 0xff]);
}

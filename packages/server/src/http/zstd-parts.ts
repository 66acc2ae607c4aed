/** A part of a frame of Zstandard, by where it stands, with what it says of its size. */
export type FramePart = {
  readonly from: number;
  readonly to: number;
} & (
  | {
      readonly kind: "header";
      /** How much the frame holds, where it says so. */
      readonly contentBytes: number | undefined;
      readonly windowBytes: number;
    }
  | {
      readonly kind: "block";
      /** How much it holds at least. */
      readonly knownBytes: number;
      readonly windowBytes: number;
    }
  | { readonly kind: "rest" }
);

const FRAME = 0xfd2fb528;
const SKIPPABLE = 0x184d2a50;
const MAX_BLOCK_BYTES = 128 * 1024;
/** What content of HTTP may ask for is 8 MiB (RFC 9659); what the strongest levels of common tools write, this. */
const MAX_WINDOW_BYTES = 32 * 1024 * 1024;
const DICTIONARY_BYTES = [0, 1, 2, 4] as const;

/**
 * The parts of frames one after the other, by their headers alone (RFC 8878, section 3.1). Throws an
 * `Error` for what is none, ends too early, or asks for a window beyond 32 MiB.
 */
export function* zstdParts(bytes: Uint8Array): Generator<FramePart> {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  /** Where a part ends that begins here. */
  const endOf = (length: number) => {
    if (at + length > bytes.length) throw new Error("it ends too early");
    return at + length;
  };
  while (at < bytes.length) {
    endOf(4);
    const magic = view.getUint32(at, true);
    if ((magic & ~0xf) >>> 0 === SKIPPABLE) {
      endOf(8);
      const to = endOf(8 + view.getUint32(at + 4, true));
      yield { kind: "rest", from: at, to };
      at = to;
      continue;
    }
    if (magic !== FRAME) throw new Error("it is no frame of Zstandard");
    endOf(5);
    const descriptor = view.getUint8(at + 4);
    const isSingle = (descriptor & 0x20) !== 0;
    const sizeFlag = descriptor >> 6;
    const sizeBytes = sizeFlag === 0 ? Number(isSingle) : 1 << sizeFlag;
    const windowAt = at + 5;
    const sizeAt = windowAt + Number(!isSingle) + (DICTIONARY_BYTES[descriptor & 3] ?? 0);
    const to = endOf(sizeAt + sizeBytes - at);
    const contentBytes = readSize(view, sizeAt, sizeBytes);
    const windowBytes = isSingle ? (contentBytes ?? 0) : readWindow(view.getUint8(windowAt));
    if (!isSingle && windowBytes > MAX_WINDOW_BYTES) throw new Error("its window is too large");
    yield { kind: "header", from: at, to, contentBytes, windowBytes };
    at = to;
    for (let isLast = false; !isLast; ) {
      endOf(3);
      const header = view.getUint16(at, true) | (view.getUint8(at + 2) << 16);
      isLast = (header & 1) === 1;
      const type = (header >> 1) & 3;
      const size = header >> 3;
      if (type === 3 || size > MAX_BLOCK_BYTES) throw new Error("it has a block that is none");
      const isRun = type === 1;
      const end = endOf(3 + (isRun ? 1 : size));
      yield { kind: "block", from: at, to: end, knownBytes: type === 2 ? 0 : size, windowBytes };
      at = end;
    }
    if ((descriptor & 4) !== 0) {
      const end = endOf(4);
      yield { kind: "rest", from: at, to: end };
      at = end;
    }
  }
}

function readSize(view: DataView, at: number, bytes: number): number | undefined {
  switch (bytes) {
    case 1:
      return view.getUint8(at);
    case 2:
      return view.getUint16(at, true) + 256;
    case 4:
      return view.getUint32(at, true);
    case 8:
      return Number(view.getBigUint64(at, true));
    default:
      return undefined;
  }
}

function readWindow(descriptor: number): number {
  const base = 2 ** (10 + (descriptor >> 3));
  return base + (base / 8) * (descriptor & 7);
}

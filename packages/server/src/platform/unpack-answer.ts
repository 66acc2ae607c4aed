import { promisify } from "node:util";
import { brotliDecompress, constants, gunzip, inflate, inflateRaw } from "node:zlib";

/** What an answer holds: its bytes; or why they cannot be had. */
export type UnpackedAnswer = Buffer | "too-large" | "unreadable";

type Unpack = (packed: Buffer, options: { maxOutputLength: number }) => Promise<Buffer>;

// As lenient with ends that are missing as Node's `fetch` is.
const LENIENT = { flush: constants.Z_SYNC_FLUSH, finishFlush: constants.Z_SYNC_FLUSH };
const lenient =
  (unpack: typeof gunzip | typeof inflate): Unpack =>
  (packed, options) =>
    promisify<Buffer, object, Buffer>(unpack)(packed, { ...LENIENT, ...options });

const UNPACK: ReadonlyMap<string, Unpack> = new Map([
  ["gzip", lenient(gunzip)],
  ["x-gzip", lenient(gunzip)],
  // Some servers leave out the head that says what it is.
  ["deflate", (packed, options) => lenient(isZlib(packed) ? inflate : inflateRaw)(packed, options)],
  ["br", promisify<Buffer, object, Buffer>(brotliDecompress)],
]);

/** More layers than this nobody sends in earnest. */
const MAX_LAYERS = 5;

/**
 * The bytes of an HTTP answer as they were before its server packed them for the way, as `fetch` of
 * Node.js unpacks them: what is packed in an unknown way stays as it is.
 * @param encoding the header `content-encoding`
 * @param maxBytes what any layer may unpack to
 */
export async function unpackAnswer(
  body: Buffer,
  encoding: string | undefined,
  maxBytes: number,
): Promise<UnpackedAnswer> {
  if (encoding === undefined || body.byteLength === 0) return body;
  const names = encoding.split(",").map((name) => name.trim().toLowerCase());
  if (names.length > MAX_LAYERS) return "unreadable";
  const layers = names.map((name) => UNPACK.get(name));
  if (!layers.every((unpack) => unpack !== undefined)) return body;
  let bytes = body;
  for (const unpack of layers.toReversed()) {
    try {
      bytes = await unpack(bytes, { maxOutputLength: maxBytes });
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      return code === "ERR_BUFFER_TOO_LARGE" ? "too-large" : "unreadable";
    }
  }
  return bytes;
}

/** Whether deflated bytes begin with a head. */
function isZlib(packed: Buffer): boolean {
  return ((packed[0] ?? 0) & 0x0f) === 0x08;
}

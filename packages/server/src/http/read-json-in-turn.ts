import type { Json } from "@hedgerow/core/json";
import { createSlices, type Slices } from "../platform/slices.ts";
import { Refusal } from "./errors.ts";
import { createLargeWork } from "./large-work.ts";
import { parseStrictJson } from "./parse-json.ts";
import { type MemberBounds, parseJsonInSlices, TooManyMembers } from "./parse-json-in-slices.ts";

/**
 * Reads JSON of management requests: proper JSON only, long ones one at a time and in slices, so that
 * others are served in between. Rejects with a `SyntaxError` for what is no JSON in UTF-8, and with a
 * {@link Refusal}: 400 for more than {@link MEMBER_BOUNDS}, naming the field, 503 where too much waits.
 */
export interface JsonReader {
  ofBytes(bytes: Buffer): Promise<Json>;
  ofText(text: string): Promise<Json>;
}

/**
 * Each costs a microsecond a few times over, and more where an object has many: what everything after
 * may go through at once. Shorter texts cannot have so many.
 */
export const MEMBER_BOUNDS: MemberBounds = { inAll: 100_000, ofObject: 10_000 };
/** Reading what is shorter takes no longer than answering a request. */
const MAX_QUICK_CHARS = 16 * 1024;
/** Bytes are decoded so many at a time. */
const PIECE_BYTES = 256 * 1024;
/** Milliseconds of reading between turns of others. */
const SLICE_MS = 5;

/**
 * One for all requests.
 * @param newSlices begins the slices of one text
 */
export function createJsonReader(newSlices = () => createSlices(SLICE_MS)): JsonReader {
  const largeWork = createLargeWork({ maxRunning: 1 });
  return {
    async ofBytes(bytes) {
      if (bytes.length <= MAX_QUICK_CHARS) return parseStrictJson(newDecoder().decode(bytes));
      return await largeWork.through(bytes.length, async () => {
        const slices = newSlices();
        return parseBounded(await decodeInSlices(bytes, slices), slices);
      });
    },
    async ofText(text) {
      if (text.length <= MAX_QUICK_CHARS) return parseStrictJson(text);
      return await largeWork.through(text.length, () => parseBounded(text, newSlices()));
    },
  };
}

const newDecoder = () => new TextDecoder("utf-8", { fatal: true });

async function decodeInSlices(bytes: Buffer, slices: Slices): Promise<string> {
  const decoder = newDecoder();
  let text = "";
  for (let at = 0; at < bytes.length; at += PIECE_BYTES) {
    if (slices.isOver()) await slices.next();
    text += decoder.decode(bytes.subarray(at, at + PIECE_BYTES), { stream: true });
  }
  return text + decoder.decode();
}

async function parseBounded(text: string, slices: Slices): Promise<Json> {
  try {
    const options = { parsePiece: parseStrictJson, bounds: MEMBER_BOUNDS };
    return (await parseJsonInSlices(text, slices, options)).value;
  } catch (error) {
    if (!(error instanceof TooManyMembers)) throw error;
    throw new Refusal("invalid_input", `Request too large: ${error.message}.`, {
      attr: error.field,
    });
  }
}

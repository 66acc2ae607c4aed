import type { Json } from "@hedgerow/core/json";
import type { Slices } from "../platform/slices.ts";
import { checkBounds, endOfString, parseShaped } from "./parse-json.ts";

/** A fraction of a millisecond. */
const PIECE_CHARS = 64 * 1024;
/** Steps, of a character or over a string, between two looks at the clock. */
const STEPS_PER_LOOK = 2000;

/**
 * The value that `parseJson` reads from a text that is too long to be read leniently. Where the text is a list, or an
 * object with a list named `batch`, of many values, others get their turn in between. Throws like
 * `parseJson`; a `SyntaxError` may tell of the part in which it was found.
 * @param pieceChars characters parsed at a time, unless a single value is longer
 */
export async function parseJsonInSlices(
  text: string,
  slices: Slices,
  pieceChars: number = PIECE_CHARS,
): Promise<Json> {
  const list = await findList(text, slices, pieceChars);
  if (!list) return parseShaped(text);
  const values: Json[] = [];
  for (const { start, end } of list.pieces) {
    if (slices.isOver()) await slices.next();
    const piece = parseShaped(`[${text.slice(start, end)}]`) as readonly Json[];
    // `[1,]` and `[,1]` are no lists, though each of their pieces is one.
    if (piece.length === 0 && list.pieces.length > 1) {
      throw new SyntaxError("a value is missing beside a comma");
    }
    for (const value of piece) values.push(value);
  }
  const around = text.slice(0, list.start) + text.slice(list.end);
  const whole = parseShaped(around) as Json[] | { batch: Json };
  if (Array.isArray(whole)) return values;
  whole.batch = values;
  return whole;
}

interface Stretch {
  readonly start: number;
  readonly end: number;
}

/** What stands between the brackets of a list, cut at some of its commas. */
interface List extends Stretch {
  readonly pieces: readonly Stretch[];
}

/**
 * Finds the list that the whole text is, or its member `batch`; of several the last, which counts.
 * `undefined` where there is none, or names are written in a way that only parsing tells. Of a text
 * that is no JSON, a piece or what is around them is none either.
 */
async function findList(
  text: string,
  slices: Slices,
  pieceChars: number,
): Promise<List | undefined> {
  let depth = 0;
  let containers = 0;
  let list: List | undefined;
  /** The list that is being read, how deep its values are, and where its next piece begins. */
  let open: { depth: number; start: number; pieceStart: number; pieces: Stretch[] } | undefined;
  let lastString = "";
  let name = "";
  let steps = 0;
  for (let at = 0; at < text.length; at++) {
    if (++steps % STEPS_PER_LOOK === 0 && slices.isOver()) await slices.next();
    switch (text.charCodeAt(at)) {
      case 0x22: {
        const end = endOfString(text, at);
        if (depth === 1) lastString = text.slice(at + 1, end);
        at = end;
        break;
      }
      case 0x3a: // :
        if (depth !== 1) break;
        name = lastString;
        if (name.includes("\\")) return undefined;
        if (name === "batch") list = undefined;
        break;
      case 0x2c: // ,
        if (depth === 1) name = "";
        if (open?.depth === depth && at - open.pieceStart >= pieceChars) {
          open.pieces.push({ start: open.pieceStart, end: at });
          open.pieceStart = at + 1;
        }
        break;
      case 0x5b: // [
        checkBounds(++depth, ++containers);
        if (depth === 1 || (depth === 2 && name === "batch")) {
          open ??= { depth, start: at + 1, pieceStart: at + 1, pieces: [] };
        }
        break;
      case 0x7b: // {
        checkBounds(++depth, ++containers);
        break;
      case 0x7d: // }
      case 0x5d: // ]
        if (open?.depth === depth) {
          open.pieces.push({ start: open.pieceStart, end: at });
          list = { start: open.start, end: at, pieces: open.pieces };
          open = undefined;
        }
        depth--;
        break;
    }
  }
  return list;
}

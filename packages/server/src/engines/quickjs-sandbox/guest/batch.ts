import { newList, parse } from "./intrinsics.ts";
import { type BatchPlaces, type LazyShape, lazyShape } from "./lazy-event.ts";

/** The events of a batch, one behind the other in two texts, and where they and their values stand. */
export const batchTexts = newList<string>();
export let numbers = new Uint32Array();
export let batchPlaces: BatchPlaces = { places: null };
export let batchNumber = 0;
/** Keys that events have in common, by their numbers. */
export const shapes = newList<LazyShape | undefined>();
const Numbers = Uint32Array;

/** Takes a batch, and keys that have not come before: `[first id, [keys, lengths]…]`. */
export function takeBatch(
  plain: string,
  other: string,
  buffer: ArrayBuffer,
  newShapes: string,
): void {
  // Nothing here runs code of the transformation: no iterators, no setters.
  const given = parse(newShapes) as [number, ...[string[], number[]][]];
  if (given[0] === 1) shapes.length = 0;
  for (let at = 1; at < given.length; at += 1) {
    const one = given[at] as [string[], number[]];
    shapes[shapes.length === 0 ? 1 : shapes.length] = lazyShape(one[0], one[1]);
  }
  batchPlaces.places = null;
  batchTexts[0] = plain;
  batchTexts[1] = other;
  numbers = new Numbers(buffer);
  batchPlaces = { places: numbers };
  batchNumber += 1;
}

import { createSlices } from "../../platform/slices.ts";

/** Items per turn unless told otherwise: few enough for one SQL statement, whatever it does. */
const ITEMS_PER_TURN = 50;
/** Time after which the rest of the process gets its turn. */
export const TURN_MS = 2;

/**
 * The items in runs, small enough for one SQL statement each. After some milliseconds the rest of
 * the process gets its turn, so that a long run of events does not keep flag requests waiting.
 */
export async function* inTurns<Item>(
  items: readonly Item[],
  itemsPerTurn: number = ITEMS_PER_TURN,
): AsyncGenerator<readonly Item[]> {
  const slices = createSlices(TURN_MS);
  for (let start = 0; start < items.length; start += itemsPerTurn) {
    if (start > 0 && slices.isOver()) await slices.next();
    yield items.slice(start, start + itemsPerTurn);
  }
}

/** Items per turn: few enough for one SQL statement, and for a turn of some milliseconds. */
const ITEMS_PER_TURN = 50;

/**
 * The items in runs, small enough for one SQL statement each. Between two of them the rest of the
 * process gets its turn, so that a long run of events does not keep flag requests waiting.
 */
export async function* inTurns<Item>(items: readonly Item[]): AsyncGenerator<readonly Item[]> {
  for (let start = 0; start < items.length; start += ITEMS_PER_TURN) {
    if (start > 0) await new Promise<void>((resolve) => setImmediate(resolve));
    yield items.slice(start, start + ITEMS_PER_TURN);
  }
}

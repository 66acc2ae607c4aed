/** Items per turn unless told otherwise: few enough for one SQL statement, whatever it does. */
const ITEMS_PER_TURN = 50;
/** Time after which the rest of the process gets its turn. */
const TURN_MS = 2;

/**
 * The items in runs, small enough for one SQL statement each. After some milliseconds the rest of
 * the process gets its turn, so that a long run of events does not keep flag requests waiting.
 */
export async function* inTurns<Item>(
  items: readonly Item[],
  itemsPerTurn: number = ITEMS_PER_TURN,
): AsyncGenerator<readonly Item[]> {
  let startedAt = performance.now();
  for (let start = 0; start < items.length; start += itemsPerTurn) {
    if (start > 0 && performance.now() - startedAt > TURN_MS) {
      await new Promise<void>((resolve) => setImmediate(resolve));
      startedAt = performance.now();
    }
    yield items.slice(start, start + itemsPerTurn);
  }
}

/**
 * The same for a loop of its own over what takes microseconds each: ask after each item whether the
 * turn is over, and await the next one then.
 */
export function startTurns(): { isOver(): boolean; next(): Promise<void> } {
  let startedAt = performance.now();
  let items = 0;
  return {
    isOver() {
      items++;
      return items % ITEMS_PER_TURN === 0 && performance.now() - startedAt > TURN_MS;
    },
    async next() {
      await new Promise<void>((resolve) => setImmediate(resolve));
      startedAt = performance.now();
    },
  };
}

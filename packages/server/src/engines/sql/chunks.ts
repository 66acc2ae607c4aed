/** Rows per statement: far enough below the 32,766 parameters that SQLite takes. */
const ROWS_PER_STATEMENT = 1000;

/** The items in runs small enough for one SQL statement each. */
export function* inChunks<Item>(items: readonly Item[]): Generator<readonly Item[]> {
  if (items.length <= ROWS_PER_STATEMENT) {
    if (items.length > 0) yield items;
    return;
  }
  for (let start = 0; start < items.length; start += ROWS_PER_STATEMENT) {
    yield items.slice(start, start + ROWS_PER_STATEMENT);
  }
}

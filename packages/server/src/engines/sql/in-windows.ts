/** A stretch of a list, and where it ends; `null` at the end of the list. */
export interface Window<Mark, Row> {
  readonly rows: readonly Row[];
  readonly end: Mark | null;
  /** What was looked at for these rows. */
  readonly looked: { readonly rows: number; readonly bytes: number };
}

/** A row of a list: its place, and how long its properties are as text. */
export interface MeasuredRow<Mark> {
  readonly mark: Mark;
  readonly bytes: number;
}

/** Most rows of a window: few enough for one SQL statement, whatever it does. */
const MAX_WINDOW_ROWS = 500;
/** Text after which a window ends: so much is read and decoded in some milliseconds. */
const MAX_WINDOW_BYTES = 1024 * 1024;
/** Text after which a page ends, since all of it is held in memory and written at once. */
const MAX_PAGE_BYTES = 16 * 1024 * 1024;
/** Text after which counting what there is ends: what was met by then stands for all. */
export const MAX_SCANNED_BYTES = 16 * 1024 * 1024;

/**
 * Walks a long list in stretches of which each takes some milliseconds, however large its rows
 * are, so that searching it never keeps the rest of the process waiting.
 * @param walk `measure` tells the next rows after a place without reading what is in them, `rowsOf`
 *   reads what is looked for between two places
 */
export async function* inWindows<Mark, Row>(walk: {
  readonly after: Mark | undefined;
  readonly maxRows?: number;
  readonly measure: (
    after: Mark | undefined,
    maxRows: number,
  ) => Promise<readonly MeasuredRow<Mark>[]>;
  readonly rowsOf: (after: Mark | undefined, end: Mark) => Promise<readonly Row[]>;
}): AsyncGenerator<Window<Mark, Row>> {
  const maxRows = Math.min(walk.maxRows ?? MAX_WINDOW_ROWS, MAX_WINDOW_ROWS);
  let { after } = walk;
  let ahead: readonly MeasuredRow<Mark>[] = [];
  let isLast = false;
  for (;;) {
    if (ahead.length === 0) {
      ahead = await walk.measure(after, maxRows);
      isLast = ahead.length < maxRows;
    }
    let rows = 0;
    let bytes = 0;
    for (const row of ahead) {
      if (rows > 0 && bytes + row.bytes > MAX_WINDOW_BYTES) break;
      rows += 1;
      bytes += row.bytes;
    }
    const end = ahead[rows - 1]?.mark;
    if (end === undefined) return;
    ahead = ahead.slice(rows);
    const isEnd = isLast && ahead.length === 0;
    yield {
      rows: await walk.rowsOf(after, end),
      end: isEnd ? null : end,
      looked: { rows, bytes },
    };
    if (isEnd) return;
    after = end;
    await new Promise<void>((resolve) => setImmediate(resolve));
  }
}

/** Takes a page out of windows: what is accepted, but for the first `offset`. */
export async function pageOfWindows<Mark, Row extends { readonly properties: string }>(
  windows: AsyncIterable<Window<Mark, Row>>,
  page: {
    readonly limit: number;
    readonly offset: number;
    readonly maxMs: number;
    readonly accept: (rows: readonly Row[]) => Promise<readonly Row[]>;
    readonly markOf: (row: Row) => Mark;
  },
): Promise<{ readonly rows: readonly Row[]; readonly next: Mark | null }> {
  const endMs = performance.now() + page.maxMs;
  const found: Row[] = [];
  let foundBytes = 0;
  let toSkip = page.offset;
  for await (const { rows, end } of windows) {
    for (const row of await page.accept(rows)) {
      if (toSkip > 0) {
        toSkip -= 1;
        continue;
      }
      const last = found.at(-1);
      foundBytes += row.properties.length;
      if (last && (found.length === page.limit || foundBytes > MAX_PAGE_BYTES)) {
        return { rows: found, next: page.markOf(last) };
      }
      found.push(row);
    }
    // What was skipped is not counted again by who goes on from a mark.
    if (end && toSkip === 0 && performance.now() > endMs) return { rows: found, next: end };
  }
  return { rows: found, next: null };
}

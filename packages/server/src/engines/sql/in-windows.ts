/** A stretch of a list, and where it ends; `null` at the end of the list. */
export interface Window<Mark, Row> {
  readonly rows: readonly Row[];
  readonly end: Mark | null;
}

/**
 * Walks a long list in stretches of which each takes some milliseconds, so that searching it never
 * keeps the rest of the process waiting.
 * @param walk `endOf` tells where the stretch after a place ends (`undefined` where the list does),
 *   `rowsOf` reads what is looked for between two places
 */
export async function* inWindows<Mark, Row>(walk: {
  readonly after: Mark | undefined;
  readonly endOf: (after: Mark | undefined) => Promise<Mark | undefined>;
  readonly rowsOf: (after: Mark | undefined, end: Mark | undefined) => Promise<readonly Row[]>;
}): AsyncGenerator<Window<Mark, Row>> {
  let { after } = walk;
  for (;;) {
    const end = await walk.endOf(after);
    yield { rows: await walk.rowsOf(after, end), end: end ?? null };
    if (end === undefined) return;
    after = end;
    await new Promise<void>((resolve) => setImmediate(resolve));
  }
}

/** Rows that were read at once, as a whole list. */
export async function* onlyWindow<Row>(rows: readonly Row[]): AsyncGenerator<Window<never, Row>> {
  yield { rows, end: null };
}

/** Takes a page out of windows: what is accepted, but for the first `offset`. */
export async function pageOfWindows<Mark, Row>(
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
  let toSkip = page.offset;
  for await (const { rows, end } of windows) {
    for (const row of await page.accept(rows)) {
      if (toSkip > 0) toSkip--;
      else found.push(row);
    }
    const last = found[page.limit - 1];
    if (found.length > page.limit && last) {
      return { rows: found.slice(0, page.limit), next: page.markOf(last) };
    }
    // What was skipped is not counted again by who goes on from a mark.
    if (end && toSkip === 0 && performance.now() > endMs) return { rows: found, next: end };
  }
  return { rows: found, next: null };
}

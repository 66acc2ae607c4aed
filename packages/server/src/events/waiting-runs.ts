import { joinRows, memoryBytesOf, releaseRows } from "./event-rows.ts";
import type { EventBatch } from "./event-store.ts";

/** A batch that begins behind a position. */
export interface WaitingRun extends EventBatch {
  readonly after: number;
  /** Whether it has letters that reading its events again would not give again. */
  readonly hasOwnLetters: boolean;
}

/** Prepared runs that wait in memory for the store, within bounds. */
export interface WaitingRuns {
  /** Keeps a run if there is room; what is not kept has to be read from the log again. */
  add(run: WaitingRun, chars: number): void;
  /** Everything that follows a position without a gap, as one batch; `undefined` without any. */
  take(after: number): EventBatch | undefined;
  /** Position before the first run that waits. */
  firstAfter(): number | undefined;
  /** Gives up the runs that end at or below a position, and the memory of their rows. */
  forget(upTo: number): void;
}

const MAX_ROWS = 20_000;
const MAX_CHARS = 32 * 1024 * 1024;
const MAX_BYTES = 64 * 1024 * 1024;

/**
 * Keeps runs up to about 20,000 rows, 32 Mi characters of events or 64 MiB of packed rows, whichever
 * is reached first, unless told otherwise.
 */
export function createWaitingRuns({
  maxRows = MAX_ROWS,
  maxChars = MAX_CHARS,
  maxBytes = MAX_BYTES,
} = {}): WaitingRuns {
  let waiting: { readonly run: WaitingRun; readonly chars: number }[] = [];
  let rows = 0;
  let chars = 0;
  let bytes = 0;

  return {
    add(run, runChars) {
      const isFull = rows >= maxRows || chars >= maxChars || bytes >= maxBytes;
      if (!run.hasOwnLetters && waiting.length > 0 && isFull) {
        releaseRows(run.rows);
        return;
      }
      waiting.push({ run, chars: runChars });
      rows += run.rows.length;
      chars += runChars;
      bytes += memoryBytesOf(run.rows);
    },

    take(after) {
      const gathered: WaitingRun[] = [];
      let end = after;
      for (const { run } of waiting) {
        if (run.end <= after) continue;
        if (gathered.length === 0 ? run.after > after : run.after !== end) break;
        gathered.push(run);
        end = run.end;
      }
      if (gathered.length === 0) return undefined;
      return {
        rows: joinRows(gathered.map((run) => run.rows)),
        merges: gathered.flatMap((run) => run.merges),
        drops: gathered.flatMap((run) => run.drops),
        deadLetters: gathered.flatMap((run) => run.deadLetters),
        end,
      };
    },

    firstAfter: () => waiting[0]?.run.after,

    forget(upTo) {
      for (const { run } of waiting) if (run.end <= upTo) releaseRows(run.rows);
      waiting = waiting.filter(({ run }) => run.end > upTo);
      rows = waiting.reduce((sum, { run }) => sum + run.rows.length, 0);
      chars = waiting.reduce((sum, one) => sum + one.chars, 0);
      bytes = waiting.reduce((sum, { run }) => sum + memoryBytesOf(run.rows), 0);
    },
  };
}

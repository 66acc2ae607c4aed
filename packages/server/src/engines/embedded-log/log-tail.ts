import type { LoggedEvent } from "@hedgerow/core/events/event";

/** The newest entries of a log, without gaps, within a bound. */
export interface LogTail {
  /** Adds the newest entry, with the length of its text; the oldest make room. */
  add(entry: LoggedEvent, length: number): void;
  /**
   * The entries after a position, up to a number and to the one with which they are longer than
   * `maxChars`; `undefined` when the first of them is not here.
   */
  read(
    after: number,
    bounds: { readonly limit: number; readonly maxChars: number },
  ): { readonly entries: readonly LoggedEvent[]; readonly chars: number } | undefined;
  /** Gives up the oldest where the bound has shrunk. */
  trim(): void;
  /** Gives up the entries at or below a position. */
  forget(upTo: number): void;
}

/** A tail of at most so many characters of events, as they are told with each that comes. */
export function createLogTail(maxChars: () => number): LogTail {
  let entries: (LoggedEvent | undefined)[] = [];
  let lengths: number[] = [];
  /** How many of both are given up already; they are cut off now and then. */
  let gone = 0;
  let chars = 0;

  function dropFirst(): void {
    chars -= lengths[gone] ?? 0;
    // Nothing else may be left that knows of it: it would be copied by each collection of garbage.
    entries[gone] = undefined;
    gone++;
  }

  function cutOff(): void {
    if (gone < 1000 || gone * 2 < entries.length) return;
    entries = entries.slice(gone);
    lengths = lengths.slice(gone);
    gone = 0;
  }

  function trim(): void {
    const most = maxChars();
    while (chars > most && gone < entries.length) dropFirst();
    cutOff();
  }

  return {
    add(entry, length) {
      const last = entries.at(-1)?.position;
      if (last !== undefined && entry.position !== last + 1) {
        entries = [];
        lengths = [];
        gone = 0;
        chars = 0;
      }
      entries.push(entry);
      lengths.push(length);
      chars += length;
      trim();
    },

    trim,

    read(after, bounds) {
      const first = entries[gone]?.position;
      if (first === undefined || after + 1 < first) return undefined;
      const from = gone + after + 1 - first;
      let to = from;
      let taken = 0;
      while (to < entries.length && to - from < bounds.limit && taken < bounds.maxChars) {
        taken += lengths[to] ?? 0;
        to++;
      }
      const found = entries.slice(from, to) as LoggedEvent[];
      return to === from ? undefined : { entries: found, chars: taken };
    },

    forget(upTo) {
      while ((entries[gone]?.position ?? Number.POSITIVE_INFINITY) <= upTo) dropFirst();
      cutOff();
    },
  };
}

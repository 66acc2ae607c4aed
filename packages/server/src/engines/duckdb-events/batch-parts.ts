import { encodeEvent } from "@hedgerow/core/events/event-codec";
import type { DeadLetter, EventBatch, EventRow, EventRows } from "../../events/event-store.ts";
import { MOST_CLAIMS } from "./event-index/event-index.ts";
import { PackedEvents } from "./packed-events.ts";

/** Rows that follow each other. */
export interface RowRun {
  readonly events: PackedEvents;
  readonly start: number;
  /** Index behind the last. */
  end: number;
}

/** As much of a batch as one transaction takes. */
export interface BatchPart {
  readonly runs: readonly RowRun[];
  readonly rowCount: number;
  readonly letters: readonly (DeadLetter & { readonly text: string })[];
  /** Position of its last row or letter; 0 without any. */
  readonly last: number;
}

/** Rows and letters of a batch that are not stored yet. */
export interface BatchQueue {
  isEmpty(): boolean;
  /** What comes next; the parts before are done with. */
  nextPart(): Promise<BatchPart>;
  /** Gives back the memory of what was packed here, once all parts are done with. */
  release(): void;
}

/** A commit needs a multiple of what it stores in memory: larger batches become several. */
const CHARS_PER_TRANSACTION = 6 * 1024 * 1024;
/** Rows that came unpacked are packed so many at a time, shortly before they are stored. */
const ROWS_PER_PACK = 1000;

/**
 * Rows and letters of a batch above a position, in the order of their positions.
 * @param pack for rows that are not packed
 */
export function createQueue(
  { rows, deadLetters }: EventBatch,
  stored: number,
  pack: (rows: readonly EventRow[]) => Promise<PackedEvents>,
): BatchQueue {
  const sources = sourcesOf(rows, stored);
  const letters = deadLetters
    .filter(({ position }) => position > stored)
    .toSorted((a, b) => a.position - b.position);
  /** Of what is packed: the rows that come next. */
  let current: { readonly events: PackedEvents; next: number } | undefined;
  let nextLetter = 0;
  /** What was packed here and is not given back yet. */
  const packed = new Set<PackedEvents>();

  function releaseTaken(): void {
    for (const events of packed) {
      if (events === current?.events && current.next < events.length) continue;
      events.release();
      packed.delete(events);
    }
  }

  async function packHere(rows: readonly EventRow[]): Promise<PackedEvents> {
    const events = await pack(rows);
    packed.add(events);
    return events;
  }

  /** The events of the next row, packed; `undefined` after the last. */
  async function findCurrent() {
    while (!current || current.next === current.events.length) {
      const source = sources.shift();
      if (!source) return undefined;
      const events = source instanceof PackedEvents ? source : await packHere(source);
      current = { events, next: 0 };
      while (current.next < events.length && events.positionAt(current.next) <= stored) {
        current.next++;
      }
    }
    return current;
  }

  return {
    isEmpty: () =>
      sources.length === 0 &&
      nextLetter === letters.length &&
      (!current || current.next === current.events.length),

    release: releaseTaken,

    async nextPart() {
      releaseTaken();
      const runs: RowRun[] = [];
      const taken: (DeadLetter & { text: string })[] = [];
      let rowCount = 0;
      let chars = 0;
      let last = 0;
      for (;;) {
        const rest = await findCurrent();
        const rowPosition = rest ? rest.events.positionAt(rest.next) : Number.POSITIVE_INFINITY;
        const letter = letters[nextLetter];
        const letterPosition = letter ? letter.position : Number.POSITIVE_INFINITY;
        const position = Math.min(rowPosition, letterPosition);
        if (position === Number.POSITIVE_INFINITY) break;
        const isFull = rowCount + taken.length >= MOST_CLAIMS - 1 || chars >= CHARS_PER_TRANSACTION;
        // A row and a letter may have one position: they stay together.
        if (isFull && position > last) break;
        last = position;
        if (rest && rowPosition <= letterPosition) {
          const { events, next } = rest;
          const run = runs.at(-1);
          if (run?.events === events) run.end = next + 1;
          else runs.push({ events, start: next, end: next + 1 });
          chars += events.textLengthAt(next);
          rest.next++;
          rowCount++;
        } else if (letter) {
          const text = encodeEvent(letter.event);
          chars += text.length;
          taken.push({ ...letter, text });
          nextLetter++;
        }
      }
      return { runs, rowCount, letters: taken, last };
    },
  };
}

/** Rows in the order of their positions: packed already, or in lists to pack. */
function sourcesOf(rows: EventRows, stored: number): (PackedEvents | readonly EventRow[])[] {
  const leaves = leavesOf(rows);
  if (leaves.every((leaf) => leaf instanceof PackedEvents) && isAscending(leaves))
    return [...leaves];
  const all = leaves.flatMap((leaf) => [...leaf]);
  const sorted = all
    .filter(({ position }) => position > stored)
    .toSorted((a, b) => a.position - b.position);
  const lists: (readonly EventRow[])[] = [];
  for (let start = 0; start < sorted.length; start += ROWS_PER_PACK) {
    lists.push(sorted.slice(start, start + ROWS_PER_PACK));
  }
  return lists;
}

function leavesOf(rows: EventRows): readonly EventRows[] {
  return "parts" in rows && rows.parts ? rows.parts.flatMap(leavesOf) : [rows];
}

function isAscending(packs: readonly PackedEvents[]): boolean {
  let last = 0;
  for (const events of packs) {
    if (events.length === 0) continue;
    if (events.positionAt(0) <= last) return false;
    last = events.positionAt(events.length - 1);
  }
  return true;
}

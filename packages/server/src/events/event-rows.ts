import type { EventRow, EventRows, RowPack } from "./event-store.ts";

/** Rows one after the other, as they are or packed, without unpacking any. */
export function joinRows(parts: readonly EventRows[]): EventRows {
  const [first] = parts;
  if (first && parts.length === 1) return first;
  return parts.every(isList) ? parts.flat() : new JoinedRows(parts);
}

/** The rows of some projects; those of others are not unpacked. */
export function rowsOfProjects(
  rows: EventRows,
  isWanted: (projectId: number) => boolean,
): Iterable<EventRow> {
  return isList(rows)
    ? rows.filter(({ event }) => isWanted(event.projectId))
    : rows.ofProjects(isWanted);
}

/** Bytes that packed rows hold; 0 of rows as they are. */
export function memoryBytesOf(rows: EventRows): number {
  return isList(rows) ? 0 : rows.memoryBytes;
}

/** Gives back the memory of what is packed among rows that nobody uses any more. */
export function releaseRows(rows: EventRows): void {
  if (!isList(rows)) rows.release();
}

class JoinedRows implements RowPack {
  readonly parts: readonly EventRows[];
  readonly length: number;

  constructor(parts: readonly EventRows[]) {
    this.parts = parts;
    this.length = parts.reduce((sum, { length }) => sum + length, 0);
  }

  get memoryBytes(): number {
    return this.parts.reduce((sum, part) => sum + memoryBytesOf(part), 0);
  }

  *[Symbol.iterator](): Generator<EventRow> {
    for (const part of this.parts) yield* part;
  }

  *ofProjects(isWanted: (projectId: number) => boolean): Generator<EventRow> {
    for (const part of this.parts) yield* rowsOfProjects(part, isWanted);
  }

  release(): void {
    for (const part of this.parts) releaseRows(part);
  }
}

function isList(rows: EventRows): rows is readonly EventRow[] {
  return Array.isArray(rows);
}

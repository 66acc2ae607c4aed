import type { EventRow, RowPack } from "../../events/event-store.ts";
import { createSlices } from "../../platform/slices.ts";
import { insertIdOf, packRow, propertiesTextsOf, unpackRow } from "./event-fields.ts";
import type { EventIndex, EventKeys } from "./event-index/event-index.ts";
import { positionAt } from "./event-index/key-records.ts";
import { createPackedRows, FIRST_CAPACITY, type PackedRows } from "./packed-rows.ts";

/** Rows in the form in which they are stored, in memory of their own beside what V8 looks through. */
export class PackedEvents implements RowPack {
  readonly length: number;
  /** What the index of taken ids is asked. */
  readonly keys: EventKeys;
  readonly #packed: PackedRows;
  readonly #giveBack: (packed: PackedRows) => void;
  /** Where each row ends in the packed ones. */
  readonly #ends: Uint32Array;
  readonly #hexRows: ReadonlySet<number>;
  readonly #projectIds: readonly number[];
  readonly #textLengths: Uint32Array;
  /** Texts that are kept in pieces, by row. */
  readonly #longTexts: ReadonlyMap<number, string>;
  #isReleased = false;

  /** Of rows in the order of their positions; see {@link createEventPacking}. */
  constructor(parts: {
    readonly keys: EventKeys;
    readonly packed: PackedRows;
    readonly giveBack: (packed: PackedRows) => void;
    readonly ends: Uint32Array;
    readonly hexRows: ReadonlySet<number>;
    readonly projectIds: readonly number[];
    readonly textLengths: Uint32Array;
    readonly longTexts: ReadonlyMap<number, string>;
  }) {
    this.length = parts.ends.length;
    this.keys = parts.keys;
    this.#packed = parts.packed;
    this.#giveBack = parts.giveBack;
    this.#ends = parts.ends;
    this.#hexRows = parts.hexRows;
    this.#projectIds = parts.projectIds;
    this.#textLengths = parts.textLengths;
    this.#longTexts = parts.longTexts;
  }

  positionAt(index: number): number {
    return positionAt(this.keys.uuids, index);
  }

  get memoryBytes(): number {
    return this.#packed.capacity;
  }

  /** Length of the text of a row's properties. */
  textLengthAt(index: number): number {
    return this.#textLengths[index] ?? 0;
  }

  longTextAt(index: number): string | undefined {
    return this.#longTexts.get(index);
  }

  rowAt(index: number): EventRow {
    if (this.#isReleased) throw new Error("packed rows were given back");
    const fields = this.#packed.fieldsAt(this.#startOf(index), this.#endOf(index) - 1);
    return unpackRow(fields, this.#longTexts.get(index));
  }

  /** Adds a row to others. */
  copyRow(index: number, to: PackedRows): void {
    if (this.#isReleased) throw new Error("packed rows were given back");
    const isHex = this.#hexRows.has(index);
    to.copyRow(this.#packed.bytes(), this.#startOf(index), this.#endOf(index), isHex);
  }

  *[Symbol.iterator](): Generator<EventRow> {
    for (let index = 0; index < this.length; index++) yield this.rowAt(index);
  }

  *ofProjects(isWanted: (projectId: number) => boolean): Generator<EventRow> {
    for (let index = 0; index < this.length; index++) {
      if (isWanted(this.#projectIds[index] as number)) yield this.rowAt(index);
    }
  }

  release(): void {
    if (this.#isReleased) return;
    this.#isReleased = true;
    this.#giveBack(this.#packed);
  }

  #startOf(index: number): number {
    return index === 0 ? 0 : (this.#ends[index - 1] as number);
  }

  #endOf(index: number): number {
    return this.#ends[index] as number;
  }
}

/** Packs rows, whose positions ascend. Rejects where one of them cannot be stored. */
export type PackEvents = (rows: readonly EventRow[], keysOf: KeysOf) => Promise<PackedEvents>;

type KeysOf = EventIndex["keysOf"];

/** Memory that is kept to pack the next rows in, and no more of each: for some runs that wait. */
const MOST_SPARE = 16;
const MOST_SPARE_BYTES = 4 * 1024 * 1024;
/** Packing goes on for so long before requests get their turn. */
const TURN_MS = 2;

export function createEventPacking(): PackEvents {
  const spare: PackedRows[] = [];
  const giveBack = (packed: PackedRows) => {
    const { capacity } = packed;
    if (spare.length >= MOST_SPARE || capacity < FIRST_CAPACITY || capacity > MOST_SPARE_BYTES)
      return;
    packed.clear();
    spare.push(packed);
  };

  return async (rows, keysOf) => {
    let packed = spare.pop() ?? createPackedRows();
    const ends = new Uint32Array(rows.length);
    const textLengths = new Uint32Array(rows.length);
    const projectIds: number[] = [];
    const hexRows = new Set<number>();
    const longTexts = new Map<number, string>();
    const slices = createSlices(TURN_MS);
    for (let index = 0; index < rows.length; index++) {
      const row = rows[index] as EventRow;
      if (index % 50 === 49 && slices.isOver()) await slices.next();
      const texts = propertiesTextsOf(row);
      if (packRow(packed, row, texts)) hexRows.add(index);
      ends[index] = packed.byteCount;
      textLengths[index] = texts.length;
      projectIds.push(row.event.projectId);
      if (texts.long !== undefined) longTexts.set(index, texts.long);
    }
    const keys = keysOf(rows.map(indexedOf));
    if (2 * packed.byteCount < packed.capacity) {
      // Runs of few rows wait by the thousand: each takes no more than what is in it.
      const roomy = packed;
      packed = createPackedRows(roomy.byteCount);
      packed.copyRows(roomy);
      giveBack(roomy);
    }
    return new PackedEvents({
      ...{ keys, packed, giveBack, ends, hexRows, projectIds, textLengths, longTexts },
    });
  };
}

function indexedOf({ position, event, changedBy }: EventRow) {
  const { projectId, uuid, distinctId, clientTimestamp, receivedAt } = event;
  return {
    position,
    projectId,
    uuid,
    event: event.event,
    distinctId,
    clientTimestamp,
    receivedAt,
    insertId: insertIdOf(event.properties),
    isChanged: changedBy.length > 0,
  };
}

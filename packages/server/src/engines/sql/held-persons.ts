import type { LedgerPerson } from "@hedgerow/core/persons/person-ledger";

/** What the database said when persons were held: nobody changed any while it says the same. */
export interface PersonsVersion {
  /** Log position up to which events are applied. */
  readonly position: number;
  /** Counts the changes that were no events. */
  readonly changes: number;
}

/** Of each of two generations. */
const MAX_IDS = 8000;
const MAX_PERSONS = 4000;
/** The same, together, in characters of JSON; a single one longer than the second is never kept. */
const MAX_TEXT_LENGTH = 8_000_000;
const MAX_PERSON_TEXT_LENGTH = 64_000;

/**
 * Persons as the events applied last left them, so that the next events need not read them again.
 * Good only inside a transaction that holds the lock of persons, and after `begin` was told what the
 * database says there. Each stored person is here once at most, under whichever of its ids.
 */
export class HeldPersons {
  // What is used moves to the young generation. Once that is full it becomes the old one, which is
  // forgotten: nothing has to be kept in order of use.
  #young = newGeneration();
  #old = newGeneration();
  /** What grew too long to be kept. */
  #tooLong: Held[] = [];
  #version: PersonsVersion | null = null;

  /**
   * Gives up everything if persons changed since `finish`. From here to `finish` nothing is known to
   * be true: a transaction that fails in between leaves no trace.
   */
  begin({ position, changes }: PersonsVersion): void {
    const held = this.#version;
    this.#version = null;
    if (held?.position === position && held.changes === changes) return;
    this.#young = newGeneration();
    this.#old = newGeneration();
    this.#tooLong = [];
  }

  /**
   * What is held now is what the database has once the transaction is committed. Until here everybody
   * who was found or kept since `begin` stays; now there may be too many.
   */
  finish(version: PersonsVersion): void {
    for (const held of this.#tooLong) this.#drop(held);
    this.#tooLong = [];
    const { idCount, persons, textLength } = this.#young;
    if (idCount > MAX_IDS || persons.size > MAX_PERSONS || textLength > MAX_TEXT_LENGTH) {
      this.#old = this.#young;
      this.#young = newGeneration();
    }
    this.#version = version;
  }

  /** The person of an id; `null` for an id nobody has; `undefined` when it must be read. */
  find(projectId: number, distinctId: string): LedgerPerson | null | undefined {
    const known = this.#find(projectId, distinctId);
    if (typeof known === "string") return null;
    return known?.isDropped === false ? known.person : undefined;
  }

  /** UUID of whoever will be the person of an id that nobody has. */
  uuidOfNobody(projectId: number, distinctId: string): string | undefined {
    const known = this.#find(projectId, distinctId);
    return typeof known === "string" ? known : undefined;
  }

  /** By the person's row. */
  byRow(row: number): LedgerPerson | undefined {
    return this.#heldUnder(row)?.person;
  }

  /** Keeps that nobody has an id, and who would. */
  keepNobody(projectId: number, distinctId: string, uuid: string): void {
    this.#setId(projectId, distinctId, uuid);
  }

  /** Keeps a stored person as the one to be found under an id. */
  keep(projectId: number, distinctId: string, person: LedgerPerson): void {
    if (person.row === null) throw new Error("a person is kept but not stored");
    const held = this.#heldUnder(person.row) ?? { person, textLength: 0, isDropped: false };
    this.#keepId(projectId, distinctId, held);
  }

  /** Tells that a person's properties changed. */
  remeasure(person: LedgerPerson): void {
    const held = person.row === null ? undefined : this.#young.persons.get(person.row);
    if (held) this.#measure(held);
  }

  /** For who is not stored any more. */
  drop(row: number): void {
    const held = this.#heldUnder(row);
    if (held) this.#drop(held);
  }

  #heldUnder(row: number): Held | undefined {
    return this.#young.persons.get(row) ?? this.#old.persons.get(row);
  }

  /** What is under an id, which is used now. */
  #find(projectId: number, distinctId: string): Held | string | undefined {
    const known = this.#young.ids.get(projectId)?.get(distinctId);
    if (known !== undefined) return known;
    const old = this.#old.ids.get(projectId)?.get(distinctId);
    if (typeof old === "string") this.#setId(projectId, distinctId, old);
    else if (old?.isDropped === false) this.#keepId(projectId, distinctId, old);
    return old;
  }

  #setId(projectId: number, distinctId: string, held: Held | string): void {
    const young = this.#young;
    let ids = young.ids.get(projectId);
    if (!ids) {
      ids = new Map();
      young.ids.set(projectId, ids);
    }
    if (!ids.has(distinctId)) young.idCount++;
    ids.set(distinctId, held);
  }

  #keepId(projectId: number, distinctId: string, held: Held): void {
    this.#setId(projectId, distinctId, held);
    const young = this.#young;
    const { row } = held.person;
    if (row === null || young.persons.has(row)) return;
    young.persons.set(row, held);
    held.textLength = 0;
    this.#measure(held);
  }

  #measure(held: Held): void {
    const { textLength } = held.person;
    this.#young.textLength += textLength - held.textLength;
    held.textLength = textLength;
    if (textLength > MAX_PERSON_TEXT_LENGTH) this.#tooLong.push(held);
  }

  #drop(held: Held): void {
    held.isDropped = true;
    const { row } = held.person;
    if (row === null) return;
    if (this.#young.persons.delete(row)) this.#young.textLength -= held.textLength;
    this.#old.persons.delete(row);
  }
}

interface Held {
  readonly person: LedgerPerson;
  /** What it counts for in the young generation. */
  textLength: number;
  /** Ids that lead here lead nowhere then. */
  isDropped: boolean;
}

interface Generation {
  /** By project; a UUID where nobody has the id. */
  readonly ids: Map<number, Map<string, Held | string>>;
  idCount: number;
  /** By row: everybody whom an id of the same generation leads to. */
  readonly persons: Map<number, Held>;
  textLength: number;
}

function newGeneration(): Generation {
  return { ids: new Map(), idCount: 0, persons: new Map(), textLength: 0 };
}

import type { StoredPerson } from "@hedgerow/core/persons/person-ledger";

/** What the database said when persons were held: nobody changed any while it says the same. */
export interface PersonsVersion {
  /** Log position up to which events are applied. */
  readonly position: number;
  /** Counts the changes that were no events. */
  readonly changes: number;
}

const MAX_IDS = 16_000;
const MAX_PERSONS = 8000;
/** Together, in characters of JSON; a single one longer than the second is never kept. */
const MAX_TEXT_LENGTH = 16_000_000;
const MAX_PERSON_TEXT_LENGTH = 64_000;

/**
 * Persons as the events applied last left them, so that the next events need not read them again.
 * Good only inside a transaction that holds the lock of persons, and after `begin` was told what the
 * database says there.
 */
export class HeldPersons {
  // Both in order of use, the longest unused first.
  readonly #personIds = new Map<string, number>();
  readonly #persons = new Map<number, StoredPerson>();
  #textLength = 0;
  #version: PersonsVersion | null = null;

  /**
   * Gives up everything if persons changed since `finish`. From here to `finish` nothing is known to
   * be true: a transaction that fails in between leaves no trace.
   */
  begin({ position, changes }: PersonsVersion): void {
    const held = this.#version;
    this.#version = null;
    if (held?.position === position && held.changes === changes) return;
    this.#personIds.clear();
    this.#persons.clear();
    this.#textLength = 0;
  }

  /** What is held now is what the database has once the transaction is committed. */
  finish(version: PersonsVersion): void {
    this.#version = version;
  }

  find(projectId: number, distinctId: string): StoredPerson | undefined {
    const personId = this.#personIds.get(keyOf(projectId, distinctId));
    return personId === undefined ? undefined : this.#persons.get(personId);
  }

  /** By the person's row. */
  byId(personId: number): StoredPerson | undefined {
    return this.#persons.get(personId);
  }

  keep(person: StoredPerson): void {
    this.drop(person.id);
    if (person.textLength > MAX_PERSON_TEXT_LENGTH) return;
    this.#persons.set(person.id, person);
    this.#textLength += person.textLength;
    while (this.#persons.size > MAX_PERSONS || this.#textLength > MAX_TEXT_LENGTH) {
      const [oldest] = this.#persons.keys();
      if (oldest === undefined) return;
      this.drop(oldest);
    }
  }

  keepId(projectId: number, distinctId: string, personId: number): void {
    const key = keyOf(projectId, distinctId);
    this.#personIds.delete(key);
    this.#personIds.set(key, personId);
    if (this.#personIds.size <= MAX_IDS) return;
    const [oldest] = this.#personIds.keys();
    if (oldest !== undefined) this.#personIds.delete(oldest);
  }

  drop(personId: number): void {
    const person = this.#persons.get(personId);
    if (!person) return;
    this.#persons.delete(personId);
    this.#textLength -= person.textLength;
  }
}

const keyOf = (projectId: number, distinctId: string) => `${projectId} ${distinctId}`;

import type { FoundPerson } from "./person-facts.ts";
import type { LedgerChanges } from "./save-person-ledger.ts";

/** What the person store knows of a person, and what it read of the cohorts that others put it into. */
export type RememberedPerson = Pick<
  FoundPerson,
  "id" | "createdAt" | "properties" | "textLength"
> & {
  /** `null` where they were not asked for yet. */
  readonly hashKeyOverrides: ReadonlyMap<string, string> | null;
  /** The same. */
  readonly distinctIds: DistinctIds | null;
  /** The same; with how many changes of memberships there had been before it was read. */
  readonly cohorts: { readonly ids: ReadonlySet<number>; readonly changes: number } | null;
};

/** See `PersonStore.distinctIdsOf`. */
export type DistinctIds = readonly string[] | "too-many";

const MAX_IDS = 20_000;
const MAX_PERSONS = 10_000;
/** Together, in characters of JSON and ids; a single one longer than the second is never kept. */
const MAX_TEXT_LENGTH = 16_000_000;
const MAX_PERSON_TEXT_LENGTH = 64_000;
/** What an id in a set takes, in characters. */
const CHARS_PER_COHORT = 20;

/**
 * Persons read lately, for engines where no other process writes. Whoever writes calls `forget`
 * between its commit and its answer; what was read before that is then not remembered any more.
 */
export class RememberedPersons {
  // Both in order of use, the longest unused first.
  readonly #personIds = new Map<string, number | null>();
  readonly #persons = new Map<number, RememberedPerson>();
  #textLength = 0;
  #generation = 0;

  /** Counts the calls of `forget`: equal before and after a read, nothing was written meanwhile. */
  get generation(): number {
    return this.#generation;
  }

  /** The person of an id; `null` for an id nobody has; `undefined` when it must be read. */
  find(projectId: number, distinctId: string): RememberedPerson | null | undefined {
    const key = keyOf(projectId, distinctId);
    const personId = this.#personIds.get(key);
    if (personId === undefined) return undefined;
    const person = personId === null ? null : this.#persons.get(personId);
    if (person === undefined) return undefined;
    moveToEnd(this.#personIds, key, personId);
    if (person) moveToEnd(this.#persons, person.id, person);
    return person;
  }

  /** Takes in what was read while the generation was the given one. */
  remember(
    projectId: number,
    distinctId: string,
    { person, generation }: { person: RememberedPerson | null; generation: number },
  ): void {
    if (generation !== this.#generation) return;
    if (person && textLengthOf(person) > MAX_PERSON_TEXT_LENGTH) return;
    moveToEnd(this.#personIds, keyOf(projectId, distinctId), person?.id ?? null);
    if (this.#personIds.size > MAX_IDS) dropFirst(this.#personIds);
    if (!person) return;
    this.#drop(person.id);
    this.#persons.set(person.id, person);
    this.#textLength += textLengthOf(person);
    while (this.#persons.size > MAX_PERSONS || this.#textLength > MAX_TEXT_LENGTH) {
      const [oldest] = this.#persons.keys();
      if (oldest === undefined) return;
      this.#drop(oldest);
    }
  }

  forget({
    projectId,
    personIds,
    distinctIds,
  }: Pick<LedgerChanges, "projectId" | "personIds" | "distinctIds">): void {
    this.#generation++;
    for (const id of personIds) this.#drop(id);
    for (const distinctId of distinctIds) this.#personIds.delete(keyOf(projectId, distinctId));
  }

  #drop(personId: number): void {
    const person = this.#persons.get(personId);
    if (!person) return;
    this.#persons.delete(personId);
    this.#textLength -= textLengthOf(person);
  }
}

function textLengthOf({ textLength, distinctIds, cohorts }: RememberedPerson): number {
  const length = textLength + CHARS_PER_COHORT * (cohorts?.ids.size ?? 0);
  if (distinctIds === null || distinctIds === "too-many") return length;
  return distinctIds.reduce((sum, id) => sum + id.length, length);
}

const keyOf = (projectId: number, distinctId: string) => `${projectId} ${distinctId}`;

function moveToEnd<Key, Value>(map: Map<Key, Value>, key: Key, value: Value): void {
  map.delete(key);
  map.set(key, value);
}

function dropFirst(map: Map<string, unknown>): void {
  const [first] = map.keys();
  if (first !== undefined) map.delete(first);
}

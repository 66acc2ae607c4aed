import type { Kysely, Transaction } from "kysely";
import type { PersonsVersion } from "./held-persons.ts";
import type { PersonStatements } from "./person-statements.ts";
import type { Schema } from "./schema.ts";

/** The consumer of the event log whose effects are persons and groups. */
export const PERSONS_CONSUMER = "persons";

/** Counts, in the place of a position, the changes of persons that no event made. */
const OTHER_CHANGES = "changes of persons by hand";

/**
 * Takes the lock under which persons are written, one transaction at a time, and tells the log
 * position up to which events are applied. Whoever writes persons, their ids or their overrides
 * starts with it; what it reads afterwards nobody else changes before the commit.
 */
export async function lockPersons(transaction: Transaction<Schema>): Promise<number> {
  const position = await takeLock(transaction);
  await transaction
    .insertInto("consumer_positions")
    .values({ name: OTHER_CHANGES, position: 1 })
    .onConflict((conflict) =>
      conflict
        .column("name")
        .doUpdateSet((eb) => ({ position: eb("consumer_positions.position", "+", 1) })),
    )
    .execute();
  return position;
}

/** The same for whoever applies events, with what tells whether anybody else changed persons since. */
export async function lockForEvents(transaction: Transaction<Schema>): Promise<PersonsVersion> {
  const position = await takeLock(transaction);
  const changes = await transaction
    .selectFrom("consumer_positions")
    .select("position")
    .where("name", "=", OTHER_CHANGES)
    .executeTakeFirst();
  return { position, changes: changes?.position ?? 0 };
}

/** {@link lockForEvents} for nearly every run of events: with statements that are built once. */
export async function lockForRun(
  transaction: Transaction<Schema>,
  statements: PersonStatements,
): Promise<PersonsVersion> {
  const [lock] = await statements.takeLock(transaction, [{ name: PERSONS_CONSUMER, position: 0 }]);
  const [changes] = await statements.findPosition(transaction, [{ name: OTHER_CHANGES }]);
  return { position: lock?.position ?? 0, changes: changes?.position ?? 0 };
}

/** Log position up to which events are applied; 0 at first. */
export async function personsPosition(reads: Kysely<Schema>): Promise<number> {
  const row = await reads
    .selectFrom("consumer_positions")
    .select("position")
    .where("name", "=", PERSONS_CONSUMER)
    .executeTakeFirst();
  return row?.position ?? 0;
}

async function takeLock(transaction: Transaction<Schema>): Promise<number> {
  const { position } = await transaction
    .insertInto("consumer_positions")
    .values({ name: PERSONS_CONSUMER, position: 0 })
    .onConflict((conflict) =>
      conflict
        .column("name")
        .doUpdateSet((eb) => ({ position: eb.ref("consumer_positions.position") })),
    )
    .returning("position")
    .executeTakeFirstOrThrow();
  return position;
}

import type { Transaction } from "kysely";
import type { Schema } from "./schema.ts";

/** The consumer of the event log whose effects are persons and groups. */
export const PERSONS_CONSUMER = "persons";

/**
 * Takes the lock under which persons are written, one transaction at a time, and tells the log
 * position up to which events are applied. Whoever writes persons, their ids or their overrides
 * starts with it; what it reads afterwards nobody else changes before the commit.
 */
export async function lockPersons(transaction: Transaction<Schema>): Promise<number> {
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

import type { PropertyChanges } from "@hedgerow/core/persons/property-changes";
import { PropertySheet } from "@hedgerow/core/persons/property-sheet";
import type { Transaction } from "kysely";
import type { EventChange } from "../../persons/person-records.ts";
import { personUuid } from "../../persons/person-uuid.ts";
import { decodeSheet } from "./apply-to-persons.ts";
import { encodeBoolean, encodeInstant, encodeJson } from "./codec.ts";
import { inTurns } from "./in-turns.ts";
import { propertyTimes } from "./person-statements.ts";
import { releaseIds, releasesOf } from "./released-ids.ts";
import { encodeSheet } from "./save-person-ledger.ts";
import type { Schema } from "./schema.ts";

// Whoever calls these holds the lock of `lockPersons`, and tells those who remember persons.

/** Notes what stored events have to follow once everything up to a position is stored. */
export async function leaveEventChange(
  transaction: Transaction<Schema>,
  { projectId, position, change }: Omit<EventChange, "id">,
): Promise<void> {
  await transaction
    .insertInto("event_changes")
    .values({ project_id: projectId, position, change: encodeJson(change) })
    .execute();
}

/** Deletes persons and all that is theirs; tells who was there. */
export async function deletePersons(
  transaction: Transaction<Schema>,
  projectId: number,
  uuids: readonly string[],
): Promise<readonly { readonly id: number; readonly uuid: string }[]> {
  const deleted: { id: number; uuid: string }[] = [];
  for await (const some of inTurns(uuids)) {
    const rows = await transaction
      .selectFrom("persons")
      .select(["id", "uuid"])
      .where("project_id", "=", projectId)
      .where("uuid", "in", some)
      .execute();
    if (rows.length === 0) continue;
    const ids = rows.map(({ id }) => id);
    await releaseIds(transaction, ids);
    await transaction.deleteFrom("cohort_members").where("person_id", "in", ids).execute();
    // Distinct ids and overrides go with their person.
    await transaction.deleteFrom("persons").where("id", "in", ids).execute();
    deleted.push(...rows);
  }
  return deleted;
}

/** Applies changes to a person's properties as an event of that time would. */
export async function changePersonProperties(
  transaction: Transaction<Schema>,
  personId: number,
  { changes, now }: { changes: PropertyChanges; now: Date },
): Promise<{ readonly personId: number } | "too-long" | undefined> {
  const row = await transaction
    .selectFrom("persons as p")
    .leftJoin("person_times as t", "t.person_id", "p.id")
    .select(["p.properties", propertyTimes])
    .where("p.id", "=", personId)
    .executeTakeFirst();
  if (!row) return undefined;
  const sheet = decodeSheet(row);
  const outcome = sheet.apply(changes, encodeInstant(now));
  if (outcome === "too-long") return outcome;
  await writeSheet(transaction, personId, sheet);
  return { personId };
}

/** Writes all of a person's properties, times included, into its row. */
async function writeSheet(
  transaction: Transaction<Schema>,
  personId: number,
  sheet: PropertySheet,
): Promise<void> {
  await transaction
    .updateTable("persons")
    .set(encodeSheet(sheet))
    .where("id", "=", personId)
    .execute();
  await transaction.deleteFrom("person_times").where("person_id", "=", personId).execute();
}

/** Gives every id of a person but one to a new person of its own. */
export async function splitPerson(
  transaction: Transaction<Schema>,
  projectId: number,
  split: { readonly uuid: string; readonly mainDistinctId: string | null; readonly now: Date },
): Promise<
  | {
      readonly personId: number;
      readonly moves: readonly { readonly distinctId: string; readonly personId: string }[];
    }
  | "not-found"
  | "unknown-distinct-id"
> {
  const person = await transaction
    .selectFrom("persons")
    .select("id")
    .where("project_id", "=", projectId)
    .where("uuid", "=", split.uuid)
    .executeTakeFirst();
  if (!person) return "not-found";
  const rows = await transaction
    .selectFrom("person_distinct_ids")
    .select("distinct_id")
    .where("person_id", "=", person.id)
    .orderBy("distinct_id")
    .execute();
  const distinctIds = rows.map((row) => row.distinct_id);
  const keptId = split.mainDistinctId ?? distinctIds[0];
  if (keptId === undefined || !distinctIds.includes(keptId)) return "unknown-distinct-id";
  if (split.mainDistinctId === null) {
    await writeSheet(transaction, person.id, new PropertySheet());
  }
  const movedIds = distinctIds.filter((id) => id !== keptId);
  await releaseIds(transaction, [person.id], keptId);
  const releases = await releasesOf(transaction, projectId, movedIds);
  const moves = movedIds.map((distinctId) => ({
    distinctId,
    personId: personUuid(projectId, distinctId, releases.get(distinctId)),
  }));
  for await (const some of inTurns(moves)) {
    const created = await transaction
      .insertInto("persons")
      .values(
        some.map(({ personId }) => ({
          ...encodeSheet(new PropertySheet()),
          project_id: projectId,
          uuid: personId,
          created_at: encodeInstant(split.now),
          is_identified: encodeBoolean(false),
        })),
      )
      .returning(["id", "uuid"])
      .execute();
    const ids = new Map(created.map(({ id, uuid }) => [uuid, id]));
    await transaction
      .insertInto("person_distinct_ids")
      .values(
        some.map(({ distinctId, personId }) => ({
          project_id: projectId,
          distinct_id: distinctId,
          person_id: ids.get(personId) ?? person.id,
        })),
      )
      .onConflict((conflict) =>
        conflict
          .columns(["project_id", "distinct_id"])
          .doUpdateSet((eb) => ({ person_id: eb.ref("excluded.person_id") })),
      )
      .execute();
  }
  return { personId: person.id, moves };
}

import type { LedgerPerson, PersonLedger } from "@hedgerow/core/persons/person-ledger";
import type { PropertySheet } from "@hedgerow/core/persons/property-sheet";
import { type Insertable, sql, type Transaction } from "kysely";
import { encodeBoolean, encodeInstant } from "./codec.ts";
import type { HeldPersons } from "./held-persons.ts";
import { inTurns } from "./in-turns.ts";
import type { PersonStatements } from "./person-statements.ts";
import { nextRevision } from "./project-revisions.ts";
import type { Schema } from "./schema.ts";

/** A merge and the position of the event that carried it out. */
export interface Merge {
  readonly position: number;
  readonly from: string;
  readonly into: string;
}

/** What was changed of what readers may remember. */
export interface LedgerChanges {
  readonly projectId: number;
  /** Persons whose row, ids or overrides changed, or who are gone. */
  readonly personIds: readonly number[];
  /** Ids that belong to somebody now and belonged to nobody before. */
  readonly distinctIds: readonly string[];
  readonly hasNewGroupTypes: boolean;
}

/** Writes what events changed in a ledger; the caller holds the lock of `lockPersons`. */
export async function savePersonLedger(
  transaction: Transaction<Schema>,
  projectId: number,
  {
    ledger,
    merges,
    held,
    statements,
  }: {
    ledger: PersonLedger;
    merges: readonly Merge[];
    held: HeldPersons;
    statements: PersonStatements;
  },
): Promise<LedgerChanges> {
  const { touched } = ledger;
  if (touched.length > 0) await savePersons(transaction, projectId, { touched, statements });
  await saveGroups(transaction, projectId, ledger);
  for await (const some of inTurns(merges)) {
    await transaction
      .insertInto("person_merges")
      .values(
        some.map(({ position, from, into }) => ({
          position,
          project_id: projectId,
          from_uuid: from,
          into_uuid: into,
        })),
      )
      .execute();
  }
  const personIds: number[] = [];
  const distinctIds: string[] = [];
  for (const person of touched) {
    if (person.row !== null) personIds.push(person.row);
    distinctIds.push(...person.newDistinctIds);
    if (person.mergedInto) {
      if (person.row !== null) held.drop(person.row);
      continue;
    }
    for (const distinctId of person.newDistinctIds) held.keep(projectId, distinctId, person);
    held.remeasure(person);
    person.settle();
  }
  return {
    projectId,
    personIds,
    distinctIds,
    hasNewGroupTypes: ledger.newGroupTypes.length > 0,
  };
}

async function savePersons(
  transaction: Transaction<Schema>,
  projectId: number,
  { touched, statements }: { touched: readonly LedgerPerson[]; statements: PersonStatements },
): Promise<void> {
  const created: LedgerPerson[] = [];
  const changed: LedgerPerson[] = [];
  const changedWithCreation: LedgerPerson[] = [];
  const moved: LedgerPerson[] = [];
  for (const person of touched) {
    if (person.mergedInto) continue;
    if (person.row === null) created.push(person);
    else if (person.isChanged && person.hasNewTimesOnly) moved.push(person);
    else if (person.hasNewCreation) changedWithCreation.push(person);
    else if (person.isChanged) changed.push(person);
  }
  for await (const some of inTurns(created)) {
    const rows = await statements.insertPersons(
      transaction,
      some.map((person) => encodePerson(projectId, person)),
    );
    const ids = new Map(rows.map(({ id, uuid }) => [uuid, id]));
    for (const person of some) person.row = ids.get(person.uuid) ?? null;
  }
  for (const [persons, update] of [
    [changed, statements.updatePersons],
    [changedWithCreation, statements.updatePersonsWithCreation],
  ] as const) {
    for await (const some of inTurns(persons)) {
      await update(
        transaction,
        some.map((person) => ({ ...encodePerson(projectId, person), id: rowOf(person) })),
      );
      await forgetTimes(transaction, some, statements);
    }
  }
  for await (const some of inTurns(moved)) {
    await statements.moveTimes(
      transaction,
      some.map((person) => ({ person_id: rowOf(person), times: person.sheet.timesText })),
    );
    for (const person of some) person.hasTimesApart = true;
  }
  const distinctIds: Insertable<Schema["person_distinct_ids"]>[] = [];
  const moves: { from: number; into: number }[] = [];
  const hashKeys: Insertable<Schema["flag_hash_key_overrides"]>[] = [];
  for (const person of touched) {
    const row = rowOf(person.survivor);
    if (person.mergedInto) {
      if (person.row !== null) moves.push({ from: person.row, into: row });
      continue;
    }
    for (const distinctId of person.newDistinctIds) {
      distinctIds.push({ project_id: projectId, distinct_id: distinctId, person_id: row });
    }
    for (const [flagKey, hashKey] of person.newHashKeys) {
      hashKeys.push({ person_id: row, flag_key: flagKey, hash_key: hashKey });
    }
  }
  for await (const some of inTurns(distinctIds)) {
    await statements.insertDistinctIds(transaction, some);
  }
  for await (const some of inTurns(moves)) await moveBelongings(transaction, some);
  for await (const some of inTurns(hashKeys)) {
    await transaction.insertInto("flag_hash_key_overrides").values(some).execute();
  }
}

/** For persons whose rows have just been written, times included. */
async function forgetTimes(
  transaction: Transaction<Schema>,
  persons: readonly LedgerPerson[],
  statements: PersonStatements,
): Promise<void> {
  const apart = persons.filter((person) => person.hasTimesApart);
  if (apart.length === 0) return;
  await statements.forgetTimes(
    transaction,
    apart.map((person) => ({ person_id: rowOf(person) })),
  );
  for (const person of apart) person.hasTimesApart = false;
}

function rowOf({ row }: LedgerPerson): number {
  if (row === null) throw new Error("a person was applied but not stored");
  return row;
}

function encodePerson(projectId: number, person: LedgerPerson) {
  return {
    ...encodeSheet(person.sheet),
    project_id: projectId,
    uuid: person.uuid,
    created_at: encodeInstant(person.createdAt),
    is_identified: encodeBoolean(person.isIdentified),
  } satisfies Insertable<Schema["persons"]>;
}

/** A person's or group's properties as they are stored. */
export function encodeSheet(sheet: PropertySheet) {
  return { properties: sheet.propertiesText, property_times: sheet.timesText };
}

/** Hands ids and static cohorts of merged persons to their survivors, then deletes the merged ones. */
async function moveBelongings(
  transaction: Transaction<Schema>,
  moves: readonly { from: number; into: number }[],
): Promise<void> {
  const moved = sql`(values ${sql.join(
    moves.map(({ from, into }) => sql`(${sql.lit(from)}, ${sql.lit(into)})`),
  )})`;
  const from = moves.map((move) => move.from);
  await sql`
    with moved (from_id, into_id) as ${moved}
    update person_distinct_ids
    set person_id = (select into_id from moved where from_id = person_id)
    where person_id in (select from_id from moved)`.execute(transaction);
  await sql`
    with moved (from_id, into_id) as ${moved}
    insert into cohort_members (cohort_id, person_id)
    select distinct cohort_id, into_id from cohort_members join moved on from_id = person_id
    where true
    on conflict (cohort_id, person_id) do nothing`.execute(transaction);
  await transaction.deleteFrom("cohort_members").where("person_id", "in", from).execute();
  await transaction.deleteFrom("persons").where("id", "in", from).execute();
}

async function saveGroups(
  transaction: Transaction<Schema>,
  projectId: number,
  ledger: PersonLedger,
): Promise<void> {
  if (ledger.newGroupTypes.length > 0) {
    await nextRevision(transaction, projectId);
    await transaction
      .insertInto("group_types")
      .values(ledger.newGroupTypes.map((type) => ({ ...type, project_id: projectId })))
      .execute();
  }
  const changed = [...ledger.groups].filter((group) => group.isChanged);
  for await (const some of inTurns(changed)) {
    await transaction
      .insertInto("groups")
      .values(
        some.map((group) => ({
          ...encodeSheet(group.sheet),
          project_id: projectId,
          group_type_index: group.typeIndex,
          group_key: group.key,
          created_at: encodeInstant(group.createdAt),
        })),
      )
      .onConflict((conflict) =>
        conflict.columns(["project_id", "group_type_index", "group_key"]).doUpdateSet((eb) => ({
          properties: eb.ref("excluded.properties"),
          property_times: eb.ref("excluded.property_times"),
        })),
      )
      .execute();
  }
}

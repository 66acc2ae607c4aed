import type { DuckDBConnection } from "@duckdb/node-api";
import type { EventRow, PersonMove } from "../../events/event-store.ts";
import { timestampOf } from "./duckdb-values.ts";

/** Events received longer ago than this are all stored: what was kept for them can go. */
const KEPT_DAYS = 30;

/** The tables of what was done to persons' events, for those that were still on their way. */
export async function createPersonChangeTables(connection: DuckDBConnection): Promise<void> {
  await connection.run(
    `create table if not exists deleted_persons (
      project_id integer not null, person_id uuid not null, received_before timestamp not null)`,
  );
  await connection.run(
    `create table if not exists moved_ids (
      project_id integer not null, distinct_id varchar not null, person_id uuid not null,
      received_before timestamp not null)`,
  );
  // What is deleted leaves its uuid behind, so that it stays taken.
  await connection.run(
    `create table if not exists deleted_events (
      project_id integer not null, position bigint not null, uuid uuid not null,
      event varchar not null, distinct_id varchar not null, client_timestamp timestamp,
      received_at timestamp not null, insert_id varchar)`,
  );
}

/** What has to be done to events that come in late. */
export interface PersonChanges {
  /** The person of a row now; `undefined` where the person's events were deleted. */
  personOf(row: EventRow): string | undefined;
}

interface Change {
  readonly beforeMs: number;
  readonly personId?: string;
}

/** Reads what was done to persons' events lately. */
export async function readPersonChanges(connection: DuckDBConnection): Promise<PersonChanges> {
  const deleted = await readChanges(
    connection,
    `select project_id, person_id::varchar, epoch_ms(received_before)::double, null
      from deleted_persons order by received_before`,
  );
  const moved = await readChanges(
    connection,
    `select project_id, distinct_id, epoch_ms(received_before)::double, person_id::varchar
      from moved_ids order by received_before`,
  );
  if (deleted.size === 0 && moved.size === 0) return { personOf: ({ personId }) => personId };
  return {
    personOf({ event: { projectId, distinctId, receivedAt }, personId }) {
      const applies = (change: Change | undefined) =>
        change !== undefined && receivedAt.getTime() < change.beforeMs;
      const move = moved.get(keyOf(projectId, distinctId));
      const person = applies(move) ? (move?.personId ?? personId) : personId;
      return applies(deleted.get(keyOf(projectId, person))) ? undefined : person;
    },
  };
}

function keyOf(projectId: number, id: string): string {
  return `${projectId} ${id}`;
}

async function readChanges(
  connection: DuckDBConnection,
  query: string,
): Promise<ReadonlyMap<string, Change>> {
  const result = await connection.runAndReadAll(query);
  return new Map(
    (result.getRows() as [number, string, number, string | null][]).map(
      ([projectId, id, beforeMs, personId]) => [
        keyOf(projectId, id),
        { beforeMs, ...(personId !== null && { personId }) },
      ],
    ),
  );
}

/** Deletes the events of persons, within the transaction under way. */
export async function deleteEvents(
  connection: DuckDBConnection,
  {
    projectId,
    personIds,
    before,
  }: { projectId: number; personIds: readonly string[]; before: Date },
): Promise<void> {
  await forgetOldChanges(connection, before);
  for (const personId of personIds) {
    await connection.run(
      `insert into deleted_persons
        select $1::integer, id, $3::timestamp from (
          select $2::uuid as id
          union select from_id from person_merges where project_id = $1 and into_id = $2::uuid)`,
      [projectId, personId, timestampOf(before)],
    );
  }
  const theirs = `project_id = $1 and received_at < $2 and person_id in (
    select person_id from deleted_persons where project_id = $1 and received_before = $2)`;
  const values = [projectId, timestampOf(before)];
  await connection.run(
    `insert into deleted_events
      select project_id, position, uuid, event, distinct_id, client_timestamp, received_at, insert_id
      from events where ${theirs}`,
    values,
  );
  await connection.run(
    `delete from event_texts where position in (
      select position from events where properties is null and ${theirs})`,
    values,
  );
  await connection.run(`delete from events where ${theirs}`, values);
}

/** Gives the events of ids to other persons, within the transaction under way. */
export async function moveEvents(
  connection: DuckDBConnection,
  { projectId, moves, before }: { projectId: number; moves: readonly PersonMove[]; before: Date },
): Promise<void> {
  await forgetOldChanges(connection, before);
  for (const { distinctId, personId } of moves) {
    await connection.run("insert into moved_ids values ($1, $2, $3::uuid, $4)", [
      projectId,
      distinctId,
      personId,
      timestampOf(before),
    ]);
  }
  await connection.run(
    `update events e set person_id = m.person_id from moved_ids m
      where e.project_id = $1 and m.project_id = $1 and m.received_before = $2
        and e.distinct_id = m.distinct_id and e.received_at < $2`,
    [projectId, timestampOf(before)],
  );
}

async function forgetOldChanges(connection: DuckDBConnection, now: Date): Promise<void> {
  const old = timestampOf(new Date(now.getTime() - KEPT_DAYS * 24 * 60 * 60 * 1000));
  await connection.run("delete from deleted_persons where received_before < $1", [old]);
  await connection.run("delete from moved_ids where received_before < $1", [old]);
}

import type { DuckDBConnection } from "@duckdb/node-api";
import type { PersonMove } from "../../events/event-store.ts";
import { uuidValueOf } from "./duckdb-values.ts";

/**
 * What is deleted leaves its uuid behind, so that it stays taken. Whom a change is about is put
 * into a table first: however many there are, the events are gone through once.
 */
export async function createPersonChangeTables(connection: DuckDBConnection): Promise<void> {
  await connection.run(
    `create table if not exists deleted_events (
      project_id integer not null, position bigint not null, uuid uuid not null,
      event varchar not null, distinct_id varchar not null, client_timestamp timestamp,
      received_at timestamp not null, insert_id varchar)`,
  );
  await connection.run("create temp table leaving_persons (person_id uuid not null)");
  await connection.run(
    "create temp table moving_ids (distinct_id varchar not null, person_id uuid not null)",
  );
  await connection.run("alter table deleted_events add column if not exists changed_by varchar");
}

/** Deletes the events of persons, within the transaction under way. */
export async function deleteEvents(
  connection: DuckDBConnection,
  { projectId, personIds, upTo }: { projectId: number; personIds: readonly string[]; upTo: number },
): Promise<void> {
  await connection.run("delete from leaving_persons");
  const appender = await connection.createAppender("leaving_persons", "main", "temp");
  for (const personId of personIds) {
    appender.appendUUID(uuidValueOf(personId));
    appender.endRow();
  }
  appender.closeSync();
  await connection.run(
    `insert into leaving_persons
      select from_id from person_merges
      where project_id = $1 and into_id in (select person_id from leaving_persons)`,
    [projectId],
  );
  const theirs = `project_id = $1 and position <= $2
    and person_id in (select person_id from leaving_persons)`;
  const values = [projectId, BigInt(upTo)];
  await connection.run(
    `insert into deleted_events
      select project_id, position, uuid, event, distinct_id, client_timestamp, received_at, insert_id,
      changed_by
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
  { projectId, moves, upTo }: { projectId: number; moves: readonly PersonMove[]; upTo: number },
): Promise<void> {
  await connection.run("delete from moving_ids");
  const appender = await connection.createAppender("moving_ids", "main", "temp");
  for (const { distinctId, personId } of moves) {
    appender.appendVarchar(distinctId);
    appender.appendUUID(uuidValueOf(personId));
    appender.endRow();
  }
  appender.closeSync();
  await connection.run(
    `update events e set person_id = m.person_id from moving_ids m
      where e.project_id = $1 and e.position <= $2 and e.distinct_id = m.distinct_id`,
    [projectId, BigInt(upTo)],
  );
}

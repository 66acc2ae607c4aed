import type { DuckDBConnection } from "@duckdb/node-api";
import type { PersonMove } from "../../events/event-store.ts";

/** What is deleted leaves its uuid behind, so that it stays taken. */
export async function createPersonChangeTables(connection: DuckDBConnection): Promise<void> {
  await connection.run(
    `create table if not exists deleted_events (
      project_id integer not null, position bigint not null, uuid uuid not null,
      event varchar not null, distinct_id varchar not null, client_timestamp timestamp,
      received_at timestamp not null, insert_id varchar)`,
  );
  await connection.run("alter table deleted_events add column if not exists changed_by varchar");
}

/** Deletes the events of persons, within the transaction under way. */
export async function deleteEvents(
  connection: DuckDBConnection,
  { projectId, personIds, upTo }: { projectId: number; personIds: readonly string[]; upTo: number },
): Promise<void> {
  const theirs = `project_id = $1 and position <= $3 and person_id in (
    select $2::uuid union all
    select from_id from person_merges where project_id = $1 and into_id = $2::uuid)`;
  for (const personId of personIds) {
    const values = [projectId, personId, BigInt(upTo)];
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
}

/** Gives the events of ids to other persons, within the transaction under way. */
export async function moveEvents(
  connection: DuckDBConnection,
  { projectId, moves, upTo }: { projectId: number; moves: readonly PersonMove[]; upTo: number },
): Promise<void> {
  for (const { distinctId, personId } of moves) {
    await connection.run(
      `update events set person_id = $3::uuid
        where project_id = $1 and distinct_id = $2 and position <= $4`,
      [projectId, distinctId, personId, BigInt(upTo)],
    );
  }
}

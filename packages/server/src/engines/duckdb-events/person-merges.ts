import type { DuckDBConnection } from "@duckdb/node-api";
import type { PersonMerge } from "../../events/event-store.ts";
import { uuidValueOf } from "./duckdb-values.ts";

/** The person of an event `e`, whom all that were merged are, as {@link MERGES} tells. */
export const PERSON = "coalesce(m.into_id, e.person_id)";

/** Joined to events `e`. */
export const MERGES =
  "left join person_merges m on m.project_id = e.project_id and m.from_id = e.person_id";

/** Tables of merges; the table always leads to the survivor in one step, however long the chain. */
export async function createMergeTables(connection: DuckDBConnection): Promise<void> {
  const columns = "project_id integer not null, from_id uuid not null, into_id uuid not null";
  await connection.run(`create table if not exists person_merges (${columns})`);
  await connection.run(`create temp table incoming_merges (${columns})`);
}

/** Adds merges, in order, within the transaction under way on the connection that made the tables. */
export async function saveMerges(
  connection: DuckDBConnection,
  merges: readonly PersonMerge[],
): Promise<void> {
  if (merges.length === 0) return;
  await connection.run("delete from incoming_merges");
  const appender = await connection.createAppender("incoming_merges", "main", "temp");
  for (const { projectId, from, into } of survivors(merges)) {
    appender.appendInteger(projectId);
    appender.appendUUID(uuidValueOf(from));
    appender.appendUUID(uuidValueOf(into));
    appender.endRow();
  }
  appender.closeSync();
  const joins = (known: string, incoming: string) =>
    `m.project_id = i.project_id and m.${known} = i.${incoming}`;
  await connection.run(
    `update person_merges m set into_id = i.into_id from incoming_merges i where ${joins("into_id", "from_id")}`,
  );
  // Whoever is merged, or merged into, now is no longer what an earlier merge made of them.
  await connection.run(
    `delete from person_merges m using incoming_merges i where ${joins("from_id", "from_id")}`,
  );
  await connection.run(
    `delete from person_merges m using incoming_merges i where ${joins("from_id", "into_id")}`,
  );
  await connection.run("insert into person_merges select * from incoming_merges");
}

type Merge = Pick<PersonMerge, "projectId" | "from" | "into">;

/** The merges as single steps: where a survivor is merged in turn, all lead to the last one. */
export function survivors(merges: readonly Merge[]): readonly Merge[] {
  const into = new Map<string, Merge>();
  const key = (projectId: number, id: string) => `${projectId} ${id}`;
  const survivorOf = (projectId: number, id: string): string => {
    let survivor = id;
    for (let next = into.get(key(projectId, id)); next; next = into.get(key(projectId, survivor))) {
      survivor = next.into;
    }
    return survivor;
  };
  for (const merge of merges) {
    if (merge.from === merge.into) continue;
    // A person who comes back as a survivor is merged no more: chains never close to a ring.
    into.delete(key(merge.projectId, merge.into));
    into.set(key(merge.projectId, merge.from), merge);
  }
  return [...into.values()].map(({ projectId, from }) => ({
    projectId,
    from,
    into: survivorOf(projectId, from),
  }));
}

import type { DuckDBConnection, DuckDBValue } from "@duckdb/node-api";
import { decodeEvent } from "@hedgerow/core/events/event-codec";
import type { DeadLetter, DeadLetterQuery } from "../../events/event-store.ts";
import { appendLongTexts, readLongTexts } from "./long-texts.ts";

/** The table of letters, where it is missing; their events are kept as long texts. */
export async function createDeadLetterTable(connection: DuckDBConnection): Promise<void> {
  await connection.run(
    "create table if not exists dead_letters (position bigint not null, reason varchar not null)",
  );
  await connection.run("alter table dead_letters add column if not exists project_id integer");
  await connection.run("alter table dead_letters add column if not exists uuid uuid");
  await nameOldLetters(connection);
}

/** Letters of older versions tell only in their texts whose they are. */
async function nameOldLetters(connection: DuckDBConnection): Promise<void> {
  const result = await connection.runAndReadAll(
    "select position::double from dead_letters where project_id is null",
  );
  for (const [position] of result.getRows() as [number][]) {
    const texts = await readLongTexts(connection, "letter_texts", [position]);
    const { projectId, uuid } = decodeEvent(texts.get(position) ?? "");
    await connection.run(
      "update dead_letters set project_id = $1, uuid = $2::uuid where position = $3::bigint",
      [projectId, uuid, String(position)],
    );
  }
}

/** Stores letters with their encoded events, within the transaction under way. */
export async function saveDeadLetters(
  connection: DuckDBConnection,
  letters: readonly (DeadLetter & { readonly text: string })[],
): Promise<void> {
  for (const { position, reason, event } of letters) {
    await connection.run(
      `insert into dead_letters (position, reason, project_id, uuid)
        values ($1::bigint, $2, $3, $4::uuid)`,
      [String(position), reason, event.projectId, event.uuid],
    );
  }
  await appendLongTexts(connection, "letter_texts", letters);
}

/** Most letters read at a time: their events may be large. */
const MOST_LETTERS = 1000;

/** Letters by position. */
export async function readDeadLetters(
  connection: DuckDBConnection,
  { projectId, after, limit, position }: DeadLetterQuery & { readonly position?: number },
): Promise<readonly DeadLetter[]> {
  const values: DuckDBValue[] = [];
  const bind = (value: DuckDBValue) => `$${values.push(value)}`;
  const conditions = ["true"];
  if (projectId !== undefined) conditions.push(`project_id = ${bind(projectId)}`);
  if (after !== undefined) conditions.push(`position > ${bind(String(after))}::bigint`);
  if (position !== undefined) conditions.push(`position = ${bind(String(position))}::bigint`);
  const result = await connection.runAndReadAll(
    `select position::double, reason from dead_letters where ${conditions.join(" and ")}
      order by position limit ${bind(Math.min(limit, MOST_LETTERS))}`,
    values,
  );
  const letters = result.getRows() as [number, string][];
  const texts = await readLongTexts(
    connection,
    "letter_texts",
    letters.map(([at]) => at),
  );
  return letters.map(([at, reason]) => ({
    position: at,
    reason,
    event: decodeEvent(texts.get(at) ?? ""),
  }));
}

/** Deletes letters, within the transaction under way. */
export async function removeDeadLetters(
  connection: DuckDBConnection,
  positions: readonly number[],
): Promise<void> {
  if (positions.length === 0) return;
  for (const table of ["dead_letters", "letter_texts"]) {
    await connection.run(`delete from ${table} where position in (${positions.join()})`);
  }
}

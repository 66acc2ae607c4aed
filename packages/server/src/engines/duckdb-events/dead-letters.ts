import type { DuckDBConnection } from "@duckdb/node-api";
import { decodeEvent } from "@hedgerow/core/events/event-codec";
import type { DeadLetter } from "../../events/event-store.ts";
import { appendLongTexts, readLongTexts } from "./long-texts.ts";

/** The table of letters, where it is missing; their events are kept as long texts. */
export async function createDeadLetterTable(connection: DuckDBConnection): Promise<void> {
  await connection.run(
    "create table if not exists dead_letters (position bigint not null, reason varchar not null)",
  );
}

/** Stores letters with their encoded events, within the transaction under way. */
export async function saveDeadLetters(
  connection: DuckDBConnection,
  letters: readonly (DeadLetter & { readonly text: string })[],
): Promise<void> {
  for (const { position, reason } of letters) {
    await connection.run("insert into dead_letters values ($1::bigint, $2)", [
      String(position),
      reason,
    ]);
  }
  await appendLongTexts(connection, "letter_texts", letters);
}

/** The oldest letters. */
export async function readDeadLetters(
  connection: DuckDBConnection,
  limit: number,
): Promise<readonly DeadLetter[]> {
  const result = await connection.runAndReadAll(
    "select position::double, reason from dead_letters order by position limit $1",
    [limit],
  );
  const letters = result.getRows() as [number, string][];
  const texts = await readLongTexts(
    connection,
    "letter_texts",
    letters.map(([position]) => position),
  );
  return letters.map(([position, reason]) => ({
    position,
    reason,
    event: decodeEvent(texts.get(position) ?? ""),
  }));
}

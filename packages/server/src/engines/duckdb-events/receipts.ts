import type { DuckDBConnection } from "@duckdb/node-api";
import type { EventReceipt, Repetition } from "../../events/event-store.ts";
import { timestampOf, uuidValueOf } from "./duckdb-values.ts";

/** Repetitions of one uuid that are kept one by one. */
const MOST_REPETITIONS = 100;

/** What became of an event that is not stored as itself. */
export interface ReceiptRow {
  readonly position: number;
  readonly projectId: number;
  readonly uuid: string;
  readonly outcome: "duplicate" | "conflict" | "duplicate-of" | "dropped";
  /** Of the event that had its `$insert_id` before, for one that came again. */
  readonly firstPosition?: number;
  /** For one that was dropped. */
  readonly by?: string;
  /** For one that was dropped. */
  readonly reason?: string;
  readonly at: Date;
}

/** The table of receipts, where it is missing. A row stands for `times` like events. */
export async function createReceiptTable(connection: DuckDBConnection): Promise<void> {
  await connection.run(
    `create table if not exists receipts (
      project_id integer not null, uuid uuid not null, position bigint not null,
      outcome varchar not null, dropped_by varchar, reason varchar,
      times integer not null, happened_at timestamp not null)`,
  );
  await connection.run("alter table receipts add column if not exists first_position bigint");
}

/** Forgets receipts of what happened before a time, within the transaction under way. */
export async function removeReceipts(connection: DuckDBConnection, before: Date): Promise<void> {
  await connection.run("delete from receipts where happened_at < $1", [timestampOf(before)]);
}

/** Appends receipts within the transaction under way. */
export async function appendReceipts(
  connection: DuckDBConnection,
  receipts: readonly ReceiptRow[],
): Promise<void> {
  if (receipts.length === 0) return;
  const appender = await connection.createAppender("receipts");
  const text = (value: string | undefined) =>
    value === undefined ? appender.appendNull() : appender.appendVarchar(value);
  try {
    for (const { row, times } of counted(receipts)) {
      appender.appendInteger(row.projectId);
      appender.appendUUID(uuidValueOf(row.uuid));
      appender.appendBigInt(BigInt(row.position));
      appender.appendVarchar(row.outcome);
      text(row.by);
      text(row.reason);
      appender.appendInteger(times);
      appender.appendTimestamp(timestampOf(row.at));
      if (row.firstPosition === undefined) appender.appendNull();
      else appender.appendBigInt(BigInt(row.firstPosition));
      appender.endRow();
    }
  } finally {
    appender.closeSync();
  }
}

/** The first of one uuid by themselves, the rest of it as one. */
function counted(receipts: readonly ReceiptRow[]) {
  const seen = new Map<string, number>();
  const rows: { readonly row: ReceiptRow; times: number }[] = [];
  const rests = new Map<string, { times: number }>();
  for (const row of receipts) {
    const key = `${row.projectId} ${row.uuid}`;
    const before = seen.get(key) ?? 0;
    seen.set(key, before + 1);
    const rest = rests.get(key);
    if (rest) {
      rest.times++;
      continue;
    }
    const entry = { row, times: 1 };
    if (before === MOST_REPETITIONS) rests.set(key, entry);
    rows.push(entry);
  }
  return rows;
}

interface StoredReceipt {
  readonly position: number;
  readonly outcome: ReceiptRow["outcome"];
  readonly by: string | null;
  readonly reason: string | null;
  readonly times: number;
  readonly at: Date;
  /** UUID of the event whose `$insert_id` it had. */
  readonly firstUuid: string | null;
}

async function readReceipts(
  connection: DuckDBConnection,
  projectId: number,
  uuid: string,
): Promise<readonly StoredReceipt[]> {
  const result = await connection.runAndReadAll(
    `select r.position::double, outcome, dropped_by, reason,
        times, epoch_ms(happened_at)::double,
        coalesce(
          (select uuid from events e where e.position = r.first_position),
          (select uuid from deleted_events d where d.position = r.first_position))::varchar
      from receipts r where r.project_id = $1 and r.uuid = $2::uuid order by r.position`,
    [projectId, uuid],
  );
  return result.getRows().map((row) => {
    const [position, outcome, by, reason, times, atMs, firstUuid] = row;
    return { position, outcome, by, reason, times, at: new Date(Number(atMs)), firstUuid };
  }) as unknown as readonly StoredReceipt[];
}

/**
 * What became of the events with a uuid.
 * @param position of the event that has the uuid, where one has
 */
export async function readReceipt(
  connection: DuckDBConnection,
  { projectId, uuid, position }: { projectId: number; uuid: string; position: number | undefined },
): Promise<EventReceipt | undefined> {
  const receipts = await readReceipts(connection, projectId, uuid);
  const letters = await connection.runAndReadAll(
    `select position::double, reason from dead_letters
      where project_id = $1 and uuid = $2::uuid order by position`,
    [projectId, uuid],
  );
  const letter = letters.getRows().at(-1) as [number, string] | undefined;
  const stored = position === undefined ? undefined : await readStored(connection, position);
  if (stored) {
    const repeated = receipts.filter(
      ({ outcome }) => outcome === "duplicate" || outcome === "conflict",
    );
    return {
      outcome: "stored",
      ...stored,
      duplicates: repeated
        .slice(0, MOST_REPETITIONS)
        .map(({ position, at, outcome }) => ({ position, at, outcome }) as Repetition),
      duplicateCount: repeated.reduce((sum, { times }) => sum + times, 0),
      setAsideBecause: letter?.[1] ?? null,
    };
  }
  const last = receipts.at(-1);
  if (letter && letter[0] > (last?.position ?? 0)) {
    return { outcome: "dead-lettered", position: letter[0], reason: letter[1] };
  }
  switch (last?.outcome) {
    case "dropped":
      return {
        outcome: "dropped",
        position: last.position,
        at: last.at,
        by: last.by ?? "",
        reason: last.reason ?? "",
      };
    case "duplicate-of":
      return {
        outcome: "duplicate-of",
        position: last.position,
        at: last.at,
        uuid: last.firstUuid,
      };
    default:
      return undefined;
  }
}

async function readStored(connection: DuckDBConnection, position: number) {
  const result = await connection.runAndReadAll(
    `select epoch_ms(coalesce(stored_at, received_at))::double, changed_by
      from events where position = $1::bigint`,
    [String(position)],
  );
  const [row] = result.getRows() as [number, string | null][];
  if (!row) return undefined;
  const [storedMs, changedBy] = row;
  return {
    position,
    storedAt: new Date(storedMs),
    changedBy: changedBy === null ? [] : (JSON.parse(changedBy) as string[]),
  };
}

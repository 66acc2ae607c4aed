import type { DuckDBConnection } from "@duckdb/node-api";
import { timestampOf } from "./duckdb-values.ts";
import { type EventIndex, KEPT_INSERT_ID_SECONDS } from "./event-index/event-index.ts";

/** Events read at a time. */
const EVENTS_AT_A_TIME = 8192;
/** Positions looked through at a time, at first; twice as many where few of them hold an event. */
const FIRST_SPAN = 65_536;

/** Adds the events above the end of an index to it, deleted ones included, up to a position. */
export async function fillIndex(
  index: EventIndex,
  connection: DuckDBConnection,
  stored: number,
): Promise<void> {
  if (index.end >= stored) return;
  const insertIdsSince = await readInsertIdsSince(connection);
  let span = FIRST_SPAN;
  while (index.end < stored) {
    const last = Math.min(index.end + span, stored);
    const rows = await readEvents(connection, { after: index.end, last, insertIdsSince });
    await index.makeRoom(rows.length);
    index.add(
      rows.map((row) => ({
        projectId: row[0],
        uuid: row[1],
        position: row[2],
        event: row[3],
        distinctId: row[4],
        clientTimestamp: row[5] === null ? null : new Date(row[5]),
        receivedAt: new Date(row[6]),
        insertId: row[7],
        isChanged: row[8],
      })),
    );
    const isCut = rows.length === EVENTS_AT_A_TIME;
    index.keep(isCut ? (rows.at(-1)?.[2] ?? last) : last);
    if (isCut) span = FIRST_SPAN;
    else if (rows.length < EVENTS_AT_A_TIME / 2) span *= 2;
  }
}

/** Insert ids of events that were received before are of no use any more. */
async function readInsertIdsSince(connection: DuckDBConnection): Promise<Date> {
  const result = await connection.runAndReadAll(
    "select epoch_ms(max(received_at))::double from events",
  );
  return new Date(Number(result.getRows()[0]?.[0] ?? 0) - 1000 * KEPT_INSERT_ID_SECONDS);
}

type Row = [number, string, number, string, string, number | null, number, string | null, boolean];

async function readEvents(
  connection: DuckDBConnection,
  { after, last, insertIdsSince }: { after: number; last: number; insertIdsSince: Date },
): Promise<readonly Row[]> {
  const of = (table: string) =>
    `select project_id, uuid::varchar, position::double as place, event, distinct_id,
        epoch_ms(client_timestamp)::double, epoch_ms(received_at)::double,
        case when received_at >= $3 then insert_id end, changed_by is not null
      from ${table} where position > $1::bigint and position <= $2::bigint`;
  const result = await connection.runAndReadAll(
    `${of("events")} union all ${of("deleted_events")} order by place limit ${EVENTS_AT_A_TIME}`,
    [String(after), String(last), timestampOf(insertIdsSince)],
  );
  return result.getRows() as Row[];
}

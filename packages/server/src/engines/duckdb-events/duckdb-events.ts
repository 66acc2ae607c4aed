import type { DuckDBConnection } from "@duckdb/node-api";
import { encodeEvent } from "@hedgerow/core/events/event-codec";
import { encodeJson } from "@hedgerow/core/exact-json";
import {
  type EventBatch,
  type EventRow,
  type EventStore,
  QueryTooLong,
} from "../../events/event-store.ts";
import type { PerformerSource } from "../../events/performers.ts";
import {
  createDeadLetterTable,
  readDeadLetters,
  removeDeadLetters,
  saveDeadLetters,
} from "./dead-letters.ts";
import { openDuckDbFile } from "./duckdb-file.ts";
import { appendRows, createEventTable, type TextRow } from "./event-rows.ts";
import { countEvents, findEvents, projectsWithEvents, readEventsAfter } from "./find-events.ts";
import { createTextTables } from "./long-texts.ts";
import { findPerformers } from "./performers.ts";
import { createPersonChangeTables, deleteEvents, moveEvents } from "./person-changes.ts";
import { createMergeTables, saveMerges } from "./person-merges.ts";
import { appendReceipts, createReceiptTable, type ReceiptRow, readReceipt } from "./receipts.ts";
import { openUuidIndex, type UuidIndex } from "./uuid-index.ts";

export interface DuckDbEventsOptions {
  /** Memory that DuckDB may use before it spills to its temporary folder; 128 MiB unless given. */
  readonly memoryLimitMiB?: number;
  /** Disk space for spilling; 10 GiB unless given. */
  readonly maxTemporaryMiB?: number;
  /** 1 unless given: with more, those that have nothing to do take half as much time again. */
  readonly threads?: number;
  /** Longest that reading may take; 10 s unless given. */
  readonly readLimitMs?: number;
  readonly now?: () => Date;
}

/** A commit needs a multiple of what it stores in memory: larger batches become several. */
const CHARS_PER_TRANSACTION = 8 * 1024 * 1024;
/** Queries at a time: each holds one of the process's four threads for such work. */
const MAX_READERS = 2;

/**
 * Events in a DuckDB file, with a small index of uuids beside it (`<path>.uuids`). An index inside
 * DuckDB would have to fit into its memory, and DuckDB alone would read the whole table per batch.
 */
export async function openDuckDbEvents(
  path: string,
  options: DuckDbEventsOptions = {},
): Promise<EventStore & PerformerSource> {
  const file = await openDuckDbFile({
    path,
    settings: {
      threads: String(options.threads ?? 1),
      memory_limit: `${options.memoryLimitMiB ?? 128}MiB`,
      temp_directory: `${path}.tmp`,
      max_temp_directory_size: `${options.maxTemporaryMiB ?? 10 * 1024}MiB`,
      // Each checkpoint writes the last block of rows anew, however few are new in it: seldom is
      // cheaper. What it has not taken in is read again at the next start, in some hundred ms.
      checkpoint_threshold: "64MiB",
      // Results are sorted where order matters; keeping the order of insertion costs memory.
      preserve_insertion_order: "false",
    },
    prepare: createTables,
    maxReaders: MAX_READERS,
  });
  const now = options.now ?? (() => new Date());
  let stored = await file.read(readPosition);
  const uuids = await openUuidIndex(`${path}.uuids`);
  await file.read((connection) => catchUp(uuids, connection));

  let inserting: Promise<unknown> = Promise.resolve();
  let hasFailed = false;
  const waiters = new Set<{ readonly position: number; readonly resolve: () => void }>();

  /** The rows whose uuid is theirs, with their texts, and those that come again. */
  async function claimUuids(rows: readonly EventRow[]) {
    if (rows.length === 0) return { kept: [], repeated: [] };
    const won = await uuids.claim(
      rows.map(({ position, event: { projectId, uuid } }) => ({ projectId, uuid, position })),
    );
    const kept: TextRow[] = [];
    for (const [index, row] of rows.entries()) {
      if (won[index] !== 1) continue;
      kept.push({ ...row, text: encodeJson(row.event.properties) });
    }
    return { kept, repeated: rows.filter((_, index) => won[index] !== 1) };
  }

  function moveTo(position: number): void {
    stored = Math.max(stored, position);
    for (const waiter of waiters) if (waiter.position <= stored) waiter.resolve();
  }

  async function insert({ rows, merges, drops, deadLetters, end }: EventBatch) {
    // What failed may be stored all the same: its commit was, and what followed went wrong.
    if (hasFailed) moveTo(await file.read(readPosition));
    hasFailed = false;
    if (end <= stored) return { stored: 0, duplicates: 0 };
    const isNew = ({ position }: { position: number }) => position > stored;
    const { kept, repeated } = await claimUuids(rows.filter(isNew));
    const at = now();
    const receipts: readonly ReceiptRow[] = [
      ...repeated.map(({ position, event: { projectId, uuid } }) => ({
        position,
        projectId,
        uuid,
        outcome: "duplicate" as const,
        at,
      })),
      ...drops.filter(isNew).map(({ droppedAt, ...drop }) => ({
        ...drop,
        outcome: "dropped" as const,
        at: droppedAt ?? at,
      })),
    ];
    const letters = deadLetters
      .filter(isNew)
      .map((letter) => ({ ...letter, text: encodeEvent(letter.event) }));
    for (const upTo of cutsOf([...kept, ...letters], end)) {
      const after = stored;
      const isInPart = ({ position }: { position: number }) => position > after && position <= upTo;
      await file.write(async (writer) => {
        await appendRows(writer, kept.filter(isInPart), at);
        await appendReceipts(writer, receipts.filter(isInPart));
        await saveMerges(writer, merges.filter(isInPart));
        await saveDeadLetters(writer, letters.filter(isInPart));
        await writer.run("update consumer set position = $1::bigint", [String(upTo)]);
      });
      moveTo(upTo);
    }
    return { stored: kept.length, duplicates: repeated.length };
  }

  /** Runs work that changes what is stored, one at a time. */
  function afterOthers<Result>(work: () => Promise<Result>): Promise<Result> {
    const run = inserting.then(work);
    inserting = run.catch(() => {});
    return run;
  }

  /** Runs queries within the time that reading may take. */
  function read<Result>(
    use: (connection: DuckDBConnection, timeUp: () => void) => Promise<Result>,
  ): Promise<Result> {
    return file.read(async (connection) => {
      let isTimeUp = false;
      const timer = setTimeout(() => {
        isTimeUp = true;
        connection.interrupt();
      }, options.readLimitMs ?? 10_000);
      const timeUp = () => {
        if (isTimeUp) throw new QueryTooLong();
      };
      try {
        return await use(connection, timeUp);
      } catch (error) {
        throw isTimeUp ? new QueryTooLong({ cause: error }) : error;
      } finally {
        clearTimeout(timer);
      }
    });
  }

  /** A query by uuid as one by position; `undefined` when no event has the uuid. */
  async function searchOf<Query extends { projectId: number; uuid?: string }>({
    uuid,
    ...query
  }: Query) {
    if (uuid === undefined) return query;
    const position = await uuids.find(query.projectId, uuid);
    return position === undefined ? undefined : { ...query, position };
  }

  return {
    insert: (batch) =>
      afterOthers(() =>
        insert(batch).catch((error: unknown) => {
          hasFailed = true;
          throw error;
        }),
      ),

    async position() {
      return stored;
    },

    reached(position, timeoutMs) {
      if (stored >= position) return Promise.resolve(true);
      return new Promise((resolve) => {
        const finish = (hasReached: boolean) => {
          clearTimeout(timer);
          waiters.delete(waiter);
          resolve(hasReached);
        };
        const waiter = { position, resolve: () => finish(true) };
        const timer = setTimeout(() => finish(false), timeoutMs);
        waiters.add(waiter);
      });
    },

    async events(query) {
      const search = await searchOf(query);
      if (search === undefined) return { events: [], hasMore: false };
      return read((connection, timeUp) => findEvents(connection, search, timeUp));
    },

    performers: (query) => findPerformers(read, query),

    async count(query) {
      const search = await searchOf(query);
      if (search === undefined) return 0;
      return read((connection) => countEvents(connection, search));
    },

    known: (projectId, events) =>
      events.map(({ uuid }) => (uuids.isTaken(projectId, uuid) ? "duplicate" : "new")),

    async receipt(projectId, uuid) {
      const position = await uuids.find(projectId, uuid);
      return read((connection) => readReceipt(connection, { projectId, uuid, position }));
    },

    eventsAfter: (position, limit) =>
      read((connection) => readEventsAfter(connection, position, limit)),

    hasEvents: (projectIds) => read((connection) => projectsWithEvents(connection, projectIds)),

    deadLetters: (query) => read((connection) => readDeadLetters(connection, query)),

    async deadLetter(position) {
      const letters = await read((connection) =>
        readDeadLetters(connection, { position, limit: 1 }),
      );
      return letters[0];
    },

    removeDeadLetters: (positions) => file.write((writer) => removeDeadLetters(writer, positions)),

    deleteEventsOf: (projectId, personIds, upTo) =>
      afterOthers(() =>
        file.write((writer) => deleteEvents(writer, { projectId, personIds, upTo })),
      ),

    reassign: (projectId, moves, upTo) =>
      afterOthers(() => file.write((writer) => moveEvents(writer, { projectId, moves, upTo }))),

    async close() {
      await inserting;
      await uuids.close();
      await file.close();
    },
  };
}

async function createTables(connection: DuckDBConnection): Promise<void> {
  await createEventTable(connection);
  await createMergeTables(connection);
  await createTextTables(connection);
  await createDeadLetterTable(connection);
  await createReceiptTable(connection);
  await createPersonChangeTables(connection);
  await connection.run("create table if not exists consumer (position bigint not null)");
  await connection.run("insert into consumer select 0 where not exists (from consumer)");
}

/** Positions at which a batch is cut, so that each part fits well into memory; the last is its end. */
function cutsOf(
  items: readonly { readonly position: number; readonly text: string }[],
  end: number,
): readonly number[] {
  const cuts: number[] = [];
  let chars = 0;
  let last = 0;
  for (const { position, text } of items.toSorted((a, b) => a.position - b.position)) {
    if (chars > 0 && chars + text.length > CHARS_PER_TRANSACTION && position > last) {
      cuts.push(last);
      chars = 0;
    }
    chars += text.length;
    last = position;
  }
  return [...cuts, end];
}

async function readPosition(connection: DuckDBConnection): Promise<number> {
  const rows = await connection.runAndReadAll("select max(position)::double from consumer");
  return Number(rows.getRows()[0]?.[0] ?? 0);
}

/** An index that is new, or older than the events (restored from elsewhere), learns what it lacks. */
async function catchUp(index: UuidIndex, connection: DuckDBConnection): Promise<void> {
  for (;;) {
    const rows = await connection.runAndReadAll(
      `select project_id, uuid::varchar, position::double from events
        where position > $1::bigint order by position limit 20000`,
      [String(index.end)],
    );
    const claims = rows.getRows().map(([projectId, uuid, position]) => ({
      projectId: projectId as number,
      uuid: uuid as string,
      position: position as number,
    }));
    if (claims.length === 0) return;
    await index.claim(claims);
  }
}

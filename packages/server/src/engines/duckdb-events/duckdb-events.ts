import { rm } from "node:fs/promises";
import { setImmediate as nextTurn } from "node:timers/promises";
import type { DuckDBConnection } from "@duckdb/node-api";
import { wholeEntry } from "@hedgerow/core/events/added-properties";
import { type EventBatch, type EventStore, QueryTooLong } from "../../events/event-store.ts";
import type { PerformerSource } from "../../events/performers.ts";
import type { ExperimentMeasures } from "../../experiments/experiment-measures.ts";
import type { FlagCalls } from "../../flags/flag-calls.ts";
import { StoreUnavailable } from "../../platform/store-unavailable.ts";
import { type BatchPart, createQueue } from "./batch-parts.ts";
import {
  createDeadLetterTable,
  readDeadLetters,
  removeDeadLetters,
  saveDeadLetters,
} from "./dead-letters.ts";
import { openDuckDbFile } from "./duckdb-file.ts";
import { type Claim, openEventIndex } from "./event-index/event-index.ts";
import { DamagedRun } from "./event-index/key-run.ts";
import { createEventTable, createRowAppending, type KeptRows } from "./event-rows.ts";
import { createExperimentMeasures } from "./experiment-measures.ts";
import { fillIndex } from "./fill-index.ts";
import { countEvents, findEvents, projectsWithEvents, readEventsAfter } from "./find-events.ts";
import { createFlagCalls } from "./flag-calls.ts";
import { createTextTables } from "./long-texts.ts";
import { createEventPacking } from "./packed-events.ts";
import { findMoments, findPerformers } from "./performers.ts";
import { createPersonChangeTables, deleteEvents, moveEvents } from "./person-changes.ts";
import { createMergeTables, saveMerges } from "./person-merges.ts";
import {
  appendReceipts,
  createReceiptTable,
  type ReceiptRow,
  readReceipt,
  removeReceipts,
} from "./receipts.ts";
import { createStatements } from "./statements.ts";

export interface DuckDbEventsOptions {
  /** Memory that DuckDB may use before it spills to its temporary folder; 128 MiB unless given. */
  readonly memoryLimitMiB?: number;
  /** Disk space for spilling; 10 GiB unless given. */
  readonly maxTemporaryMiB?: number;
  /** 1 unless given: with more, those that have nothing to do take half as much time again. */
  readonly threads?: number;
  /** Longest that reading may take; 10 s unless given. */
  readonly readLimitMs?: number;
  /** How long receipts of what was not stored are kept; 30 unless given. */
  readonly receiptDays?: number;
  readonly now?: () => Date;
}

/** Rows claimed without letting other work run in between: a few milliseconds. */
const ROWS_PER_TURN = 500;
const MS_PER_DAY = 24 * 60 * 60 * 1000;
/** Old receipts are looked for this often. */
const PRUNING_MS = 60 * 60 * 1000;
/** Files of the index that earlier versions kept. */
const FORMER_INDEX = [".uuids", ".uuids-wal", ".uuids-shm"];
/** Queries at a time: each holds one of the process's four threads for such work. */
const MAX_READERS = 2;

/**
 * Events in a DuckDB file, with an index of uuids and insert ids beside it (`<path>.index`). An index
 * inside DuckDB would have to fit into its memory, and DuckDB alone would read the whole table per
 * batch.
 */
export async function openDuckDbEvents(
  path: string,
  options: DuckDbEventsOptions = {},
): Promise<EventStore & PerformerSource & FlagCalls & ExperimentMeasures> {
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
  const statements = createStatements();
  const appendRows = createRowAppending(statements);
  const packEvents = createEventPacking();
  const savePosition = async (writer: DuckDBConnection, position: number) => {
    const statement = await statements(writer, "update consumer set position = $1::bigint");
    statement.bindBigInt(1, BigInt(position));
    await statement.run();
  };
  const now = options.now ?? (() => new Date());
  const receiptMs = (options.receiptDays ?? 30) * MS_PER_DAY;
  let stored = await file.read(readPosition);
  let prunedAtMs = 0;
  const folder = `${path}.index`;
  let index = await openEventIndex({ folder, stored });
  await catchUp();
  for (const suffix of FORMER_INDEX) await rm(`${path}${suffix}`, { force: true });

  let inserting: Promise<unknown> = Promise.resolve();
  let hasFailed = false;
  let isIndexDamaged = false;
  let rewritten = 0;
  const waiters = new Set<{ readonly position: number; readonly resolve: () => void }>();

  /** Adds events that are stored and not in the index: it was lost, or the process died in between. */
  function catchUp(): Promise<void> {
    return file.read((connection) => fillIndex(index, connection, stored));
  }

  function moveTo(position: number): void {
    stored = Math.max(stored, position);
    for (const waiter of waiters) if (waiter.position <= stored) waiter.resolve();
  }

  async function insert(batch: EventBatch) {
    if (isIndexDamaged) {
      await index.close();
      await rm(folder, { recursive: true, force: true });
      // Rows that wait are packed with its keys.
      index = await openEventIndex({ folder, stored, salt: index.salt });
      isIndexDamaged = false;
      hasFailed = true;
    }
    if (hasFailed) {
      // What failed may be stored all the same: its commit was, and what followed went wrong.
      index.forget();
      moveTo(await file.read(readPosition));
      await catchUp();
    }
    hasFailed = false;
    const total = { stored: 0, duplicates: 0 };
    if (batch.end <= stored) {
      const isEmpty = [batch.rows, batch.merges, batch.drops, batch.deadLetters].every(
        ({ length }) => length === 0,
      );
      if (isEmpty && batch.end === stored)
        await file.write((writer) => savePosition(writer, stored));
      return total;
    }
    const queue = createQueue(batch, stored, (rows) => packEvents(rows, index.keysOf));
    do {
      const at = now();
      const part = await queue.nextPart();
      await index.makeRoom(part.rowCount);
      const { kept, repeated } = await claim(part, at);
      const after = stored;
      const upTo = queue.isEmpty() ? batch.end : part.last;
      const isInPart = ({ position }: { position: number }) => position > after && position <= upTo;
      const drops = batch.drops.filter(isInPart).map(({ droppedAt, ...drop }) => ({
        ...drop,
        outcome: "dropped" as const,
        at: droppedAt ?? at,
      }));
      const isPruning = at.getTime() - prunedAtMs > PRUNING_MS;
      await file.write(async (writer) => {
        await appendRows(writer, kept, at);
        await appendReceipts(writer, [...repeated, ...drops]);
        await saveMerges(writer, batch.merges.filter(isInPart));
        await saveDeadLetters(writer, part.letters);
        if (isPruning) await removeReceipts(writer, new Date(at.getTime() - receiptMs));
        await savePosition(writer, upTo);
      });
      if (isPruning) prunedAtMs = at.getTime();
      index.keep(upTo);
      moveTo(upTo);
      total.stored += part.rowCount - repeated.length;
      total.duplicates += repeated.length;
    } while (!queue.isEmpty());
    queue.release();
    return total;
  }

  /** Finds out which rows are new, and claims what is theirs alone. */
  async function claim({ runs }: BatchPart, at: Date) {
    const kept: KeptRows[] = [];
    const repeated: ReceiptRow[] = [];
    /** Of the turn, over all runs: most may have but a row or two. */
    let claimed = 0;
    for (const { events, start, end } of runs) {
      const indexes: number[] = [];
      kept.push({ events, indexes });
      let to = start;
      for (let from = start; from < end; from = to) {
        if (claimed === ROWS_PER_TURN) {
          await nextTurn();
          claimed = 0;
        }
        to = Math.min(end, from + ROWS_PER_TURN - claimed);
        claimed += to - from;
        const claims = index.claim(events.keys, from, to);
        for (let offset = 0; offset < claims.length; offset++) {
          const claim = claims[offset] as Claim;
          if (claim.kind === "new") indexes.push(from + offset);
          else {
            const { position, event } = events.rowAt(from + offset);
            const { projectId, uuid } = event;
            const firstPosition =
              claim.kind === "duplicate-of" ? { firstPosition: claim.position } : {};
            repeated.push({ position, projectId, uuid, outcome: claim.kind, ...firstPosition, at });
          }
        }
      }
    }
    return { kept, repeated };
  }

  /** Runs work that changes what is stored, one at a time. */
  function afterOthers<Result>(work: () => Promise<Result>): Promise<Result> {
    const run = inserting.then(work);
    inserting = run.catch(() => {});
    return run;
  }

  /** Changes events that are stored. */
  function rewrite(work: (writer: DuckDBConnection) => Promise<void>): Promise<void> {
    return afterOthers(async () => {
      await file.write(work);
      rewritten++;
    });
  }

  /** Runs queries within the time that reading may take. */
  function read<Result>(
    use: (connection: DuckDBConnection, timeUp: () => void) => Promise<Result>,
    limitMs = options.readLimitMs ?? 10_000,
  ): Promise<Result> {
    return file.read(async (connection) => {
      let isTimeUp = false;
      const timer = setTimeout(() => {
        isTimeUp = true;
        connection.interrupt();
      }, limitMs);
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
  function searchOf<Query extends { projectId: number; uuid?: string }>({ uuid, ...query }: Query) {
    if (uuid === undefined) return query;
    const position = index.find(query.projectId, uuid);
    return position === undefined ? undefined : { ...query, position };
  }

  return {
    // Whoever is told of these reads their events alone.
    pack: (rows) => packEvents(rows, index.keysOf).catch(() => rows.map(wholeEntry)),

    insert: (batch) =>
      afterOthers(() =>
        insert(batch).catch((error: unknown) => {
          hasFailed = true;
          if (!(error instanceof DamagedRun)) throw error;
          isIndexDamaged = true;
          throw new StoreUnavailable("the index of events is built anew", { cause: error });
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
      const search = searchOf(query);
      if (search === undefined) return { events: [], hasMore: false };
      return read((connection, timeUp) => findEvents(connection, search, timeUp));
    },

    performers: (query) => findPerformers(read, query),

    moments: (query) => findMoments(read, query),

    ...createFlagCalls(read),

    ...createExperimentMeasures(read, async () => `${stored} ${rewritten}`),

    async count(query) {
      const search = searchOf(query);
      if (search === undefined) return 0;
      return read((connection) => countEvents(connection, search));
    },

    known(projectId, events) {
      try {
        return index.acquaint(projectId, events);
      } catch (error) {
        if (!(error instanceof DamagedRun)) throw error;
        // Storing them tells, with an index that is whole again.
        isIndexDamaged = true;
        return events.map(() => "new");
      }
    },

    receipt(projectId, uuid) {
      const position = index.find(projectId, uuid);
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
      rewrite((writer) => deleteEvents(writer, { projectId, personIds, upTo })),

    reassign: (projectId, moves, upTo) =>
      rewrite((writer) => moveEvents(writer, { projectId, moves, upTo })),

    async close() {
      await inserting;
      await index.close();
      await file.close();
    },
  };
}

/** All tables of a file, where they are missing, and what is brought up to this version. */
export async function createTables(connection: DuckDBConnection): Promise<void> {
  await createEventTable(connection);
  await createMergeTables(connection);
  await createTextTables(connection);
  await createDeadLetterTable(connection);
  await createReceiptTable(connection);
  await createPersonChangeTables(connection);
  await connection.run("create table if not exists consumer (position bigint not null)");
  await connection.run("insert into consumer select 0 where not exists (from consumer)");
}

async function readPosition(connection: DuckDBConnection): Promise<number> {
  const rows = await connection.runAndReadAll("select max(position)::double from consumer");
  return Number(rows.getRows()[0]?.[0] ?? 0);
}

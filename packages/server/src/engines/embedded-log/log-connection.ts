import Database from "libsql";
import type { LaneSegment, LaneState, Segment } from "./log-messages.ts";

/** Large pages: segments are long texts, and fewer pages mean fewer links to follow. */
const PAGE_BYTES = 16_384;
export interface StoredSegment {
  readonly last: number;
  readonly storedMs: number;
}

/** Entries up to a position refer to places of a lane after one. */
interface StoredReference {
  readonly last: number;
  readonly projectId: number;
  readonly after: number;
}

/**
 * Opens the file of a log and brings it up to date where it must be; what is done with it, statement by
 * statement. Throws when that fails.
 */
export function connectLogFile(path: string, maxBytes: number) {
  const database = new Database(path);
  try {
    return prepare(database, maxBytes);
  } catch (error) {
    database.close();
    throw error;
  }
}

function prepare(database: Database.Database, maxBytes: number) {
  database.exec(`pragma page_size = ${PAGE_BYTES}`);
  // Before there are tables: with them it takes a rewriting of the file.
  database.exec("pragma auto_vacuum = incremental");
  database.exec("pragma journal_mode = wal");
  database.exec("pragma synchronous = full");
  database.exec("pragma busy_timeout = 5000");
  database.exec(`pragma journal_size_limit = ${64 * 1024 * 1024}`);
  database.exec(`pragma max_page_count = ${Math.ceil(maxBytes / PAGE_BYTES)}`);
  database.exec(
    `create table if not exists segments (
      last integer primary key,
      count integer not null,
      lines text not null,
      stored_ms integer not null default 0
    )`,
  );
  database.exec(
    "create table if not exists progress (id integer primary key check (id = 1), end integer not null)",
  );
  database.exec(
    `create table if not exists lanes (
      project_id integer primary key,
      passed integer not null,
      end integer not null
    )`,
  );
  database.exec(
    `create table if not exists lane_segments (
      project_id integer not null,
      last integer not null,
      count integer not null,
      chars integer not null,
      lines text not null,
      primary key (project_id, last)
    )`,
  );
  database.exec(
    "create table if not exists lane_effects (position integer primary key, lines text not null)",
  );
  database.exec(
    `create table if not exists lane_references (
      last integer not null,
      project_id integer not null,
      after integer not null,
      primary key (last, project_id)
    ) without rowid`,
  );
  database.exec(
    "create index if not exists lane_references_by_project on lane_references (project_id, last)",
  );
  const numberOf = (pragma: string): number =>
    Number(Object.values((database.prepare(`pragma ${pragma}`).all()[0] ?? {}) as object)[0]);
  renewOldFile();
  const insert = database.prepare(
    "insert into segments (last, count, lines, stored_ms) values (?, ?, ?, ?)",
  );
  const remove = database.prepare("delete from segments where last <= ?");
  const saveEnd = database.prepare("insert or replace into progress (id, end) values (1, ?)");
  const insertIntoLane = database.prepare(
    "insert into lane_segments (project_id, last, count, chars, lines) values (?, ?, ?, ?, ?)",
  );
  const removeFromLane = database.prepare(
    `delete from lane_segments where project_id = @projectId and last <= min(@upTo, ifnull(
      (select after from lane_references where project_id = @projectId order by last limit 1), @upTo
    ))`,
  );
  const insertReference = database.prepare(
    "insert into lane_references (last, project_id, after) values (?, ?, ?)",
  );
  const referring = database.prepare(
    "select distinct project_id from lane_references where last <= ?",
  );
  const removeReferences = database.prepare("delete from lane_references where last <= ?");
  const saveLane = database.prepare(
    "insert or replace into lanes (project_id, passed, end) values (?, ?, ?)",
  );
  const insertEffects = database.prepare(
    "insert into lane_effects (position, lines) values (?, ?)",
  );
  const removeEffects = database.prepare("delete from lane_effects where position <= ?");
  const findOldest = database.prepare("select last, stored_ms from segments order by last limit 1");

  /** Files of earlier versions know no times of storing and cannot shrink. */
  function renewOldFile(): void {
    const columns = database.prepare("select name from pragma_table_info('segments')").all();
    if (!(columns as { name: string }[]).some(({ name }) => name === "stored_ms")) {
      database.exec("alter table segments add column stored_ms integer not null default 0");
    }
    if (numberOf("auto_vacuum") !== 0) return;
    try {
      database.exec("vacuum");
    } catch {
      // It needs as much room again. Without it the file stays as large as it ever was.
    }
  }

  return {
    storedEnd: (): number => {
      const [row] = database.prepare("select end from progress").all() as { end: number }[];
      return row?.end ?? 0;
    },
    inTransaction<Result>(work: () => Result): Result {
      database.exec("begin immediate");
      try {
        const result = work();
        database.exec("commit");
        return result;
      } catch (error) {
        if (database.inTransaction) database.exec("rollback");
        throw error;
      }
    },
    insert({ last, count, lines, storedMs }: Segment & StoredSegment): void {
      insert.run(last, count, lines, storedMs);
    },
    oldest(): StoredSegment | undefined {
      const [row] = findOldest.all() as { last: number; stored_ms: number }[];
      return row && { last: row.last, storedMs: row.stored_ms };
    },
    deleteUpTo(position: number): void {
      remove.run(position);
    },
    usedBytes: () => (numberOf("page_count") - numberOf("freelist_count")) * PAGE_BYTES,
    freePages: () => numberOf("freelist_count"),
    /** Takes free pages off the file, as soon as no reader is in the way. */
    shrink(pages: number): void {
      database.exec(`pragma incremental_vacuum(${pages})`);
      numberOf("wal_checkpoint(passive)");
    },
    checkpoint(): void {
      numberOf("wal_checkpoint(passive)");
    },
    storeEnd(end: number): void {
      saveEnd.run(end);
    },
    lanes: (): readonly LaneState[] => {
      const rows = database
        .prepare(
          `select project_id, passed, end,
             (select coalesce(sum(chars), 0) from lane_segments
              where lane_segments.project_id = lanes.project_id
                and lane_segments.last > lanes.passed) as chars
           from lanes`,
        )
        .all();
      type Row = { project_id: number; passed: number; end: number; chars: number };
      return (rows as Row[]).map(({ project_id: projectId, ...state }) => ({
        projectId,
        ...state,
      }));
    },
    insertIntoLane(segment: LaneSegment & { readonly last: number }): void {
      const { projectId, last, count, chars, lines } = segment;
      insertIntoLane.run(projectId, last, count, chars, lines);
    },
    /** Up to a place, but for what entries refer to. */
    deleteFromLane(projectId: number, upTo: number): void {
      removeFromLane.run({ projectId, upTo });
    },
    refer({ last, projectId, after }: StoredReference): void {
      insertReference.run(last, projectId, after);
    },
    /** Forgets that entries up to a position refer to lanes; answers to whose. */
    deleteReferences(upTo: number): readonly number[] {
      const projects = referring.all(upTo) as { project_id: number }[];
      if (projects.length > 0) removeReferences.run(upTo);
      return projects.map(({ project_id: projectId }) => projectId);
    },
    insertEffects(position: number, lines: string): void {
      insertEffects.run(position, lines);
    },
    deleteEffects(upTo: number): void {
      removeEffects.run(upTo);
    },
    storeLane({ projectId, passed, end }: Omit<LaneState, "chars">): void {
      saveLane.run(projectId, passed, end);
    },
    close(): void {
      database.close();
    },
  };
}

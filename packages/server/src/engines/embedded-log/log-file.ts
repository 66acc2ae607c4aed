import { statfsSync } from "node:fs";
import { dirname } from "node:path";
import Database from "libsql";

/** Encoded events, joined by line breaks: what one row of the file holds. */
export interface Segment {
  readonly count: number;
  readonly lines: string;
}

/** The same, of a lane. */
export interface LaneSegment extends Segment {
  readonly projectId: number;
  /** Length of the lines. */
  readonly chars: number;
}

/** What is stored in one commit. */
export interface Group {
  readonly segments: readonly Segment[];
  readonly laneSegments: readonly LaneSegment[];
  readonly passes: readonly LanePass[];
  readonly effects: readonly EffectsOfPass[];
}

/** A lane passes up to a place. */
export interface LanePass {
  readonly projectId: number;
  readonly upTo: number;
  /** The place before the first to which a line of the group refers, where any does. */
  readonly refersAfter?: number | undefined;
}

/** What events that pass leave for other stores. */
export interface EffectsOfPass {
  /** Events of the group up to the last one that passes with them. */
  readonly count: number;
  /** Joined by line breaks. */
  readonly lines: string;
}

/** Places in a lane: the last one that has passed, and the newest. */
export interface LaneState {
  readonly projectId: number;
  readonly passed: number;
  readonly end: number;
  /** Length of what waits, or somewhat more. */
  readonly chars: number;
}

export interface LogFileOptions {
  readonly path: string;
  /** New positions are greater than this one, whatever the file holds. */
  readonly after: number;
  /** The file takes no more events beyond this size; what is released makes room again. */
  readonly maxBytes: number;
  readonly retention: LogRetention;
}

/** What is released stays until the log is larger than this, or it is older. */
export interface LogRetention {
  readonly maxBytes: number;
  readonly maxAgeMs: number;
  /** And only while so much of its disk is free for others; 512 MiB unless given. */
  readonly reserveBytes?: number;
}

export type ToLogThread =
  | ({ readonly kind: "append" } & Group)
  | { readonly kind: "release"; readonly upTo: number }
  | { readonly kind: "forget-effects"; readonly upTo: number }
  | { readonly kind: "close" };

export type FromLogThread =
  | { readonly kind: "opened"; readonly end: number; readonly lanes: readonly LaneState[] }
  /** `end`: position of the last event of the append. `isShort`: of the disk little is left. */
  | { readonly kind: "appended"; readonly end: number; readonly isShort: boolean }
  | { readonly kind: "refused"; readonly reason: string }
  | { readonly kind: "closed" };

/** Large pages: segments are long texts, and fewer pages mean fewer links to follow. */
const PAGE_BYTES = 16_384;
/** What need not be kept is deleted with the next append, or after this long without one. */
const IDLE_RELEASE_MS = 250;
/** A timer that waits longer than this is set anew. */
const LONGEST_TIMER_MS = 3_600_000;
/** Deleted in one transaction: appends wait for it. */
const SEGMENTS_PER_TURN = 64;
const RESERVE_BYTES = 512 * 1024 * 1024;
/** What is free is looked at this often at most. */
const FREE_FOR_MS = 100;
/** Free pages that are kept for what comes; beyond them the file shrinks, some pages at a time. */
const SPARE_PAGES = 1024;
const PAGES_PER_TURN = 256;
/** While anything waits in lanes, so much of a full file is left for what becomes of it. */
const LEFT_FOR_LANES_BYTES = 32 * 1024 * 1024;

/** The writing half of the log, synchronous. One per file. */
export interface LogFile {
  readonly end: number;
  /** Of every project that ever had one. */
  readonly lanes: readonly LaneState[];
  /** Stores all of a group in one durable commit and answers the position of the last event. Throws when nothing was stored. */
  append(group: Group): number;
  /** Whether so little of the disk is left that nothing is kept beyond need. */
  isDiskShort(): boolean;
  /** Lets go of segments whose events all lie at or below a position: they stay as long as retention says. */
  release(upTo: number): void;
  /** Deletes effects up to a position, with what comes next or soon. */
  forgetEffects(upTo: number): void;
  close(): void;
}

/** Opens a log file for writing, creating it where it is missing. Throws when that fails. */
export function openLogFile({ path, after, maxBytes, retention }: LogFileOptions): LogFile {
  let connection = connect(path, maxBytes);
  let end = Math.max(after, connection.storedEnd());
  let lanes = new Map<number, Omit<LaneState, "chars">>(
    connection.lanes().map((lane) => [lane.projectId, lane]),
  );
  let released = 0;
  /** Up to where effects are forgotten, and deleted. */
  const effects = { forgotten: 0, deleted: 0 };
  let timer: NodeJS.Timeout | undefined;
  let tidyAtMs = Number.POSITIVE_INFINITY;
  let isShort = false;
  let lookedAtMs = Number.NEGATIVE_INFINITY;

  /**
   * After a failed write the connection may be of no use any more: a new one takes its place, where
   * there is one to be had. On a full disk there may be none, and the old one works once there is room.
   */
  function reconnect(): void {
    const old = connection;
    try {
      connection = connect(path, maxBytes);
    } catch {
      return;
    }
    try {
      old.close();
    } catch {
      // It failed already; what matters is whether the new one works.
    }
  }

  function write({ segments, laneSegments, passes, ...group }: Group): number {
    if (passes.length === 0) leaveRoomForLanes();
    try {
      const changed = new Map<number, Omit<LaneState, "chars">>();
      const laneOf = (projectId: number) =>
        changed.get(projectId) ?? lanes.get(projectId) ?? { projectId, passed: 0, end: 0 };
      const written = connection.inTransaction(() => {
        prune();
        deleteEffects();
        // First of all: it makes room for what follows.
        const passing = passesByProject(passes);
        for (const { projectId, upTo, refersAfter } of passing) {
          connection.deleteFromLane(projectId, refersAfter ?? upTo);
          changed.set(projectId, { ...laneOf(projectId), passed: upTo });
        }
        let last = end;
        const storedMs = Date.now();
        for (const { count, lines } of segments) {
          last += count;
          connection.insert({ last, count, lines, storedMs });
        }
        for (const { projectId, refersAfter } of passing) {
          if (refersAfter !== undefined) connection.refer({ last, projectId, after: refersAfter });
        }
        for (const { count, lines } of group.effects) connection.insertEffects(end + count, lines);
        for (const segment of laneSegments) {
          const lane = laneOf(segment.projectId);
          const last = lane.end + segment.count;
          changed.set(segment.projectId, { ...lane, end: last });
          connection.insertIntoLane({ ...segment, last });
        }
        for (const lane of changed.values()) connection.storeLane(lane);
        if (last !== end) connection.storeEnd(last);
        return last;
      });
      if (changed.size > 0) lanes = new Map([...lanes, ...changed]);
      effects.deleted = effects.forgotten;
      return written;
    } catch (error) {
      reconnect();
      throw error;
    }
  }

  /** What becomes of waiting events takes room before theirs is free: a file full of them would stay so. */
  function leaveRoomForLanes(): void {
    const leftBytes = Math.min(LEFT_FOR_LANES_BYTES, maxBytes / 8);
    const isAnyWaiting = () => [...lanes.values()].some((lane) => lane.end > lane.passed);
    if (lanes.size === 0 || !isAnyWaiting() || connection.usedBytes() < maxBytes - leftBytes)
      return;
    throw new Error("database or disk is full: events wait for their transformations");
  }

  function isDiskShort(): boolean {
    const nowMs = performance.now();
    if (nowMs - lookedAtMs > FREE_FOR_MS) {
      const { bavail, bsize } = statfsSync(dirname(path));
      isShort = bavail * bsize < (retention.reserveBytes ?? RESERVE_BYTES);
      lookedAtMs = nowMs;
    }
    return isShort;
  }

  /** How long the oldest released segment may stay; `undefined` when there is none. */
  function timeLeftMs(oldest: StoredSegment | undefined): number | undefined {
    if (!oldest || oldest.last > released) return undefined;
    if (connection.usedBytes() > retention.maxBytes || isDiskShort()) return 0;
    return Math.max(0, oldest.storedMs + retention.maxAgeMs - Date.now());
  }

  /** Deletes what need not be kept, up to a bound, within the caller's transaction. */
  function prune(): void {
    let last = 0;
    for (let deleted = 0; deleted < SEGMENTS_PER_TURN; deleted++) {
      const oldest = connection.oldest();
      if (!oldest || timeLeftMs(oldest) !== 0) break;
      connection.deleteUpTo(oldest.last);
      last = oldest.last;
    }
    if (last > 0) deleteReferred(last);
  }

  /** Deletes what stands in lanes only for entries up to a position, which are gone; within the caller's transaction. */
  function deleteReferred(upTo: number): void {
    for (const projectId of connection.deleteReferences(upTo)) {
      connection.deleteFromLane(projectId, lanes.get(projectId)?.passed ?? 0);
    }
  }

  /** Within the caller's transaction; where that fails, the next one tries again. */
  function deleteEffects(): void {
    if (effects.forgotten > effects.deleted) connection.deleteEffects(effects.forgotten);
  }

  function deleteEffectsAlone(): void {
    if (effects.forgotten === effects.deleted) return;
    connection.inTransaction(deleteEffects);
    effects.deleted = effects.forgotten;
  }

  /** Prunes without an append, and gives the disk back what is free. */
  function tidy(): void {
    deleteEffectsAlone();
    if (timeLeftMs(connection.oldest()) === 0) connection.inTransaction(prune);
    const isLarge = connection.freePages() > (isDiskShort() ? 0 : SPARE_PAGES);
    if (isLarge) connection.shrink(PAGES_PER_TURN);
    const leftMs = isLarge ? 0 : timeLeftMs(connection.oldest());
    if (leftMs !== undefined) tidyIn(leftMs);
  }

  function tidyIn(leftMs: number): void {
    const waitMs = Math.min(Math.max(leftMs, IDLE_RELEASE_MS), LONGEST_TIMER_MS);
    // Releases come faster than that: none of them puts off what the one before has asked for.
    if (performance.now() + waitMs >= tidyAtMs) return;
    clearTimeout(timer);
    tidyAtMs = performance.now() + waitMs;
    timer = setTimeout(() => {
      tidyAtMs = Number.POSITIVE_INFINITY;
      try {
        tidy();
      } catch {
        // Deleting needs room for its journal; the next release tries again.
      }
    }, waitMs).unref();
  }

  /** On a full disk, what was kept beyond need makes room. False when there was nothing of it. */
  function giveUpReleased(): boolean {
    try {
      const oldest = connection.oldest();
      if (!oldest || oldest.last > released) return false;
      connection.inTransaction(() => {
        connection.deleteUpTo(released);
        deleteReferred(released);
      });
      // The room of its journal can be used again.
      connection.checkpoint();
    } catch {
      return false;
    }
    tidyIn(0);
    return true;
  }

  return {
    get end() {
      return end;
    },
    get lanes() {
      return connection.lanes();
    },
    isDiskShort,
    append(group) {
      try {
        end = write(group);
      } catch (error) {
        if (!giveUpReleased()) throw error;
        end = write(group);
      }
      return end;
    },
    release(upTo) {
      released = Math.max(released, upTo);
      tidyIn(0);
    },
    forgetEffects(upTo) {
      effects.forgotten = Math.max(effects.forgotten, upTo);
      tidyIn(0);
    },
    close() {
      clearTimeout(timer);
      try {
        deleteEffectsAlone();
      } catch {
        // Whoever opens the file knows what is done with.
      }
      connection.close();
    },
  };
}

/** One pass of each lane of a group. */
function passesByProject(passes: readonly LanePass[]): readonly LanePass[] {
  const byProject = new Map<number, LanePass>();
  for (const pass of passes) {
    const before = byProject.get(pass.projectId);
    const refersAfter = before?.refersAfter ?? pass.refersAfter;
    byProject.set(pass.projectId, { ...pass, refersAfter });
  }
  return [...byProject.values()];
}

interface StoredSegment {
  readonly last: number;
  readonly storedMs: number;
}

/** Entries up to a position refer to places of a lane after one. */
interface StoredReference {
  readonly last: number;
  readonly projectId: number;
  readonly after: number;
}

function connect(path: string, maxBytes: number) {
  const database = new Database(path);
  try {
    return prepare(database, maxBytes);
  } catch (error) {
    database.close();
    throw error;
  }
}

/** Brings the file up to date where it must be, and answers what is done with it. */
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
    insert: ({ last, count, lines, storedMs }: Segment & StoredSegment) =>
      insert.run(last, count, lines, storedMs),
    oldest(): StoredSegment | undefined {
      const [row] = findOldest.all() as { last: number; stored_ms: number }[];
      return row && { last: row.last, storedMs: row.stored_ms };
    },
    deleteUpTo: (position: number) => remove.run(position),
    usedBytes: () => (numberOf("page_count") - numberOf("freelist_count")) * PAGE_BYTES,
    freePages: () => numberOf("freelist_count"),
    /** Takes free pages off the file, as soon as no reader is in the way. */
    shrink(pages: number): void {
      database.exec(`pragma incremental_vacuum(${pages})`);
      numberOf("wal_checkpoint(passive)");
    },
    checkpoint: () => numberOf("wal_checkpoint(passive)"),
    storeEnd: (end: number) => saveEnd.run(end),
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
    insertIntoLane: (segment: LaneSegment & { readonly last: number }) => {
      const { projectId, last, count, chars, lines } = segment;
      insertIntoLane.run(projectId, last, count, chars, lines);
    },
    /** Up to a place, but for what entries refer to. */
    deleteFromLane: (projectId: number, upTo: number) => removeFromLane.run({ projectId, upTo }),
    refer: ({ last, projectId, after }: StoredReference) =>
      insertReference.run(last, projectId, after),
    /** Forgets that entries up to a position refer to lanes; answers to whose. */
    deleteReferences(upTo: number): readonly number[] {
      const projects = referring.all(upTo) as { project_id: number }[];
      if (projects.length > 0) removeReferences.run(upTo);
      return projects.map(({ project_id: projectId }) => projectId);
    },
    insertEffects: (position: number, lines: string) => insertEffects.run(position, lines),
    deleteEffects: (upTo: number) => removeEffects.run(upTo),
    storeLane: ({ projectId, passed, end }: Omit<LaneState, "chars">) =>
      saveLane.run(projectId, passed, end),
    close: () => database.close(),
  };
}

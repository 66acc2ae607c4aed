import { statfsSync } from "node:fs";
import { dirname } from "node:path";
import { connectLogFile, type StoredSegment } from "./log-connection.ts";
import type { Group, LanePass, LaneState, LogFileOptions } from "./log-messages.ts";

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
  let connection = connectLogFile(path, maxBytes);
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
      connection = connectLogFile(path, maxBytes);
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

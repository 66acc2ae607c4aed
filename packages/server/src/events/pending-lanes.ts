import { setTimeout as delay } from "node:timers/promises";
import type { LoggedEvent } from "@hedgerow/core/events/event";
import type { PendingPersons } from "./pending-persons.ts";

/**
 * What is pending in the log and in the lanes beside it. The changes of an event in a lane follow
 * when it has passed, at a position that nobody knows before: until they are applied it counts as
 * pending by its place.
 */
export interface PendingLanes extends PendingPersons {
  /** Like `add`, of events in the lane of a project: their positions are places there. */
  addToLane(projectId: number, entries: readonly LoggedEvent[]): void;
  /** Like `catchUpTo`, of a place. */
  catchUpLaneTo(projectId: number, place: number): void;
  /** Like `keptUp`, of a place. */
  keptUpInLane(projectId: number, place: number): Promise<void> | undefined;
  /** What stood in a lane up to a place stands in the log now, up to a position. */
  passed(projectId: number, upTo: number, position: number): void;
}

export interface PendingLanesOptions {
  readonly log: PendingPersons;
  /** One for each lane, in terms of its places. */
  readonly createForLane: () => PendingPersons;
  /** Longest wait of one request; 2,000 unless given. */
  readonly maxWaitMs?: number;
}

interface Lane {
  readonly pending: PendingPersons;
  /** What has passed and is not applied yet, oldest first. */
  crossings: { readonly upTo: number; readonly position: number }[];
}

/** Knows what is pending wherever it stands; asks of projects without a lane cost a look into a map. */
export function createPendingLanes({
  log,
  createForLane,
  maxWaitMs = 2000,
}: PendingLanesOptions): PendingLanes {
  const lanes = new Map<number, Lane>();
  const crossing = new Set<Lane>();
  let applied = 0;

  function laneOf(projectId: number): Lane {
    let lane = lanes.get(projectId);
    if (!lane) {
      lane = { pending: createForLane(), crossings: [] };
      lanes.set(projectId, lane);
    }
    return lane;
  }

  function settle(lane: Lane): void {
    const done = lane.crossings.findLast(({ position }) => position <= applied);
    if (done) {
      lane.crossings = lane.crossings.filter(({ upTo }) => upTo > done.upTo);
      lane.pending.applied(done.upTo);
    }
    if (lane.crossings.length === 0) crossing.delete(lane);
  }

  return {
    ...log,

    applied(upTo) {
      applied = Math.max(applied, upTo);
      log.applied(upTo);
      for (const lane of crossing) settle(lane);
    },

    settled(projectId, ids) {
      const first = log.settled(projectId, ids);
      const lane = lanes.get(projectId)?.pending;
      if (!lane || !first) return first ?? lane?.settled(projectId, ids);
      // What the log holds came before what waits in the lane, and tells whom that is about.
      const both = first.then(() => lane.settled(projectId, ids));
      return Promise.race([both, delay(maxWaitMs, undefined, { ref: false })]);
    },

    addToLane: (projectId, entries) => laneOf(projectId).pending.add(entries),

    catchUpLaneTo: (projectId, place) => laneOf(projectId).pending.catchUpTo(place),

    keptUpInLane: (projectId, place) => laneOf(projectId).pending.keptUp(place),

    passed(projectId, upTo, position) {
      const lane = laneOf(projectId);
      lane.crossings.push({ upTo, position });
      crossing.add(lane);
      settle(lane);
    },
  };
}

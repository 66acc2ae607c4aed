import type { LoggedEvent } from "@hedgerow/core/events/event";
import { atMost } from "../platform/at-most.ts";
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
  /**
   * One for each lane, in terms of its places. A lane may hold hours of events: it should not make
   * anybody wait for those of whom it is not known whom they change.
   */
  readonly createForLane: () => PendingPersons;
  /** Longest wait of one request; 2,000 unless given. */
  readonly maxWaitMs?: number;
  /** Events in all lanes beyond which it is forgotten whom those of the fullest lane change. */
  readonly maxNoted?: number;
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
  maxNoted = 50_000,
}: PendingLanesOptions): PendingLanes {
  const lanes = new Map<number, Lane>();
  const crossing = new Set<Lane>();
  let applied = 0;
  let noted = 0;

  function laneOf(projectId: number): Lane {
    let lane = lanes.get(projectId);
    if (!lane) {
      lane = { pending: createForLane(), crossings: [] };
      lanes.set(projectId, lane);
    }
    return lane;
  }

  /** Keeps count of what is noted in lanes. */
  function change({ pending }: Lane, act: (pending: PendingPersons) => void): void {
    const before = pending.noted();
    act(pending);
    noted += pending.noted() - before;
  }

  function forgetFullest(): void {
    const fullest = [...lanes.values()].reduce((one, other) =>
      other.pending.noted() > one.pending.noted() ? other : one,
    );
    change(fullest, (pending) => pending.forgetWhom());
  }

  function settle(lane: Lane): void {
    const done = lane.crossings.findLast(({ position }) => position <= applied);
    if (done) {
      lane.crossings = lane.crossings.filter(({ upTo }) => upTo > done.upTo);
      change(lane, (pending) => pending.applied(done.upTo));
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
      return atMost(
        maxWaitMs,
        first.then(() => lane.settled(projectId, ids)),
      );
    },

    addToLane(projectId, entries) {
      change(laneOf(projectId), (pending) => pending.add(entries));
      while (noted > maxNoted) forgetFullest();
    },

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

import type { CapturedEvent, LoggedEvent } from "@hedgerow/core/events/event";
import type { EventLog } from "./event-log.ts";
import type { PendingLanes } from "./pending-lanes.ts";

/**
 * Takes captured events, from wherever they come: into the log, or into the lane of a project that
 * has transformations at work. Resolves once they would survive a crash, and flag requests wait for
 * what they change. Rejects with `LogUnavailable`; those of the first project then are not stored.
 */
export type AppendCaptured = (events: readonly CapturedEvent[]) => Promise<Appended>;

export interface Appended {
  /**
   * For whoever answers a capture: what to await before, where the stages behind are late; see
   * `PendingPersons.keptUp`.
   */
  readonly keptUp: Promise<void> | undefined;
}

export interface AppendCapturedDeps {
  readonly log: {
    readonly append: EventLog["append"];
    readonly lanes: Pick<EventLog["lanes"], "append" | "isWaiting">;
  };
  readonly pendingPersons: Pick<PendingLanes, "add" | "keptUp" | "addToLane" | "keptUpInLane">;
  /** Whether events of a project have to pass transformations. */
  readonly isAtWork: (projectId: number) => boolean;
  /** Told of a project whose lane has got events. */
  readonly onLane: (projectId: number) => void;
}

/** The one place where events enter the log. */
export function createAppendCaptured(deps: AppendCapturedDeps): AppendCaptured {
  const { log, pendingPersons, isAtWork, onLane } = deps;

  async function toLog(events: readonly CapturedEvent[]): Promise<Appended> {
    const positions = await log.append(events);
    // Before the answer: whoever has it may ask for flags and must find what was captured.
    pendingPersons.add(placed(events, positions));
    return { keptUp: pendingPersons.keptUp(positions.at(-1) ?? 0) };
  }

  async function toLane(projectId: number, events: readonly CapturedEvent[]): Promise<Appended> {
    const places = await log.lanes.append(projectId, events);
    pendingPersons.addToLane(projectId, placed(events, places));
    onLane(projectId);
    return { keptUp: pendingPersons.keptUpInLane(projectId, places.at(-1) ?? 0) };
  }

  // What waits in a lane goes first, also when nothing is at work any more.
  const hasLane = (projectId: number) => log.lanes.isWaiting(projectId) || isAtWork(projectId);

  return async function appendCaptured(events) {
    const [first] = events;
    if (!first) return { keptUp: undefined };
    const { projectId } = first;
    const take = (own: readonly CapturedEvent[]) =>
      hasLane(projectId) ? toLane(projectId, own) : toLog(own);
    if (events.every((event) => event.projectId === projectId)) return take(events);
    await take(events.filter((event) => event.projectId === projectId));
    return appendCaptured(events.filter((event) => event.projectId !== projectId));
  };
}

function placed(
  events: readonly CapturedEvent[],
  places: readonly number[],
): readonly LoggedEvent[] {
  return events.map((event, index) => ({ position: places[index] ?? Number.NaN, event }));
}

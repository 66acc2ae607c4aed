import type { EventLog } from "./event-log.ts";
import type { EventStore } from "./event-store.ts";

export interface ReachNowDeps {
  readonly events: Pick<EventStore, "reached">;
  readonly log: {
    readonly end: EventLog["end"];
    readonly lanes: Pick<EventLog["lanes"], "passed">;
  };
}

/**
 * Waits until all that a project captured by now is stored, its transformations behind it; answers
 * false when that takes longer.
 */
export async function reachNow(
  { events, log }: ReachNowDeps,
  projectId: number,
  maxWaitMs: number,
): Promise<boolean> {
  const startedAt = performance.now();
  if ((await log.lanes.passed(projectId, maxWaitMs)) === false) return false;
  return events.reached(await log.end(), Math.max(0, maxWaitMs - (performance.now() - startedAt)));
}

import type { EventLog } from "./event-log.ts";
import type { PendingPersons } from "./pending-persons.ts";

export interface AppliedNowDeps {
  readonly pendingPersons: Pick<PendingPersons, "caughtUp">;
  readonly log: {
    readonly end: EventLog["end"];
    readonly lanes: Pick<EventLog["lanes"], "passed">;
  };
}

/**
 * Waits until all that a project captured by now is applied to its persons and groups, its
 * transformations behind it; answers false when the transformations, or what follows, take longer.
 */
export async function appliedNow(
  { pendingPersons, log }: AppliedNowDeps,
  projectId: number,
  maxLaneWaitMs: number,
): Promise<boolean> {
  const hasPassed = await log.lanes.passed(projectId, maxLaneWaitMs);
  const isApplied = await pendingPersons.caughtUp(await log.end());
  return hasPassed !== false && isApplied !== false;
}

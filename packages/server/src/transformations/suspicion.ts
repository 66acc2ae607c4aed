/** What an event, or another call, came to. */
export type CallResult = "fine" | "failed" | "exceeded-limit";

/** Finds transformations that should not go on as they are. */
export interface Suspicion {
  /** Why the transformation has to be taken out of work; `undefined` as long as it need not. */
  note(result: CallResult, reason?: string): string | undefined;
  /**
   * The same, told of what an event cost while events of other projects were coming too. Projects share
   * threads: who computes for long holds up the transformations of others.
   * @param tookMs how long the event took, with the time that others had the processor
   */
  noteCost(cpuMs: number, tookMs: number): string | undefined;
}

/** So many exceeded limits within {@link WINDOW_MS} are too many: each costs others time. */
const MAX_LIMITS = 10;
const WINDOW_MS = 60_000;
/** So many failures without a success in between are no accident. */
const MAX_FAILURES = 100;
/** What an event may cost without holding up others: far more than most need. */
const FAIR_MS = 10;
/** What goes beyond that may come to this share of the time, and to so much at once. */
const EXCESS_SHARE = 0.15;
const MAX_EXCESS_MS = 3_000;
/** Most that is blamed on an event, in times of what it computed. */
const MOST_BLAMED = 3;

/** Watches one transformation in one project. */
export function createSuspicion(nowMs: () => number): Suspicion {
  let failures = 0;
  let limits: { readonly at: number; readonly reason: string }[] = [];
  let excessMs = 0;
  let excessAt = nowMs();
  return {
    noteCost(cpuMs, tookMs) {
      if (cpuMs <= FAIR_MS) return undefined;
      // Others are held up while it waits for the processor as well, which is its fault in part only.
      const heldUpMs = Math.max(cpuMs, Math.min(tookMs, MOST_BLAMED * cpuMs));
      const now = nowMs();
      const forgottenMs = Math.max(0, now - excessAt) * EXCESS_SHARE;
      excessMs = Math.max(0, excessMs - forgottenMs) + heldUpMs - FAIR_MS;
      excessAt = now;
      if (excessMs < MAX_EXCESS_MS) return undefined;
      return `It computes for so long that it holds up the transformations of other projects: ${Math.round(cpuMs)} ms for the last event.`;
    },

    note(result, reason = "") {
      if (result === "fine") {
        failures = 0;
        return undefined;
      }
      failures++;
      if (result === "exceeded-limit") {
        const now = nowMs();
        limits = [...limits.filter(({ at }) => now - at < WINDOW_MS), { at: now, reason }];
        if (limits.length >= MAX_LIMITS) {
          return `It exceeded its limits ${limits.length} times within a minute. The first time: ${limits[0]?.reason}`;
        }
      }
      if (failures < MAX_FAILURES) return undefined;
      return `It failed ${failures} times in a row. The last time: ${reason}`;
    },
  };
}

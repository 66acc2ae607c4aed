/** What an event, or another call, came to. */
export type CallResult = "fine" | "failed" | "exceeded-limit";

/** Finds transformations that should not go on as they are. */
export interface Suspicion {
  /** Why the transformation has to be taken out of work; `undefined` as long as it need not. */
  note(result: CallResult, reason?: string): string | undefined;
}

/** So many exceeded limits within {@link WINDOW_MS} are too many: each costs others time. */
const MAX_LIMITS = 10;
const WINDOW_MS = 60_000;
/** So many failures without a success in between are no accident. */
const MAX_FAILURES = 100;

/** Watches one transformation in one project. */
export function createSuspicion(nowMs: () => number): Suspicion {
  let failures = 0;
  let limits: { readonly at: number; readonly reason: string }[] = [];
  return {
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

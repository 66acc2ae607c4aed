import { setTimeout as delay } from "node:timers/promises";
import type { EventStore } from "../events/event-store.ts";
import type { EventChange, PersonRecords } from "./person-records.ts";

/** What carries out on stored events what was done to their persons. */
export interface ChangeFollower {
  /**
   * Call after a change: it is carried out now. Resolves once everything left so far is done, or
   * after a while: what is left then is done as soon as the stores allow. Never rejects.
   */
  follow(): Promise<void>;
  /** Stops; what is left waits for the next start. */
  close(): Promise<void>;
}

export interface FollowerTiming {
  /** Longest that {@link ChangeFollower.follow} keeps anybody waiting. */
  readonly maxWaitMs: number;
  /** Longest wait for events to be stored before it is looked at again whether to go on. */
  readonly reachMs: number;
  /** First pause after a failure; doubles up to `longestRetryMs`. */
  readonly retryMs: number;
  readonly longestRetryMs: number;
}

const DEFAULT_TIMING: FollowerTiming = {
  maxWaitMs: 2000,
  reachMs: 1000,
  retryMs: 100,
  longestRetryMs: 30_000,
};

/** Changes read at a time. */
const RUN_LENGTH = 100;

/**
 * Starts carrying out what is left and what comes: oldest first, each once the events before it are
 * stored. A change is taken off the list only when it is done, so that a crash in between repeats
 * it, which changes nothing more: a change ends with the events that came before it.
 */
export function followChanges({
  records,
  events,
  reportFault,
  ...options
}: {
  records: Pick<PersonRecords, "eventChanges" | "removeEventChange">;
  events: Pick<EventStore, "reached" | "deleteEventsOf" | "reassign">;
  reportFault: (error: unknown, context: string) => void;
  timing?: Partial<FollowerTiming>;
}): ChangeFollower {
  const timing = { ...DEFAULT_TIMING, ...options.timing };
  const stop = new AbortController();
  /** Counts the calls of `follow`: what was asked before a round began is done when it ends. */
  let asked = 1;
  let done = 0;
  let waiters: { readonly asked: number; readonly resolve: () => void }[] = [];
  let wake = () => {};

  async function carryOut({ projectId, position, change }: EventChange): Promise<void> {
    switch (change.kind) {
      case "delete":
        return events.deleteEventsOf(projectId, change.personIds, position);
      case "reassign":
        return events.reassign(projectId, change.moves, position);
    }
  }

  /** Carries out all there is; false where it was told to stop before. */
  async function round(): Promise<boolean> {
    for (;;) {
      const changes = await records.eventChanges(RUN_LENGTH);
      for (const change of changes) {
        while (!(await events.reached(change.position, timing.reachMs))) {
          if (stop.signal.aborted) return false;
        }
        if (stop.signal.aborted) return false;
        await carryOut(change);
        await records.removeEventChange(change.id);
      }
      if (changes.length < RUN_LENGTH) return true;
    }
  }

  async function run(): Promise<void> {
    let failures = 0;
    while (!stop.signal.aborted) {
      if (done === asked) {
        await new Promise<void>((resolve) => {
          wake = resolve;
        });
        continue;
      }
      const upTo = asked;
      try {
        if (!(await round())) return;
        failures = 0;
        done = upTo;
        settle();
      } catch (error) {
        failures++;
        reportFault(error, "changes of persons could not be carried out on their events");
        const pauseMs = Math.min(timing.retryMs * 2 ** (failures - 1), timing.longestRetryMs);
        await delay(pauseMs, undefined, { signal: stop.signal }).catch(() => {});
      }
    }
  }

  function settle(): void {
    const ready = waiters.filter((waiter) => waiter.asked <= done);
    waiters = waiters.filter((waiter) => waiter.asked > done);
    for (const { resolve } of ready) resolve();
  }

  const running = run();

  return {
    follow() {
      asked++;
      wake();
      return new Promise((resolve) => {
        const finish = () => {
          clearTimeout(timer);
          waiters = waiters.filter((other) => other !== waiter);
          resolve();
        };
        const waiter = { asked, resolve: finish };
        const timer = setTimeout(finish, timing.maxWaitMs);
        waiters.push(waiter);
      });
    },
    async close() {
      stop.abort();
      wake();
      await running;
      for (const { resolve } of waiters) resolve();
    },
  };
}

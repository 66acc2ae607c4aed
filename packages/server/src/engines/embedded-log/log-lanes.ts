import type { LoggedEvent } from "@hedgerow/core/events/event";
import type { LaneState } from "./log-messages.ts";
import { createLogTail, type LogTail } from "./log-tail.ts";

/** What is known in memory of the lanes of a log. */
export interface LogLaneStates {
  /** Takes in what the file says, in the place of what was known. */
  load(states: readonly LaneState[]): void;
  get(projectId: number): LaneInMemory | undefined;
  /** The lane of a project, empty where there was none. */
  of(projectId: number): LaneInMemory;
  all(): Iterable<LaneInMemory>;
}

export interface LaneInMemory {
  readonly projectId: number;
  /** Place of the newest event on the disk. */
  readonly end: number;
  /** The last place that has passed. */
  readonly passed: number;
  /** Length of what waits, roughly. */
  readonly chars: number;
  readonly tail: LogTail;
  /** Events that are on their way to the disk. */
  queued: number;
  isWaiting(): boolean;
  /** Adds the newest event, with the length of its text; answers its place. */
  add(entry: Omit<LoggedEvent, "position">, length: number): number;
  /** Everything up to a place has passed. */
  pass(upTo: number): void;
  /** Is as the file says, whatever was known. */
  reset(state: Omit<LaneState, "projectId">): void;
  /** See `LogLanes.passed`. */
  untilPassed(maxWaitMs: number): Promise<boolean> | undefined;
}

/** States of lanes that keep so many characters of their newest events in memory, all together. */
export function createLogLaneStates(maxChars: number): LogLaneStates {
  const lanes = new Map<number, LaneInMemory>();
  /** Lanes that hold anything. */
  const holding = new Set<LaneInMemory>();
  const share = () => maxChars / Math.max(1, holding.size);

  function hold(lane: LaneInMemory): void {
    if (holding.has(lane)) return;
    holding.add(lane);
    // The shares of the others are smaller now.
    for (const { tail } of holding) tail.trim();
  }

  function create(projectId: number): LaneInMemory {
    let passed = 0;
    let end = 0;
    let chars = 0;
    let waiters: { readonly place: number; readonly resolve: (hasPassed: boolean) => void }[] = [];
    const tail = createLogTail(share);
    function answerWaiters(): void {
      const ready = waiters.filter(({ place }) => place <= passed);
      if (ready.length === 0) return;
      waiters = waiters.filter(({ place }) => place > passed);
      for (const { resolve } of ready) resolve(true);
    }

    const lane: LaneInMemory = {
      projectId,
      tail,
      queued: 0,
      get end() {
        return end;
      },
      get passed() {
        return passed;
      },
      get chars() {
        return chars;
      },
      isWaiting: () => end > passed || lane.queued > 0,
      add(entry, length) {
        hold(lane);
        end++;
        chars += length;
        tail.add({ ...entry, position: end }, length);
        return end;
      },
      pass(upTo) {
        if (upTo <= passed) return;
        chars *= Math.max(0, end - upTo) / (end - passed);
        passed = upTo;
        if (end === passed) holding.delete(lane);
        tail.forget(passed);
        answerWaiters();
      },
      reset(state) {
        if (state.passed === passed && state.end === end) return;
        ({ end, passed, chars } = state);
        tail.forget(Number.MAX_SAFE_INTEGER);
        if (end > passed) hold(lane);
        else holding.delete(lane);
        answerWaiters();
      },
      untilPassed(maxWaitMs) {
        const place = end;
        if (place <= passed) return undefined;
        return new Promise((resolve) => {
          const waiter = {
            place,
            resolve: (hasPassed: boolean) => {
              clearTimeout(timer);
              resolve(hasPassed);
            },
          };
          const timer = setTimeout(() => {
            waiters = waiters.filter((other) => other !== waiter);
            resolve(false);
          }, maxWaitMs);
          waiters.push(waiter);
        });
      },
    };
    return lane;
  }

  function of(projectId: number): LaneInMemory {
    let lane = lanes.get(projectId);
    if (!lane) {
      lane = create(projectId);
      lanes.set(projectId, lane);
    }
    return lane;
  }

  return {
    load(states) {
      for (const { projectId, ...state } of states) of(projectId).reset(state);
    },
    get: (projectId) => lanes.get(projectId),
    of,
    all: () => lanes.values(),
  };
}

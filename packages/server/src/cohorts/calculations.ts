import { hasStoredMembers } from "@hedgerow/core/cohorts/read-cohort-filters";
import type { CohortDefinition } from "@hedgerow/core/flags/flag";
import { QueryTooLong } from "../events/event-store.ts";
import type { CompiledFlags } from "../flags/compiled-flags.ts";
import { referencesOf } from "../flags/definition-references.ts";
import { createSlices, type Slices } from "../platform/slices.ts";
import { CalculationProblem, type CalculationTools, calculateCohort } from "./calculate-cohort.ts";
import type { CohortTask } from "./membership-store.ts";

/** Calculates cohorts when they are due, one after another. */
export interface CohortCalculations {
  /**
   * Call after a cohort, or who is in it, has changed: what is due is calculated at once, and so
   * are cohorts of past behavior that refer to it. A fault is reported; never rejects.
   */
  changed(projectId: number, cohortId: number): Promise<void>;
  /** Ends the calculation under way, which starts again with the next process, and resolves then. */
  close(): Promise<void>;
}

interface CalculationDeps extends Pick<CalculationTools, "store" | "performers" | "backtracking"> {
  readonly compiledFlags: Pick<CompiledFlags, "get" | "refresh">;
  /** Waits, not for long, until events captured so far are stored. */
  readonly caughtUp: (projectId: number) => Promise<void>;
  readonly clock: () => Date;
  readonly reportFault: (error: unknown, context: string) => void;
  /** How often cohorts of past behavior are calculated. */
  readonly everyMinutes: number;
  /** Whether no other process works on the same cohorts: what was under way is then broken off. */
  readonly isAlone: boolean;
  /** How often to look for what is due. */
  readonly pollMs?: number;
  /** Longest calculation. */
  readonly limitMs?: number;
}

const MINUTE_MS = 60_000;
/** A calculation is left out this many times as long as the last one took. */
const REST_FACTOR = 20;
/** Cohorts by properties are only counted, static ones seldom change by themselves. */
const COUNTING_FACTOR = 4;
const STATIC_MINUTES = 24 * 60;
const MAX_RETRY_MINUTES = 60;
/** Longest rest between two pieces of work: half of the time is for others. */
const MAX_PAUSE_MS = 20;

class Stopped extends Error {}

/** Starts to calculate cohorts that are due, those first that were due when the last process ended. */
export function startCohortCalculations(deps: CalculationDeps): CohortCalculations {
  const { store, compiledFlags, clock, reportFault } = deps;
  const { pollMs = 5_000, limitMs = 10 * MINUTE_MS } = deps;
  let isStopped = false;
  let isAwaken = false;
  let wakeUp = () => {};

  function wake(): void {
    isAwaken = true;
    wakeUp();
  }

  function sleep(): Promise<void> {
    if (isAwaken || isStopped) return Promise.resolve();
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, pollMs).unref();
      wakeUp = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  /** A pause for others after each piece of work, as long as that took. */
  function createPause(): () => Promise<void> {
    const startedMs = performance.now();
    let sinceMs = startedMs;
    return async () => {
      if (isStopped) throw new Stopped();
      const nowMs = performance.now();
      if (nowMs - startedMs > limitMs) {
        throw new CalculationProblem(
          `the calculation takes longer than ${limitMs / MINUTE_MS} minutes`,
        );
      }
      await new Promise((resolve) => setTimeout(resolve, Math.min(nowMs - sinceMs, MAX_PAUSE_MS)));
      sinceMs = performance.now();
    };
  }

  async function calculate(task: CohortTask): Promise<void> {
    const { projectId, id } = task;
    const startedMs = performance.now();
    let isStatic = false;
    const after = (minutes: number) => new Date(clock().getTime() + minutes * MINUTE_MS);
    try {
      await store.start(task);
      await deps.caughtUp(projectId);
      const snapshot = await compiledFlags.refresh(projectId);
      const cohort = snapshot.definitions.cohorts.find((one) => one.id === id);
      if (!cohort) throw new CalculationProblem("the cohort is gone");
      isStatic = cohort.isStatic;
      const pause = createPause();
      const tools = { ...deps, now: clock(), pause, slices: slicesWith(pause) };
      const { count, changed } = await calculateCohort(cohort, { projectId, snapshot }, tools);
      const restMinutes = (REST_FACTOR * (performance.now() - startedMs)) / MINUTE_MS;
      const dueAt = after(Math.max(minutesBetween(cohort, deps.everyMinutes), restMinutes));
      const kind = isStatic ? "counted" : "calculated";
      await store.finish(task, { kind, count }, { now: clock(), dueAt });
      if (changed > 0) await requestDependants(projectId, id);
    } catch (error) {
      if (error instanceof Stopped) return;
      const isExpected = error instanceof CalculationProblem || error instanceof QueryTooLong;
      if (!isExpected)
        reportFault(error, `cohort ${id} of project ${projectId} was not calculated`);
      const text = isExpected ? error.message : "The calculation failed. The log tells why.";
      const dueAt = after(Math.min(2 ** task.errorsCalculating, MAX_RETRY_MINUTES));
      const outcome = isStatic
        ? ({ kind: "postponed" } as const)
        : ({ kind: "failed", error: text } as const);
      await store.finish(task, outcome, { now: clock(), dueAt });
    }
  }

  async function requestDependants(projectId: number, cohortId: number): Promise<void> {
    const { definitions } = await compiledFlags.get(projectId);
    const ids = dependantsOf(cohortId, definitions.cohorts);
    await store.request(projectId, ids, clock());
    if (ids.length > 0) wake();
  }

  async function endFillings(): Promise<void> {
    try {
      await store.endFillings(clock());
    } catch (error) {
      // They end by themselves, only later.
      reportFault(error, "cohorts that were being filled could not be found");
    }
  }

  async function run(): Promise<void> {
    if (deps.isAlone) await endFillings();
    while (!isStopped) {
      isAwaken = false;
      try {
        const [task] = await store.due(clock(), 1);
        if (task) await calculate(task);
        else await sleep();
      } catch (error) {
        // The store itself: what is due stays so.
        reportFault(error, "cohorts could not be calculated");
        isAwaken = false;
        await sleep();
      }
    }
  }
  const running = run();

  return {
    async changed(projectId, cohortId) {
      try {
        await requestDependants(projectId, cohortId);
      } catch (error) {
        reportFault(error, `cohorts that refer to cohort ${cohortId} were not asked for`);
      }
      wake();
    },

    async close() {
      isStopped = true;
      wake();
      await running;
    },
  };
}

/** Slices of some milliseconds with a pause after each. */
function slicesWith(pause: () => Promise<void>): Slices {
  const slices = createSlices();
  return {
    isOver: () => slices.isOver(),
    async next() {
      await pause();
      await slices.next();
    },
  };
}

function minutesBetween(cohort: CohortDefinition, everyMinutes: number): number {
  if (cohort.isStatic) return STATIC_MINUTES;
  return hasStoredMembers(cohort) ? everyMinutes : COUNTING_FACTOR * everyMinutes;
}

/** Cohorts with calculated members that refer to a cohort, themselves or through others. */
function dependantsOf(id: number, cohorts: readonly CohortDefinition[]): readonly number[] {
  const parents = new Map<number, CohortDefinition[]>();
  for (const cohort of cohorts) {
    if (cohort.isStatic) continue;
    for (const nested of referencesOf(cohort.filters).cohortIds) {
      const known = parents.get(nested);
      if (known) known.push(cohort);
      else parents.set(nested, [cohort]);
    }
  }
  const reached = new Map<number, CohortDefinition>();
  const open = [id];
  for (let current = open.pop(); current !== undefined; current = open.pop()) {
    for (const parent of parents.get(current) ?? []) {
      if (reached.has(parent.id)) continue;
      reached.set(parent.id, parent);
      open.push(parent.id);
    }
  }
  return [...reached.values()].filter(hasStoredMembers).map((cohort) => cohort.id);
}

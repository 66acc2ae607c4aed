import { setImmediate as nextTurn } from "node:timers/promises";
import type { CapturedEvent, LoggedEvent } from "@hedgerow/core/events/event";
import type { PersonOutcome, PersonStore } from "../persons/person-store.ts";
import { StoreUnavailable } from "../platform/store-unavailable.ts";
import type { DeadLetter, DroppedEvent, EventBatch, EventRow, PersonMerge } from "./event-store.ts";
import { createGroupKeys } from "./group-keys.ts";
import { runSteps, type Step, type StepsOutcome } from "./steps/step.ts";

/** Told what becomes of events on their way to the stores; for counters. */
export interface PreparationObserver {
  dropped(count: number): void;
  setAside(): void;
  /** Something about an event's person or group that its sender should know. */
  warned(warning: string, event: CapturedEvent): void;
}

export interface PreparationDeps {
  readonly persons: Pick<PersonStore, "applyEvents" | "groupTypes">;
  readonly steps: readonly Step[];
  readonly logger: { error(fields: object, message: string): void };
  readonly observer: PreparationObserver;
  /** Longest that all steps of an event may take: they have limits of their own; this is for those that never end. */
  readonly stepLimitMs: number;
}

/** Steps run for so long at most before requests get their turn. */
const TURN_MS = 2;

/** Consecutive entries of the log, not empty. */
export interface LogRun {
  /** Position before the first entry. */
  readonly after: number;
  readonly entries: readonly LoggedEvent[];
}

/** A run after the steps, with its person changes applied: ready to store. */
export interface PreparedRun extends EventBatch {
  readonly after: number;
}

interface KeptEvent extends LoggedEvent {
  readonly changedBy: readonly string[];
}

/** A run after the steps. */
interface StepResults {
  readonly kept: readonly KeptEvent[];
  readonly drops: readonly DroppedEvent[];
  readonly deadLetters: readonly DeadLetter[];
}

/** Takes runs through the steps and the person store. */
export interface RunPreparation {
  /** Prepares the whole run or throws; may be repeated. */
  prepare(run: LogRun): Promise<PreparedRun>;
  /**
   * For a run that may hold an event at fault: prepares all of it, or its beginning. Where the
   * very first event is at fault (it fails before and after the store is seen to work), it becomes a
   * dead letter and its row goes on without its person changes. Throws when the store takes nothing or says
   * itself that it is out of order.
   */
  prepareAroundFault(run: LogRun): Promise<PreparedRun>;
}

/** A {@link RunPreparation} that tells its observer and log once for each outcome that lasts. */
export function createRunPreparation({
  persons,
  steps,
  logger,
  observer,
  stepLimitMs,
}: PreparationDeps): RunPreparation {
  const groupKeysOf = createGroupKeys((projectId) => persons.groupTypes(projectId));

  async function runThroughSteps(entries: readonly LoggedEvent[]): Promise<StepResults> {
    const kept: KeptEvent[] = [];
    const deadLetters: DeadLetter[] = [];
    const drops: DroppedEvent[] = [];
    let turnBeganAt = performance.now();
    // All at once, though in order: a slow event costs the run its own time, whatever their number.
    const running: (StepsOutcome | Promise<StepsOutcome>)[] = [];
    for (const { event, fault } of entries) {
      if (performance.now() - turnBeganAt > TURN_MS) {
        await nextTurn();
        turnBeganAt = performance.now();
      }
      const outcome: StepsOutcome | Promise<StepsOutcome> =
        fault === undefined ? runSteps(steps, event) : { kind: "dead-letter", reason: fault };
      running.push(outcome instanceof Promise ? withinLimit(outcome, stepLimitMs) : outcome);
    }
    for (const [index, entry] of entries.entries()) {
      const { position } = entry;
      const begun = running[index];
      const outcome = begun instanceof Promise ? await begun : begun;
      switch (outcome?.kind) {
        case "keep":
          kept.push({ position, event: outcome.event, changedBy: outcome.changedBy });
          break;
        case "drop": {
          const { projectId, uuid } = entry.event;
          drops.push({ position, projectId, uuid, by: outcome.by, reason: outcome.reason });
          break;
        }
        case "dead-letter":
          deadLetters.push({ position, event: entry.event, reason: outcome.reason });
      }
    }
    return { kept, drops, deadLetters };
  }

  async function complete(
    { after, entries }: LogRun,
    { kept, drops, deadLetters }: StepResults,
    outcomes: readonly PersonOutcome[],
  ): Promise<PreparedRun> {
    const groupKeys = await groupKeysOf(kept.map(({ event }) => event));
    const rows: EventRow[] = [];
    const merges: PersonMerge[] = [];
    for (const [index, { position, event, changedBy }] of kept.entries()) {
      const outcome = outcomes[index];
      if (outcome?.position !== position) throw new Error("a person outcome is missing");
      const { personId, merged, warnings } = outcome;
      rows.push({ position, event, personId, groupKeys: groupKeys[index] ?? [], changedBy });
      if (merged) merges.push({ position, projectId: event.projectId, ...merged });
      for (const warning of warnings) observer.warned(warning, event);
    }
    // Told here, where nothing can fail any more: what fails is tried again.
    observer.dropped(drops.length);
    for (const { position, event, reason } of deadLetters) {
      const { uuid, projectId } = event;
      logger.error({ position, uuid, projectId, reason }, "an event was set aside");
      observer.setAside();
    }
    return { after, rows, merges, drops, deadLetters, end: entries.at(-1)?.position ?? after };
  }

  async function prepare(run: LogRun): Promise<PreparedRun> {
    const results = await runThroughSteps(run.entries);
    return complete(run, results, await persons.applyEvents(results.kept));
  }

  async function prepareWithoutPersonChanges(run: LogRun): Promise<PreparedRun> {
    const results = await runThroughSteps(run.entries);
    const harmless = results.kept.map(({ position, event }) => ({
      position,
      event: withoutPersonChanges(event),
    }));
    // At a position that is passed this changes nothing: it tells whether the store works.
    await persons.applyEvents(harmless.map(({ event }) => ({ position: run.after, event })));
    let fault: unknown;
    try {
      return await prepare(run);
    } catch (error) {
      if (error instanceof StoreUnavailable) throw error;
      fault = error;
    }
    const outcomes = await persons.applyEvents(harmless);
    const reason = `its person changes failed: ${fault instanceof Error ? fault.message : fault}`;
    const letters = results.kept.map(({ position, event }) => ({ position, event, reason }));
    const deadLetters = [...results.deadLetters, ...letters];
    return complete(run, { ...results, deadLetters }, outcomes);
  }

  async function prepareAroundFault(run: LogRun): Promise<PreparedRun> {
    try {
      return await prepare(run);
    } catch (error) {
      if (error instanceof StoreUnavailable) throw error;
      const { after, entries } = run;
      if (entries.length === 1) return prepareWithoutPersonChanges(run);
      return prepareAroundFault({
        after,
        entries: entries.slice(0, Math.ceil(entries.length / 2)),
      });
    }
  }

  return { prepare, prepareAroundFault };
}

async function withinLimit(running: Promise<StepsOutcome>, limitMs: number): Promise<StepsOutcome> {
  let timer: NodeJS.Timeout | undefined;
  const timeUp = new Promise<StepsOutcome>((resolve) => {
    const reason = `its steps did not end within ${limitMs} ms`;
    timer = setTimeout(() => resolve({ kind: "dead-letter", reason }), limitMs);
  });
  try {
    return await Promise.race([running, timeUp]);
  } finally {
    clearTimeout(timer);
  }
}

function withoutPersonChanges(event: CapturedEvent): CapturedEvent {
  return { ...event, event: "$set_aside", properties: { $process_person_profile: false } };
}

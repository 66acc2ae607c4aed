import type { CapturedEvent, LoggedEvent } from "@hedgerow/core/events/event";
import type { PersonOutcome, PersonStore } from "../persons/person-store.ts";
import { StoreUnavailable } from "../platform/store-unavailable.ts";
import type { DeadLetter, DroppedEvent, EventBatch, EventRow, PersonMerge } from "./event-store.ts";
import { createGroupKeys } from "./group-keys.ts";
import { runSteps, type Step, type StepsOutcome, type StepsRun } from "./steps/step.ts";

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
  readonly stepsRun: StepsRun;
  /** Takes what steps capture; resolves once that would survive a crash. */
  readonly capture: (events: readonly CapturedEvent[]) => Promise<void>;
}

/** Consecutive entries of the log, not empty. */
export interface LogRun {
  /** Position before the first entry. */
  readonly after: number;
  readonly entries: readonly LoggedEvent[];
}

/** A run after the steps, with its person changes applied: ready to store. */
export interface PreparedRun extends EventBatch {
  readonly after: number;
  readonly rows: readonly EventRow[];
}

interface KeptEntry extends LoggedEvent {
  readonly changedBy: readonly string[];
}

/** A run after the steps. */
interface StepResults {
  readonly kept: readonly KeptEntry[];
  readonly drops: readonly DroppedEvent[];
  /** What the uuids tell that steps replaced by others. */
  readonly renames: readonly DroppedEvent[];
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
export function createRunPreparation(deps: PreparationDeps): RunPreparation {
  const { persons, steps, logger, observer } = deps;
  const groupKeysOf = createGroupKeys((projectId) => persons.groupTypes(projectId));
  /** By position, of entries that have passed the steps but not what follows: they do not pass again. */
  const passed = new Map<number, StepsOutcome>();

  /** Steps run once for an entry, however often what follows is tried. */
  async function runThroughSteps(entries: readonly LoggedEvent[]): Promise<StepResults> {
    const fresh = entries.filter(({ position }) => !passed.has(position));
    const outcomes = await runSteps(steps, fresh, deps.stepsRun);
    const captured = outcomes.flatMap((one) => (one.kind === "dead-letter" ? [] : one.captured));
    // Before anything becomes of the events: the run would not be repeated after a crash.
    if (captured.length > 0 && !deps.stepsRun.isRepeated) await deps.capture(captured);
    for (const [index, { position }] of fresh.entries()) {
      passed.set(position, outcomes[index] as StepsOutcome);
    }
    const kept: KeptEntry[] = [];
    const deadLetters: DeadLetter[] = [];
    const drops: DroppedEvent[] = [];
    const renames: DroppedEvent[] = [];
    for (const { position, event } of entries) {
      const outcome = passed.get(position);
      switch (outcome?.kind) {
        case "keep":
          kept.push({ ...outcome.entry, changedBy: outcome.changedBy });
          if (outcome.entry.event.uuid !== event.uuid) {
            const { projectId, uuid } = event;
            const by = outcome.changedBy.join(", ");
            const reason = `It goes on with the uuid ${outcome.entry.event.uuid}.`;
            renames.push({ position, projectId, uuid, by, reason });
          }
          break;
        case "drop": {
          const { by, reason } = outcome;
          drops.push({ position, projectId: event.projectId, uuid: event.uuid, by, reason });
          break;
        }
        case "dead-letter":
          deadLetters.push({ position, event, reason: outcome.reason });
      }
    }
    return { kept, drops, renames, deadLetters };
  }

  async function complete(
    { after, entries }: LogRun,
    { kept, drops, renames, deadLetters }: StepResults,
    outcomes: readonly PersonOutcome[],
  ): Promise<PreparedRun> {
    const groupKeys = await groupKeysOf(kept.map(({ event }) => event));
    const rows: EventRow[] = [];
    const merges: PersonMerge[] = [];
    for (const [index, { position, event, changedBy, propertiesText }] of kept.entries()) {
      const outcome = outcomes[index];
      if (outcome?.position !== position) throw new Error("a person outcome is missing");
      const { personId, merged, warnings } = outcome;
      rows.push({
        ...{ position, event, personId, groupKeys: groupKeys[index] ?? [], changedBy },
        ...(propertiesText !== undefined && { propertiesText }),
      });
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
    for (const { position } of entries) passed.delete(position);
    const told = [...drops, ...renames];
    const end = entries.at(-1)?.position ?? after;
    return { after, rows, merges, drops: told, deadLetters, end };
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

function withoutPersonChanges(event: CapturedEvent): CapturedEvent {
  return { ...event, event: "$set_aside", properties: { $process_person_profile: false } };
}

import { wholeEntry } from "@hedgerow/core/events/added-properties";
import type { CapturedEvent, LoggedEvent } from "@hedgerow/core/events/event";
import type { PersonOutcome, PersonStore } from "../persons/person-store.ts";
import { StoreUnavailable } from "../platform/store-unavailable.ts";
import type { DeadLetter, DroppedEvent, EventBatch, EventRow, PersonMerge } from "./event-store.ts";
import { createGroupKeys } from "./group-keys.ts";
import { runSteps, type Step } from "./steps/step.ts";

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
  /** Longest that a step may take for an event; batches have longer. */
  readonly stepLimitMs: number;
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
  /** Whether it has letters that preparing the same entries again may not give: the log has those of lanes. */
  readonly hasOwnLetters: boolean;
}

interface KeptEntry extends LoggedEvent {
  readonly changedBy: readonly string[];
}

/** A run after the steps: its own, and those that some events took before, in their lane. */
interface StepResults {
  readonly kept: readonly KeptEntry[];
  readonly drops: readonly DroppedEvent[];
  /** What the uuids tell that were replaced by others. */
  readonly renames: readonly DroppedEvent[];
  readonly deadLetters: readonly DeadLetter[];
  readonly hasOwnLetters: boolean;
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
  const { persons, steps, stepLimitMs, logger, observer } = deps;
  const groupKeysOf = createGroupKeys((projectId) => persons.groupTypes(projectId));

  async function runThroughSteps(entries: readonly LoggedEvent[]): Promise<StepResults> {
    const fresh = entries.filter(({ passage }) => !passage);
    const outcomes = await runSteps(steps, fresh, { limitMs: stepLimitMs, whenDurable() {} });
    let next = 0;
    const kept: KeptEntry[] = [];
    const deadLetters: DeadLetter[] = [];
    let hasOwnLetters = false;
    const drops: DroppedEvent[] = [];
    const renames: DroppedEvent[] = [];
    for (const entry of entries) {
      const { position, event } = entry;
      const passage = entry.passage ?? outcomes[next++];
      switch (passage?.kind) {
        case "keep":
          kept.push(keptEntry(passage.entry, passage.changedBy));
          break;
        case "kept": {
          const { changedBy, renamedFrom, renamedBy = changedBy } = passage;
          kept.push(keptEntry(entry, changedBy));
          if (renamedFrom !== undefined) {
            const reason = `It goes on with the uuid ${event.uuid}.`;
            const by = renamedBy.join(", ");
            renames.push({ position, projectId: event.projectId, uuid: renamedFrom, by, reason });
          }
          break;
        }
        case "drop":
        case "dropped": {
          const { by, reason } = passage;
          drops.push({ position, projectId: event.projectId, uuid: event.uuid, by, reason });
          break;
        }
        case "dead-letter":
          hasOwnLetters = true;
          deadLetters.push({ position, event, reason: passage.reason });
          break;
        case "set-aside":
          deadLetters.push({ position, event, reason: passage.reason });
      }
    }
    return { kept, drops, renames, deadLetters, hasOwnLetters };
  }

  async function complete(
    { after, entries }: LogRun,
    { kept, drops, renames, deadLetters, hasOwnLetters }: StepResults,
    outcomes: readonly PersonOutcome[],
  ): Promise<PreparedRun> {
    const groupKeys = await groupKeysOf(kept.map(({ event }) => event));
    const rows: EventRow[] = [];
    const merges: PersonMerge[] = [];
    // Here and on the way to here objects are made as they stay, and loops count: each is for every event.
    for (let index = 0; index < kept.length; index++) {
      const { position, event, changedBy, propertiesText, added } = kept[index] as KeptEntry;
      const outcome = outcomes[index];
      if (outcome?.position !== position) throw new Error("a person outcome is missing");
      const { personId, merged, warnings } = outcome;
      const groups = groupKeys[index] ?? NO_GROUPS;
      rows.push({ position, event, personId, groupKeys: groups, changedBy, propertiesText, added });
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
    const told = [...drops, ...renames];
    const end = entries.at(-1)?.position ?? after;
    return { after, rows, merges, drops: told, deadLetters, hasOwnLetters, end };
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
    const letters = results.kept.map((kept) => {
      const { position, event } = wholeEntry(kept);
      return { position, event, reason };
    });
    const deadLetters = [...results.deadLetters, ...letters];
    const hasOwnLetters = results.hasOwnLetters || letters.length > 0;
    return complete(run, { ...results, deadLetters, hasOwnLetters }, outcomes);
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

const NO_GROUPS: EventRow["groupKeys"] = Object.freeze([]);

function keptEntry(
  { position, event, propertiesText, added }: LoggedEvent,
  changedBy: readonly string[],
): KeptEntry {
  return { position, event, propertiesText, added, changedBy };
}

function withoutPersonChanges(event: CapturedEvent): CapturedEvent {
  return { ...event, event: "$set_aside", properties: { $process_person_profile: false } };
}

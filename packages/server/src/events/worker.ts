import { setTimeout as delay } from "node:timers/promises";
import type { LoggedEvent } from "@hedgerow/core/events/event";
import type { GeoIp } from "../persons/geo-ip.ts";
import type { PersonStore } from "../persons/person-store.ts";
import type { EventLog } from "./event-log.ts";
import type { DeadLetter, EventBatch, EventRow, EventStore, PersonMerge } from "./event-store.ts";
import { createGroupKeys } from "./group-keys.ts";
import type { PendingPersons } from "./pending-persons.ts";
import { addGeoProperties } from "./steps/add-geo-properties.ts";
import { runSteps, type Step } from "./steps/step.ts";

/** What the worker needs of a logger. */
export interface WorkerLogger {
  error(fields: object, message: string): void;
  warn(fields: object, message: string): void;
}

export interface WorkerDeps {
  readonly log: EventLog;
  readonly persons: Pick<PersonStore, "applyEvents" | "groupTypes">;
  readonly events: EventStore;
  readonly geoIp: GeoIp;
  readonly pendingPersons: PendingPersons;
  readonly logger: WorkerLogger;
  /** Steps after the built-in ones, in order. */
  readonly steps?: readonly Step[];
  readonly timing?: Partial<WorkerTiming>;
}

export interface WorkerTiming {
  /** The store is given what has gathered at most this often, so that batches grow with the load. */
  readonly storeEveryMs: number;
  /** First pause after a failure; doubles up to `longestRetryMs`. */
  readonly retryMs: number;
  readonly longestRetryMs: number;
  /** Longest that {@link startWorker} waits for person changes left over from before. */
  readonly catchUpMs: number;
  /** Longest that closing waits for what is in the log. */
  readonly drainMs: number;
}

const DEFAULT_TIMING: WorkerTiming = {
  storeEveryMs: 100,
  retryMs: 100,
  longestRetryMs: 5000,
  catchUpMs: 500,
  drainMs: 3000,
};

/** The process that brings events from the log to the stores. */
export interface Worker {
  /** Positions up to which person changes are applied and events are stored. */
  progress(): { readonly persons: number; readonly store: number };
  /** Stores what the log holds, for a bounded time, and stops. What is left waits for the next start. */
  close(): Promise<void>;
}

/** Most events read, and applied in one transaction. */
const RUN_LENGTH = 1000;
/** Most rows that wait in memory for a slow store; what does not fit is read again. */
const MAX_WAITING_ROWS = 20_000;
/** Failures in a row before an event is suspected rather than the store. */
const PATIENCE = 3;

/** A run of log entries after the person stage. */
interface PreparedRun extends EventBatch {
  /** Position before the first entry. */
  readonly after: number;
}

/**
 * Starts the worker. Two stages run side by side: persons (within milliseconds, whatever the event
 * store does) and storage (in batches). A store that is down is asked again until it is back; an
 * event that fails while others succeed becomes a dead letter and holds up nobody.
 */
export async function startWorker(deps: WorkerDeps): Promise<Worker> {
  const { log, events, pendingPersons, logger } = deps;
  const timing = { ...DEFAULT_TIMING, ...deps.timing };
  const stop = new AbortController();
  const prepare = createPreparation(deps);

  const startPosition = await events.position();
  let personsPosition = startPosition;
  let storePosition = startPosition;
  let waitingRuns: PreparedRun[] = [];
  let waitingRows = 0;
  const wakeOnProgress = new Set<() => void>();

  function madeProgress(): void {
    for (const wake of wakeOnProgress) wake();
    wakeOnProgress.clear();
  }

  function progress(): Promise<void> {
    return new Promise((resolve) => {
      wakeOnProgress.add(resolve);
      if (stop.signal.aborted) resolve();
    });
  }

  const pause = (ms: number) => delay(ms, undefined, { signal: stop.signal }).catch(() => {});

  /** Calls `attempt` until it says it is done, with growing pauses after failures. */
  async function persevere(
    what: string,
    attempt: (failuresBefore: number) => Promise<void>,
  ): Promise<void> {
    let failures = 0;
    while (!stop.signal.aborted) {
      try {
        await attempt(failures);
        failures = 0;
      } catch (error) {
        failures++;
        logger.error({ err: error, failures }, `${what} failed and is tried again`);
        await pause(Math.min(timing.retryMs * 2 ** (failures - 1), timing.longestRetryMs));
      }
    }
  }

  const personStage = persevere("applying person changes", async (failures) => {
    const { entries } = await log.read(personsPosition, RUN_LENGTH, stop.signal);
    if (entries.length === 0) return;
    const run = await prepare(personsPosition, entries, failures);
    personsPosition = run.end;
    pendingPersons.applied(run.end);
    if (waitingRows < MAX_WAITING_ROWS && run.end > storePosition) {
      waitingRuns.push(run);
      waitingRows += run.rows.length;
    }
    madeProgress();
  });

  /** The next batch for the store: what has gathered, or what is read again where memory ran out. */
  async function nextBatch(failures: number): Promise<EventBatch | undefined> {
    waitingRuns = waitingRuns.filter(({ end }) => end > storePosition);
    const [first] = waitingRuns;
    if (first && first.after <= storePosition) {
      const gathered = [first];
      for (const run of waitingRuns.slice(1)) {
        if (run.after !== gathered.at(-1)?.end) break;
        gathered.push(run);
      }
      return joinRuns(gathered);
    }
    if (personsPosition <= storePosition) return undefined;
    const { entries } = await log.read(storePosition, RUN_LENGTH, stop.signal);
    return entries.length === 0 ? undefined : prepare(storePosition, entries, failures);
  }

  const storeStage = persevere("storing events", async (failures) => {
    const batch = await nextBatch(failures);
    if (!batch) {
      await progress();
      return;
    }
    const startedAt = performance.now();
    if (failures < PATIENCE) await events.insert(batch);
    else await insertAroundFaults(events, batch, logger);
    storePosition = batch.end;
    waitingRuns = waitingRuns.filter(({ end }) => end > storePosition);
    waitingRows = waitingRuns.reduce((sum, { rows }) => sum + rows.length, 0);
    await log.release(Math.min(storePosition, personsPosition));
    madeProgress();
    await pause(timing.storeEveryMs - (performance.now() - startedAt));
  });

  async function within(ms: number, isDone: () => Promise<boolean> | boolean): Promise<void> {
    const deadline = performance.now() + ms;
    while (!(await isDone()) && performance.now() < deadline && !stop.signal.aborted) {
      const timeUp = delay(Math.max(0, deadline - performance.now()), undefined, { ref: false });
      await Promise.race([progress(), timeUp]);
    }
  }

  const leftOver = await log.end();
  pendingPersons.applied(startPosition);
  pendingPersons.catchUpTo(leftOver);
  await within(timing.catchUpMs, () => personsPosition >= leftOver);

  return {
    progress: () => ({ persons: personsPosition, store: storePosition }),
    async close() {
      await within(timing.drainMs, async () => storePosition >= (await log.end()));
      stop.abort();
      madeProgress();
      await Promise.all([personStage, storeStage]);
    },
  };
}

/**
 * Takes entries through the steps and the person store. Answers at least one entry's progress or
 * throws; a run that fails repeatedly is cut down to the entry at fault, and that one is set aside
 * once others are seen to succeed.
 */
function createPreparation({ persons, geoIp, logger, steps = [] }: WorkerDeps) {
  const allSteps = [addGeoProperties(geoIp), ...steps];
  const groupKeysOf = createGroupKeys((projectId) => persons.groupTypes(projectId));

  async function prepare(after: number, entries: readonly LoggedEvent[]): Promise<PreparedRun> {
    const kept: LoggedEvent[] = [];
    const deadLetters: DeadLetter[] = [];
    for (const { position, event } of entries) {
      const outcome = await runSteps(allSteps, event);
      if (outcome.kind === "keep") kept.push({ position, event: outcome.event });
      if (outcome.kind === "dead-letter") {
        deadLetters.push({ position, event, reason: outcome.reason });
        logger.error({ position, uuid: event.uuid, reason: outcome.reason }, "event set aside");
      }
    }
    const outcomes = await persons.applyEvents(kept);
    const groupKeys = await groupKeysOf(kept.map(({ event }) => event));
    const rows: EventRow[] = [];
    const merges: PersonMerge[] = [];
    for (const [index, { position, event }] of kept.entries()) {
      const outcome = outcomes[index];
      if (outcome?.position !== position) throw new Error("a person outcome is missing");
      const { personId } = outcome;
      rows.push({ position, event, personId, groupKeys: groupKeys[index] ?? [] });
      if (outcome.merged) merges.push({ position, projectId: event.projectId, ...outcome.merged });
    }
    return { after, rows, merges, deadLetters, end: entries.at(-1)?.position ?? after };
  }

  /** Progress before the entry at fault, or around it when it is the first. */
  async function prepareAroundFault(
    after: number,
    entries: readonly LoggedEvent[],
  ): Promise<PreparedRun> {
    const half = Math.ceil(entries.length / 2);
    if (entries.length > 2) {
      try {
        return await prepare(after, entries.slice(0, half));
      } catch {
        return prepareAroundFault(after, entries.slice(0, half));
      }
    }
    const [suspect, other] = entries;
    if (!suspect || !other) throw new Error("no other event tells whether the store works");
    try {
      return await prepare(after, [suspect]);
    } catch (error) {
      // The other one succeeds: so it is not the store, it is the event.
      const run = await prepare(suspect.position, [other]);
      const { position, event } = suspect;
      const reason = `its person changes failed: ${error instanceof Error ? error.message : error}`;
      logger.error({ position, uuid: event.uuid, reason }, "event set aside");
      return { ...run, after, deadLetters: [{ position, event, reason }, ...run.deadLetters] };
    }
  }

  return (after: number, entries: readonly LoggedEvent[], failures: number) =>
    failures < PATIENCE || entries.length < 2
      ? prepare(after, entries)
      : prepareAroundFault(after, entries);
}

/** Inserts a batch of which some row fails again and again: cut in halves down to the row at fault. */
async function insertAroundFaults(
  events: EventStore,
  batch: EventBatch,
  logger: WorkerLogger,
): Promise<void> {
  try {
    await events.insert(batch);
    return;
  } catch (error) {
    const [row] = batch.rows;
    if (!row) throw error;
    if (batch.rows.length > 1) {
      const [before, rest] = splitBatch(batch);
      await insertAroundFaults(events, before, logger);
      await insertAroundFaults(events, rest, logger);
      return;
    }
    const reason = `it could not be stored: ${error instanceof Error ? error.message : error}`;
    const letter = { position: row.position, event: row.event, reason };
    // Succeeds only where the store works: so it is not the store, it is the event.
    await events.insert({ ...batch, rows: [], deadLetters: [...batch.deadLetters, letter] });
    logger.error({ position: row.position, uuid: row.event.uuid, reason }, "event set aside");
  }
}

function splitBatch(batch: EventBatch): readonly [EventBatch, EventBatch] {
  const middle = batch.rows[Math.floor(batch.rows.length / 2) - 1]?.position ?? 0;
  const isBefore = ({ position }: { position: number }) => position <= middle;
  const isAfter = ({ position }: { position: number }) => position > middle;
  const part = (belongs: typeof isBefore, end: number): EventBatch => ({
    rows: batch.rows.filter(belongs),
    merges: batch.merges.filter(belongs),
    deadLetters: batch.deadLetters.filter(belongs),
    end,
  });
  return [part(isBefore, middle), part(isAfter, batch.end)];
}

function joinRuns(runs: readonly PreparedRun[]): EventBatch {
  return {
    rows: runs.flatMap(({ rows }) => rows),
    merges: runs.flatMap(({ merges }) => merges),
    deadLetters: runs.flatMap(({ deadLetters }) => deadLetters),
    end: runs.at(-1)?.end ?? 0,
  };
}

import { setTimeout as delay } from "node:timers/promises";
import { wholeEntry } from "@hedgerow/core/events/added-properties";
import type { GeoIp } from "../persons/geo-ip.ts";
import type { PersonStore } from "../persons/person-store.ts";
import { atMost } from "../platform/at-most.ts";
import type { EventLog } from "./event-log.ts";
import type { EventBatch, EventRow, EventRows, EventStore } from "./event-store.ts";
import type { PendingPersons } from "./pending-persons.ts";
import { createRunPreparation, type PreparationObserver, type PreparedRun } from "./prepare-run.ts";
import { addGeoProperties } from "./steps/add-geo-properties.ts";
import { insertAroundFaults } from "./store-batch.ts";
import { createWaitingRuns, type WaitingRun } from "./waiting-runs.ts";

export interface WorkerDeps {
  readonly log: Pick<EventLog, "read" | "end" | "release">;
  readonly persons: Pick<PersonStore, "position" | "secure" | "applyEvents" | "groupTypes">;
  readonly events: Pick<EventStore, "position" | "pack" | "insert">;
  readonly geoIp: GeoIp;
  readonly pendingPersons: Pick<PendingPersons, "applied" | "catchUpTo">;
  readonly logger: { error(fields: object, message: string): void };
  readonly observer: PreparationObserver;
  /**
   * Told of rows before they wait for the store, which may never get them. They are told again after a
   * crash, and when they are read once more because there was no room for them to wait. What it throws is logged and changes nothing.
   */
  readonly onPrepared?: (rows: readonly EventRow[]) => void;
  /**
   * Told of rows once they are stored; they are of use until it returns. May be told of the same rows
   * again after a crash. What it throws is logged and changes nothing.
   */
  readonly onStored?: (rows: EventRows) => void;
  readonly timing?: Partial<WorkerTiming>;
}

export interface WorkerTiming {
  /**
   * The store is given what has gathered at most this often, and half as often while there is much of
   * it, so that batches grow with the load: each costs as much as some hundred events, however few it has.
   */
  readonly storeEveryMs: number;
  /** What is stored is secured, and released from the log, at most this often. */
  readonly releaseEveryMs: number;
  /** Longest that a step may take for an event before it is set aside; batches have longer. */
  readonly stepLimitMs: number;
  /** First pause after a failure; doubles up to `longestRetryMs`. */
  readonly retryMs: number;
  readonly longestRetryMs: number;
  /** Longest that {@link startWorker} waits for person changes left over from before. */
  readonly catchUpMs: number;
  /** Longest that closing waits for what is in the log, and then for calls under way. */
  readonly drainMs: number;
}

const DEFAULT_TIMING: WorkerTiming = {
  storeEveryMs: 100,
  releaseEveryMs: 1000,
  stepLimitMs: 10_000,
  retryMs: 100,
  longestRetryMs: 5000,
  catchUpMs: 500,
  drainMs: 3000,
};

/** What brings events from the log to the stores. */
export interface Worker {
  /** Positions up to which person changes are applied and events are stored. */
  progress(): { readonly persons: number; readonly store: number };
  /** Stores what the log holds, for a bounded time, and stops. What is left waits for the next start. */
  close(): Promise<void>;
}

/** Most events applied in one transaction; each commit waits for the disk once. */
const RUN_LENGTH = 1000;
/** After a batch of so many events the store is left alone for longer. */
const MANY = 200;
/** Further behind than this, it is given its next batch without waiting for more. */
const BEHIND = 4000;
/** Most events read again at a time: the store is faster with larger batches. */
const REREAD_LENGTH = 2000;
/** Failures in a row before an event is suspected rather than the store. */
const PATIENCE = 3;

/** For what was told before. */
const SILENCE = { error() {}, dropped() {}, setAside() {}, warned() {} };

/**
 * Starts the worker. Two stages run side by side, each with its own position in the log: person
 * changes (within milliseconds, whatever the event store does) and storage (in batches that grow
 * with the load). A store that is down is asked again until it is back; an event that fails while
 * others succeed becomes a dead letter and holds up nobody.
 */
export async function startWorker(deps: WorkerDeps): Promise<Worker> {
  const { log, persons, events, pendingPersons, logger, observer } = deps;
  const timing = { ...DEFAULT_TIMING, ...deps.timing };
  const stop = new AbortController();
  const steps = [addGeoProperties(deps.geoIp)];
  const { stepLimitMs } = timing;
  const first = createRunPreparation({ persons, steps, stepLimitMs, logger, observer });
  const silent = { logger: SILENCE, observer: SILENCE };
  const again = createRunPreparation({ persons, steps, stepLimitMs, ...silent });

  /** Most events of the next run. */
  let runLength = RUN_LENGTH;
  let personsPosition = await persons.position();
  let storePosition = await events.position();
  // What was passed before this start may leave the log, also when no event comes any more.
  await release();
  const waiting = createWaitingRuns();
  const wakes = new Set<() => void>();
  let releaseTimer: NodeJS.Timeout | undefined;

  function changed(): void {
    for (const wake of wakes) wake();
    wakes.clear();
  }

  /** Resolves once the claim holds, or the worker stops. */
  async function until(claim: () => boolean): Promise<void> {
    while (!claim() && !stop.signal.aborted) {
      await new Promise<void>((resolve) => {
        wakes.add(resolve);
      });
    }
  }

  const pause = (ms: number) =>
    ms > 0 ? delay(ms, undefined, { signal: stop.signal }).catch(() => {}) : undefined;

  /** Calls `attempt` until the worker stops, with growing pauses after failures. */
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

  async function applyNext(failures: number): Promise<void> {
    const after = personsPosition;
    const { entries, chars, end } = await log.read(after, runLength, stop.signal);
    if (entries.length === 0) {
      if (end > after) logger.error({ after, end }, "the log has lost events");
      passPersons(end);
      return;
    }
    const run = { after, entries };
    const isSuspecting = failures >= PATIENCE || runLength < RUN_LENGTH;
    const prepared = await (isSuspecting ? first.prepareAroundFault(run) : first.prepare(run));
    // Where one event is at fault others may be as well: they are looked for at once, in short runs
    // that grow again with what is found in order.
    const isWhole = prepared.end === end;
    // Nobody waits for what only storing takes.
    pendingPersons.applied(prepared.end);
    runLength = isWhole
      ? Math.min(RUN_LENGTH, 2 * runLength)
      : entries.findIndex(({ position }) => position > prepared.end);
    if (prepared.end > storePosition) waiting.add(await packed(prepared), chars);
    passPersons(prepared.end);
  }

  /** As it is to wait: in little memory, and nothing that the collector of garbage looks through. */
  async function packed(run: PreparedRun): Promise<WaitingRun> {
    tell(deps.onPrepared, run.rows, "somebody could not be told of events");
    return { ...run, rows: await events.pack(run.rows) };
  }

  function passPersons(end: number): void {
    personsPosition = end;
    pendingPersons.applied(end);
    changed();
  }

  async function storeNext(failures: number): Promise<void> {
    await until(() => personsPosition > storePosition);
    if (stop.signal.aborted) return;
    const startedAt = performance.now();
    const after = storePosition;
    const batch = waiting.take(storePosition) ?? (await prepareAgain());
    if (!batch) return;
    const stored = await insert(batch, failures);
    storePosition = batch.end;
    tell(deps.onStored, stored, "somebody could not be told of stored events");
    waiting.forget(storePosition);
    releaseSoon();
    changed();
    const isBehind = personsPosition - storePosition >= BEHIND;
    const everyMs = timing.storeEveryMs * (storePosition - after < MANY ? 1 : 2);
    if (!isBehind) await pause(everyMs - (performance.now() - startedAt));
  }

  function releaseSoon(): void {
    releaseTimer ??= setTimeout(() => {
      releaseTimer = undefined;
      void release();
    }, timing.releaseEveryMs).unref();
  }

  /** Lets the log forget what both stages keep, whatever happens to the machine. */
  async function release(): Promise<void> {
    const stored = storePosition;
    try {
      await log.release(Math.min(stored, await persons.secure()));
    } catch (error) {
      logger.error({ err: error }, "the log could not be shortened");
    }
  }

  async function insert(batch: EventBatch, failures: number): Promise<EventRows> {
    if (failures >= PATIENCE) {
      return insertAroundFaults({ events, logger, observer }, storePosition, batch);
    }
    await events.insert(batch);
    return batch.rows;
  }

  function tell<Rows extends EventRows>(
    listener: ((rows: Rows) => void) | undefined,
    rows: Rows,
    fault: string,
  ): void {
    try {
      if (rows.length > 0) listener?.(rows);
    } catch (error) {
      logger.error({ err: error }, fault);
    }
  }

  /** What the person stage has passed and memory has not kept: read once more, changing nobody. */
  async function prepareAgain(): Promise<EventBatch | undefined> {
    const after = storePosition;
    const upTo = Math.min(personsPosition, waiting.firstAfter() ?? Number.POSITIVE_INFINITY);
    const { entries } = await log.read(after, REREAD_LENGTH, stop.signal);
    // Interrupted reads are empty too, and say nothing.
    if (stop.signal.aborted) return undefined;
    const passed = entries.filter(({ position }) => position <= upTo);
    // The log may have lost what it is asked for; what was passed counts as done then.
    if (passed.length === 0) return { rows: [], merges: [], drops: [], deadLetters: [], end: upTo };
    const prepared = await again.prepare({ after, entries: passed });
    tell(deps.onPrepared, prepared.rows, "somebody could not be told of events");
    // Whoever is told of rows that were not packed reads their events alone.
    return { ...prepared, rows: prepared.rows.map(wholeEntry) };
  }

  const leftOver = await log.end();
  pendingPersons.applied(personsPosition);
  pendingPersons.catchUpTo(leftOver);
  const stages = Promise.all([
    persevere("applying person changes", applyNext),
    persevere("storing events", storeNext),
  ]);
  await atMost(
    timing.catchUpMs,
    until(() => personsPosition >= leftOver),
  );

  return {
    progress: () => ({ persons: personsPosition, store: storePosition }),
    async close() {
      const end = await log.end();
      await atMost(
        timing.drainMs,
        until(() => Math.min(personsPosition, storePosition) >= end),
      );
      stop.abort();
      changed();
      await atMost(timing.drainMs, stages);
      clearTimeout(releaseTimer);
    },
  };
}

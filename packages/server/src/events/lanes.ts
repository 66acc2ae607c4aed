import { setTimeout as delay } from "node:timers/promises";
import type { CapturedEvent, LoggedEvent, Passage } from "@hedgerow/core/events/event";
import type { GeoIp } from "../persons/geo-ip.ts";
import { atMost } from "../platform/at-most.ts";
import { withResolvers } from "../platform/with-resolvers.ts";
import type { EventLog, LogLanes, PassedEvent } from "./event-log.ts";
import type { PendingLanes } from "./pending-lanes.ts";
import { addGeoProperties } from "./steps/add-geo-properties.ts";
import { runSteps, type Step, type StepsOrder, type StepsOutcome } from "./steps/step.ts";

export interface LanesDeps {
  readonly log: Pick<EventLog, "end" | "lanes">;
  readonly geoIp: GeoIp;
  /** Steps after the built-in ones, in order. */
  readonly steps: readonly Step[];
  readonly pendingPersons: Pick<PendingLanes, "addToLane" | "catchUpLaneTo" | "passed">;
  readonly logger: { error(fields: object, message: string): void };
  readonly timing?: Partial<LanesTiming>;
}

export interface LanesTiming {
  /** First pause after a failure; doubles up to `longestRetryMs`. */
  readonly retryMs: number;
  readonly longestRetryMs: number;
  /** Longest that closing waits for what is in lanes. */
  readonly drainMs: number;
}

const DEFAULT_TIMING: LanesTiming = { retryMs: 100, longestRetryMs: 5000, drainMs: 3000 };

/** What brings events through their project's transformations into the log. */
export interface Lanes {
  /** To be told of a project whose lane has got events. */
  wake(projectId: number): void;
  /** Takes what lanes hold through, for a bounded time, and stops. What is left waits for the next start. */
  close(): Promise<void>;
}

/** Runs become longer until they take this time, and shorter where they take twice as long. */
const RUN_MS = 50;
/** Once they have taken this time, no event begins any more. */
const LONG_RUN_MS = 1000;
const FIRST_RUN_LENGTH = 4;
const LONGEST_RUN_LENGTH = 1000;
/** Runs of a lane that are in the steps at a time: while one ends, the next is under way. */
const RUNS_AT_A_TIME = 2;

/**
 * Starts taking events through lanes, each lane by itself (decision record 24): a project whose
 * steps are slow is waited for by nobody else. What became of a run is appended to the log in the
 * commit with which the run leaves its lane, one run after the other; meanwhile the next ones are in
 * the steps.
 */
export function startLanes(deps: LanesDeps): Lanes {
  const { log, pendingPersons, logger } = deps;
  const timing = { ...DEFAULT_TIMING, ...deps.timing };
  const steps = [addGeoProperties(deps.geoIp), ...deps.steps];
  const stop = new AbortController();
  const running = new Map<number, Promise<void>>();
  const passingOn = new Set<Promise<void>>();
  /** By project. */
  const runLengths = new Map<number, number>();
  /** By project: what is done once its lane has got more. */
  const onMore = new Map<number, () => void>();

  const pause = (ms: number) => delay(ms, undefined, { signal: stop.signal }).catch(() => {});

  /** Takes a lane through until it is empty. */
  async function follow(projectId: number): Promise<void> {
    let after = log.lanes.begin(projectId);
    /** Up to where events are in the steps. */
    let begun = after;
    /** In the steps, oldest first. */
    let runs: readonly RunUnderWay[] = [];
    let passing: Promise<void> = Promise.resolve();
    let lastEndedAtMs = 0;

    function beginRuns(): void {
      while (runs.length < RUNS_AT_A_TIME) {
        const length = runLengths.get(projectId) ?? FIRST_RUN_LENGTH;
        const { entries, end } = log.lanes.read(projectId, begun, length);
        if (entries.length === 0 && end === begun) return;
        if (entries.length === 0) logger.error({ projectId, begun, end }, "a lane has lost events");
        const run = beginRun({ entries, end, length, before: runs.at(-1), onLong: endRuns });
        runs = [...runs, run];
        begun = end;
      }
    }

    /** No event begins any more: first none of those that must not pass others in front of them. */
    function endRuns(): void {
      for (const { over } of runs.toReversed()) over.abort();
    }

    /** The oldest run, once it is over; `undefined` where there is room for another before. */
    async function oldest(run: RunUnderWay): Promise<Became | undefined> {
      if (runs.length === RUNS_AT_A_TIME) return run.became;
      const more = withResolvers();
      onMore.set(projectId, more.resolve);
      const became = await Promise.race([run.became, more.promise.then(() => undefined)]);
      onMore.delete(projectId);
      return became;
    }

    try {
      for (;;) {
        beginRuns();
        const [run] = runs;
        if (!run) {
          await passing;
          // What was captured meanwhile stands in the lane by now.
          const isEmpty = log.lanes.end(projectId) <= after;
          if (isEmpty || stop.signal.aborted) return;
          continue;
        }
        const became = await oldest(run);
        if (stop.signal.aborted) return;
        if (!became) continue;
        runs = runs.slice(1);
        const { entries, length } = run;
        const tookMs = became.endedAtMs - Math.max(run.begunAtMs, lastEndedAtMs);
        lastEndedAtMs = became.endedAtMs;
        if (entries.length === length) runLengths.set(projectId, nextLength(length, tookMs));
        const isLeft = became.events.length < entries.length;
        const upTo = isLeft ? became.upTo : run.end;
        if (isLeft) {
          await giveUp(runs);
          runs = [];
          begun = upTo ?? after;
        }
        if (upTo === undefined) continue;
        await passing;
        if (stop.signal.aborted) return undo(became);
        passing = passOn(projectId, upTo, became);
        after = upTo;
      }
    } finally {
      endRuns();
      for (const { became } of runs) undo(await became);
      // Who begins anew has to know where.
      await passing;
    }
  }

  /** Something in front of these runs was left: so are they, and what passed in spite of it. */
  async function giveUp(runs: readonly RunUnderWay[]): Promise<void> {
    for (const { over } of runs.toReversed()) over.abort();
    for (const run of runs) {
      const became = await run.became;
      if (became.upTo !== undefined) undo(became);
    }
  }

  function beginRun({
    entries,
    end,
    length,
    before,
    onLong,
  }: Pick<RunUnderWay, "entries" | "end" | "length"> & {
    readonly before: RunUnderWay | undefined;
    readonly onLong: () => void;
  }): RunUnderWay {
    const over = new AbortController();
    const order = createStepsOrder(before?.order);
    const became = takeThrough(entries, over.signal, order).finally(order.end);
    void limit();
    return { entries, end, length, over, order, became, begunAtMs: performance.now() };

    /** Its time counts from when it is the oldest. */
    async function limit(): Promise<void> {
      await before?.became;
      const timer = setTimeout(onLong, LONG_RUN_MS);
      await became;
      clearTimeout(timer);
    }
  }

  async function takeThrough(
    entries: readonly LoggedEvent[],
    isOver: AbortSignal,
    order: StepsOrder,
  ): Promise<Became> {
    const whenPassing: (() => readonly string[])[] = [];
    const whenDurable: (() => void)[] = [];
    const whenUndone: (() => void)[] = [];
    let leftFrom = Number.POSITIVE_INFINITY;
    const all = await runSteps(steps, entries, {
      whenPassing: (given) => whenPassing.push(given),
      whenDurable: (told) => whenDurable.push(told),
      whenUndone: (told) => whenUndone.push(told),
      order,
      leaving: {
        isOver,
        from(position) {
          leftFrom = Math.min(leftFrom, position);
        },
      },
    });
    const passed = entries.filter(({ position }) => position < leftFrom);
    const outcomes = all.slice(0, passed.length);
    return {
      upTo: entries.length === 0 ? 0 : passed.at(-1)?.position,
      events: passedEventsOf(passed, outcomes),
      captured: outcomes.flatMap((one) => (one.kind === "dead-letter" ? [] : one.captured)),
      whenPassing,
      whenDurable,
      whenUndone,
      endedAtMs: performance.now(),
    };
  }

  function passOn(projectId: number, upTo: number, became: Became): Promise<void> {
    const passing = persist(projectId, upTo, became)
      .catch((error: unknown) => {
        undo(became);
        throw error;
      })
      .finally(() => passingOn.delete(passing));
    // Whoever follows the lane is told when it waits for it, which may be later.
    passing.catch(() => {});
    passingOn.add(passing);
    return passing;
  }

  async function persist(projectId: number, upTo: number, became: Became): Promise<void> {
    const { events, captured, whenPassing, whenDurable } = became;
    const effects = whenPassing.flatMap((give) => give());
    const stored = await tryToPass(projectId, { upTo, events, captured, effects });
    if (!stored) return undo(became);
    const { positions, places } = stored;
    const entries = captured.map((event, index) => ({
      position: places[index] ?? Number.NaN,
      event,
    }));
    pendingPersons.addToLane(projectId, entries);
    pendingPersons.passed(projectId, upTo, positions.at(-1) ?? 0);
    tellAll(whenDurable);
  }

  /** It comes to nothing, and passes again with the next start. */
  function undo({ whenUndone }: Became): void {
    tellAll(whenUndone);
  }

  /** What somebody who is told fails with changes nothing for the others, nor for the events. */
  function tellAll(told: readonly (() => void)[]): void {
    for (const tell of told) {
      try {
        tell();
      } catch (error) {
        logger.error({ err: error }, "somebody could not be told of what passed a lane");
      }
    }
  }

  /** Tries until the log takes what passed, or everything stops: `undefined` then. */
  async function tryToPass(
    projectId: number,
    passed: Parameters<LogLanes["pass"]>[1],
  ): Promise<Awaited<ReturnType<LogLanes["pass"]>> | undefined> {
    for (let failures = 0; !stop.signal.aborted; ) {
      try {
        return await log.lanes.pass(projectId, passed);
      } catch (error) {
        failures++;
        const message =
          "what transformations made of events could not be stored, and is tried again";
        logger.error({ err: error, projectId, failures }, message);
        await pause(Math.min(timing.retryMs * 2 ** (failures - 1), timing.longestRetryMs));
      }
    }
    return undefined;
  }

  function wake(projectId: number): void {
    onMore.get(projectId)?.();
    if (stop.signal.aborted || running.has(projectId)) return;
    const followed = follow(projectId)
      .catch((error: unknown) => {
        logger.error({ err: error, projectId }, "a lane stood still and goes on");
        return pause(timing.retryMs);
      })
      .then(() => {
        running.delete(projectId);
        if (log.lanes.end(projectId) > log.lanes.begin(projectId)) wake(projectId);
      });
    running.set(projectId, followed);
  }

  for (const projectId of log.lanes.waiting().keys()) {
    pendingPersons.catchUpLaneTo(projectId, log.lanes.end(projectId));
    wake(projectId);
  }

  return {
    wake,
    async close() {
      const idle = async () => {
        while (running.size > 0 && !stop.signal.aborted) await Promise.all(running.values());
      };
      await atMost(timing.drainMs, idle());
      stop.abort();
      await Promise.allSettled(passingOn);
    },
  };
}

/** A run that is in the steps. */
interface RunUnderWay {
  readonly entries: readonly LoggedEvent[];
  /** The place up to which it has been read. */
  readonly end: number;
  /** How many events it was to have at most. */
  readonly length: number;
  /** Aborted once no event should begin any more. */
  readonly over: AbortController;
  readonly order: RunOrder;
  readonly became: Promise<Became>;
  readonly begunAtMs: number;
}

/** What a run came to. */
interface Became {
  /** Up to where; `undefined` where all was left. */
  readonly upTo: number | undefined;
  readonly events: readonly PassedEvent[];
  readonly captured: readonly CapturedEvent[];
  readonly whenPassing: readonly (() => readonly string[])[];
  readonly whenDurable: readonly (() => void)[];
  readonly whenUndone: readonly (() => void)[];
  readonly endedAtMs: number;
}

/** The place of a run behind the one before it, in each step. */
interface RunOrder extends StepsOrder {
  /** Resolves once this run has been given to a step, or has ended. */
  whenGiven(step: number): Promise<void>;
  end(): void;
}

function createStepsOrder(previous: RunOrder | undefined): RunOrder {
  let before = previous;
  const given: ReturnType<typeof withResolvers>[] = [];
  let isOver = false;
  const of = (step: number) => {
    let one = given[step];
    if (!one) {
      one = withResolvers();
      given[step] = one;
      if (isOver) one.resolve();
    }
    return one;
  };
  return {
    turn: (step) => before?.whenGiven(step) ?? Promise.resolve(),
    given: (step) => of(step).resolve(),
    whenGiven: (step) => of(step).promise,
    end() {
      isOver = true;
      // What has ended does not hold on to what ended before.
      before = undefined;
      for (const one of given) one?.resolve();
    },
  };
}

/** What a run came to is durable only as a whole: it should not take long, nor many commits. */
function nextLength(length: number, tookMs: number): number {
  if (tookMs < RUN_MS) return Math.min(2 * length, LONGEST_RUN_LENGTH);
  if (tookMs < 2 * RUN_MS) return length;
  return Math.max(FIRST_RUN_LENGTH, Math.ceil((length * RUN_MS) / tookMs));
}

/** What becomes of events in the log; those of which the same is told share one passage. */
function passedEventsOf(
  entries: readonly LoggedEvent[],
  outcomes: readonly StepsOutcome[],
): readonly PassedEvent[] {
  let kept: KeptPassage = { kind: "kept", changedBy: [] };
  return entries.map((entry, index) => {
    const outcome = outcomes[index] as StepsOutcome;
    if (outcome.kind === "keep" && outcome.changedBy !== kept.changedBy) {
      kept = { kind: "kept", changedBy: outcome.changedBy };
    }
    return passedEventOf(entry, outcome, kept);
  });
}

type KeptPassage = Extract<Passage, { kind: "kept" }>;

function passedEventOf(
  { position, event, propertiesText, mayHoldBigInt, fault }: LoggedEvent,
  outcome: StepsOutcome,
  kept: KeptPassage,
): PassedEvent {
  switch (outcome.kind) {
    case "keep": {
      const { entry, renamedBy } = outcome;
      const isSame = entry.event === event;
      const isRenamed = !isSame && entry.event.uuid !== event.uuid;
      return {
        event: entry.event,
        passage: isRenamed
          ? { ...kept, renamedFrom: event.uuid, ...(renamedBy && { renamedBy }) }
          : kept,
        propertiesText: entry.propertiesText,
        mayHoldBigInt: isSame ? mayHoldBigInt : undefined,
        added: entry.added,
        place: isSame && fault === undefined ? position : undefined,
      };
    }
    case "drop": {
      const { by, reason } = outcome;
      // Its receipt needs no more than that.
      return { event: { ...event, properties: {} }, passage: { kind: "dropped", by, reason } };
    }
    case "dead-letter":
      return { event, passage: { kind: "set-aside", reason: outcome.reason }, propertiesText };
  }
}

import { setMaxListeners } from "node:events";
import { setTimeout as delay } from "node:timers/promises";
import type { LoggedEvent } from "@hedgerow/core/events/event";
import type { Step, StepOccasion, StepOutcome } from "../events/steps/step.ts";
import { withResolvers } from "../platform/with-resolvers.ts";
import type { Chains } from "./chains.ts";
import { continueChain } from "./continue-chain.ts";
import { createLaneMemory, EventUnderWay, type LaneMemory } from "./event-under-way.ts";
import type { Neighbours } from "./neighbours.ts";
import type { PassedCounts } from "./passed-counts.ts";
import type { TextOutcome } from "./sandbox.ts";
import { isFailure, type Stage } from "./stage.ts";
import { createStageLine, type StageLine } from "./stage-line.ts";
import type { TransformationJournal } from "./transformation-journal.ts";

export interface RunTransformationsDeps {
  readonly chains: Pick<Chains, "get">;
  readonly journal: Pick<TransformationJournal, "log">;
  /** What counts the events of a run. */
  readonly beginCounts: () => PassedCounts;
  /** Takes a stage out of work, with the reason. */
  readonly disable: (stage: Stage, reason: string) => void;
  /** What events have stored and asked for, as lines: it is on its way to the log with them. */
  readonly seal: (events: readonly EventUnderWay[]) => readonly string[];
  /** Told that what became of events is durable; or that it comes to nothing, and they begin anew. */
  readonly release: (events: readonly EventUnderWay[]) => void;
  readonly undo: (events: readonly EventUnderWay[]) => void;
  /** Told that events begin anew with one stage: what they did there comes to nothing. */
  readonly beginAnew: (stage: Stage, events: readonly EventUnderWay[]) => void;
  /** Whose events pass transformations: they share the sandbox's threads. */
  readonly neighbours: Neighbours;
  readonly siteUrl: string;
}

/** A chunk is so long that it takes about this time in one stage. */
const CHUNK_MS = 25;
const LARGEST_CHUNK = 250;
const SMALLEST_CHUNK = 5;
/** Chunks that a stage is given at a time: while it works on one, the next is there already. */
const CHUNKS_AT_A_TIME = 2;
/** So long nothing is tried again after an outage, within what a run may take. */
const OUTAGE_PAUSE_MS = 500;
/** Weight of the newest chunk in a stage's pace. */
const NEWEST = 0.3;

/**
 * The step that takes events through the transformations of their project, one after the other:
 * each is given what the one before made of an event. While one works on a chunk of the events, the
 * one before works on the next chunk, also where that belongs to the project's next run. A project
 * without transformations costs a look into a map.
 */
export function runTransformations(deps: RunTransformationsDeps): Step {
  const { chains } = deps;
  const underWay = new Map<number, LaneUnderWay>();
  return {
    name: "transformations",
    takesAdded: true,
    run(entries, occasion) {
      const projectId = entries[0]?.event.projectId ?? 0;
      const stages = chains.get(projectId)?.transforming ?? [];
      const known = underWay.get(projectId);
      if (stages.length === 0 && !known) {
        return entries.map(({ event }) => ({ kind: "keep", event }));
      }
      deps.neighbours.note(projectId);
      const lane = known ?? newLane(stages, deps.siteUrl);
      underWay.set(projectId, lane);
      return passRun(entries, stages, lane, occasion, deps).finally(() => {
        const { last, halfway, leftFrom } = lane;
        if (!last && halfway.size === 0 && leftFrom === undefined) underWay.delete(projectId);
      });
    },
  };
}

/** The events of a project that are under way. */
interface LaneUnderWay {
  /** Events that have begun and are left where they were, by place. */
  readonly halfway: Map<number, EventUnderWay>;
  /** The run that began last, while it lasts. */
  last: RunUnderWay | undefined;
  /** Position of the first event that was left, until a run begins there: nothing behind it may pass. */
  leftFrom: number | undefined;
  /** Position of the run that was barred for that: once, so that no lane stands for what never comes. */
  barredAt: number | undefined;
  readonly lines: WeakMap<Stage, StageLine>;
  /** Those of the run that began last, and what their events have in common. */
  stages: readonly Stage[];
  memory: LaneMemory;
}

function newLane(stages: readonly Stage[], siteUrl: string): LaneUnderWay {
  const nothing = { last: undefined, leftFrom: undefined, barredAt: undefined };
  const memory = createLaneMemory(siteUrl);
  return { ...nothing, halfway: new Map(), lines: new WeakMap(), stages, memory };
}

/** What is known goes with the stages, of which it tells. */
function memoryFor(lane: LaneUnderWay, stages: readonly Stage[], siteUrl: string): LaneMemory {
  if (lane.stages !== stages) {
    lane.stages = stages;
    lane.memory = createLaneMemory(siteUrl);
  }
  return lane.memory;
}

interface RunUnderWay {
  readonly cut: AbortSignal;
  /** Is told of the run that begins after it. */
  follow(next: RunUnderWay): void;
  /** Resolves once all of it stands in line at its first stage. */
  readonly isInLine: Promise<void>;
  /**
   * No event of it begins any more, nor of those that follow: these are told first, so that nothing
   * passes what is left in front of it.
   */
  end(): void;
  /** Resolves once it has ended: with whether it has left any event. */
  readonly hasLeft: Promise<boolean>;
}

async function passRun(
  entries: readonly LoggedEvent[],
  stages: readonly Stage[],
  lane: LaneUnderWay,
  occasion: StepOccasion,
  deps: RunTransformationsDeps,
): Promise<readonly StepOutcome[]> {
  const { leaving } = occasion;
  const cut = new AbortController();
  // Each chunk in each stage listens to it.
  setMaxListeners(0, cut.signal);
  const before = leaving && lane.last;
  let following: RunUnderWay | undefined;
  const end = () => {
    following?.end();
    cut.abort();
  };
  // A run may begin when the one before it has ended, and nobody has heard yet of what that has left.
  const from = entries[0]?.position ?? 0;
  const isBehind =
    leaving !== undefined &&
    from > (lane.leftFrom ?? Number.POSITIVE_INFINITY) &&
    from !== lane.barredAt;
  if (isBehind) lane.barredAt = from;
  else if (leaving) {
    lane.leftFrom = undefined;
    lane.barredAt = undefined;
  }
  if (isBehind || before?.cut.aborted || leaving?.isOver.aborted) end();
  leaving?.isOver.addEventListener("abort", end);
  // Events under way pass the versions they began with; others wait for the next run.
  const releases = stages.map((stage) => stage.hold(leaving && end));
  const { promise: isInLine, resolve: inLine } = withResolvers();
  const occasionNow = { ...occasion, before, isBehind, cut: cut.signal, end, inLine };
  const passing = passAll(entries, stages, lane, occasionNow, deps).finally(inLine);
  const run: RunUnderWay = {
    cut: cut.signal,
    isInLine,
    end,
    hasLeft: passing.then(
      ({ hasLeft }) => hasLeft,
      () => false,
    ),
    follow(next) {
      following = next;
    },
  };
  before?.follow(run);
  lane.last = run;
  try {
    return (await passing).outcomes;
  } finally {
    if (lane.last === run) lane.last = undefined;
    leaving?.isOver.removeEventListener("abort", end);
    for (const release of releases) release();
  }
}

async function passAll(
  entries: readonly LoggedEvent[],
  stages: readonly Stage[],
  lane: LaneUnderWay,
  {
    whenPassing,
    whenDurable,
    whenUndone,
    leaving,
    before,
    isBehind,
    cut,
    end,
    inLine,
  }: StepOccasion & {
    readonly before: RunUnderWay | undefined;
    /** Whether something in front of it is left. */
    readonly isBehind: boolean;
    readonly cut: AbortSignal;
    /** No event begins any more. */
    readonly end: () => void;
    readonly inLine: () => void;
  },
  deps: RunTransformationsDeps,
): Promise<{ readonly outcomes: readonly StepOutcome[]; readonly hasLeft: boolean }> {
  const { halfway, lines } = lane;
  const memory = memoryFor(lane, stages, deps.siteUrl);
  const all = entries.map((entry) => {
    const known = leaving && halfway.get(entry.position);
    if (!known) return new EventUnderWay(entry, memory);
    // From now on it is this run's.
    halfway.delete(entry.position);
    known.isLeft = false;
    if (known.chain && known.chain !== stages) {
      known.chain = continueChain(known.chain, stages, (id) => known.trail.hasPassed(id));
    }
    return known;
  });
  let passed: readonly EventUnderWay[] = [];
  const counts = deps.beginCounts();
  whenPassing?.(() => [...deps.seal(passed), ...counts.seal(passed)]);
  whenDurable(() => {
    deps.release(passed);
    counts.release(passed);
  });
  whenUndone?.(() => {
    deps.undo([...all, ...halfway.values()]);
    halfway.clear();
  });
  const passing: Promise<void>[] = [];
  await before?.isInLine;
  for (let from = 0; from < all.length; ) {
    // The pace of the chunks before tells how long this one should be.
    if (stages[0]) await lineOf(lines, stages[0]).room();
    const length = chunkLength(stages);
    const chunk = all.slice(from, from + length);
    from += length;
    let last: Promise<void> = Promise.resolve();
    for (const stage of stages) {
      const line = lineOf(lines, stage);
      last = line.next(last, (given) =>
        passStage(chunk, stage, line, given, { cut, end, leaving, memory }, deps),
      );
    }
    // Whoever waits for them all is told.
    last.catch(() => {});
    passing.push(last);
  }
  inLine();
  await Promise.all(passing);
  // What has passed though something in front of it is left goes on from where it is.
  const isBarred = (await before?.hasLeft) || isBehind;
  if (isBarred) for (const one of all) one.isLeft = true;
  const firstLeft = all.findIndex(({ isLeft }) => isLeft);
  const left = firstLeft < 0 ? [] : all.slice(firstLeft);
  passed = firstLeft < 0 ? all : all.slice(0, firstLeft);
  if (leaving) {
    // What an event has passed it does not pass again with the next run.
    for (const one of left) {
      if (!one.counts) continue;
      one.chain ??= stages;
      halfway.set(one.entry.position, one);
    }
  }
  const position = left[0]?.entry.position;
  if (leaving && position !== undefined) {
    lane.leftFrom = Math.min(lane.leftFrom ?? position, position);
    leaving.from(position);
  }
  return { outcomes: all.map((one) => one.outcome(memory)), hasLeft: left.length > 0 };
}

function lineOf(lines: WeakMap<Stage, StageLine>, stage: Stage): StageLine {
  let line = lines.get(stage);
  if (!line) {
    line = createStageLine(CHUNKS_AT_A_TIME);
    lines.set(stage, line);
  }
  return line;
}

function chunkLength(stages: readonly Stage[]): number {
  const slowest = stages.reduce((ms, { pace }) => Math.max(ms, pace.ms), 0.001);
  return Math.min(LARGEST_CHUNK, Math.max(SMALLEST_CHUNK, Math.round(CHUNK_MS / slowest)));
}

async function passStage(
  chunk: readonly EventUnderWay[],
  stage: Stage,
  line: StageLine,
  given: () => void,
  {
    cut,
    end,
    leaving,
    memory,
  }: {
    readonly cut: AbortSignal;
    readonly end: () => void;
    readonly leaving: StepOccasion["leaving"];
    readonly memory: LaneMemory;
  },
  { journal, disable, neighbours, undo, beginAnew }: RunTransformationsDeps,
): Promise<void> {
  const events = chunk.filter(
    ({ droppedBy, isLeft, trail, chain }) =>
      !droppedBy &&
      !isLeft &&
      !trail.hasPassed(stage.configId) &&
      (chain === undefined || chain.includes(stage)),
  );
  if (events.length === 0 || stage.isTakenOut) return;
  if (cut.aborted) {
    for (const one of events) one.isLeft = true;
    return;
  }
  for (const one of events) one.enter(stage, memory);
  const givenAtMs = performance.now();
  const { count: outages } = stage.outages;
  let isOutage = false;
  let outcomes: readonly TextOutcome[];
  try {
    outcomes = await stage.use(async (started): Promise<readonly TextOutcome[]> => {
      if (!isFailure(started)) {
        const passing = started.pass(events, cut);
        given();
        return passing;
      }
      const { reason, attempts } = started;
      isOutage = started.isOutage;
      if (attempts >= MAX_STARTS) disable(stage, `It does not start: ${reason}`);
      return events.map(() => failure(`it does not start: ${reason}`));
    });
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    outcomes = events.map(() => failure(reason));
  }
  isOutage ||= stage.outages.count > outages;
  if (isOutage && leaving) {
    // What it makes of events without what it keeps is not what it would make of them.
    end();
    // Those that have passed nothing before are read anew, the others go on from here.
    undo(events.filter(({ counts }) => !counts));
    beginAnew(
      stage,
      events.filter(({ counts }) => counts),
    );
    for (const one of events) {
      one.leave();
      one.isLeft = true;
    }
    await delay(OUTAGE_PAUSE_MS, undefined, { signal: leaving.isOver }).catch(() => {});
    return;
  }
  const count = outcomes.filter(({ kind }) => kind !== "not-run").length;
  const nowMs = performance.now();
  // What it was given before had to be done first.
  const ms = (nowMs - Math.max(givenAtMs, line.doneAtMs)) / Math.max(1, count);
  line.doneAtMs = nowMs;
  if (count > 0) stage.pace.ms = stage.pace.ms * (1 - NEWEST) + ms * NEWEST;
  for (const [index, one] of events.entries()) {
    one.leave();
    const outcome = outcomes[index] ?? failure("no answer");
    if (outcome.kind === "not-run") {
      one.isLeft = true;
      continue;
    }
    const fault = one.settle(stage, outcome, memory);
    if (fault !== undefined) {
      const message = `${one.entry.event.event} ${one.entry.event.uuid}: ${fault}`;
      journal.log(stage, { source: "PLUGIN", level: "error", message });
    }
    const isLimit = outcome.kind === "failed" && outcome.isLimit;
    const result = fault === undefined ? "fine" : isLimit ? "exceeded-limit" : "failed";
    const reason =
      stage.suspicion.note(result, fault) ??
      (neighbours.has(stage.projectId) ? stage.suspicion.noteCost(outcome.cpuMs, ms) : undefined);
    if (reason === undefined || stage.isTakenOut) continue;
    // What took the place of a retired one is not to blame for it.
    if (stage.isOut) stage.takeOut();
    else disable(stage, reason);
  }
}

function failure(reason: string): Extract<TextOutcome, { kind: "failed" }> {
  return { kind: "failed", reason, isLimit: false, cpuMs: 0 };
}

/** Failed starts in a row after which a config is taken out of work. */
const MAX_STARTS = 3;

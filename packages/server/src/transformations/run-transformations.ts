import type { CapturedEvent, LoggedEvent } from "@hedgerow/core/events/event";
import { type JsonObject, ownValue } from "@hedgerow/core/json";
import {
  capturedEventOf,
  hopsOf,
  type PluginEvent,
  pluginEventOf,
  takeAnswer,
  withPassed,
} from "@hedgerow/core/transformations/plugin-event";
import type { Step, StepOccasion, StepOutcome } from "../events/steps/step.ts";
import type { Chains } from "./chains.ts";
import type { EventOutcome } from "./sandbox.ts";
import { isFailure, type Stage } from "./stage.ts";
import type { TransformationJournal } from "./transformation-journal.ts";

/** An event on its way through a chain. */
export interface EventUnderWay {
  readonly entry: LoggedEvent;
  /** How deep it was captured by transformations itself. */
  readonly hops: number;
  /** As the next transformation sees it. */
  event: PluginEvent;
  readonly succeeded: string[];
  readonly failed: string[];
  readonly changedBy: string[];
  readonly captured: CapturedEvent[];
  /** Who dropped it. */
  droppedBy: Stage | undefined;
}

export interface RunTransformationsDeps {
  readonly chains: Pick<Chains, "get">;
  readonly journal: TransformationJournal;
  /** Takes a stage out of work, with the reason. */
  readonly disable: (stage: Stage, reason: string) => void;
  /** Told which events a stage is given, so that captures find theirs; answers what ends that. */
  readonly watch: (stage: Stage, events: readonly EventUnderWay[]) => () => void;
  readonly siteUrl: string;
}

/**
 * What all transformations of a project may take for the events they are given at once: a little
 * less than a step may, since events that are late should go on as they are.
 */
const ALL_MS = 8_000;
const EACH_MS = 95;
/** Projects whose events came so lately are held up by what takes long. */
const NEIGHBOUR_MS = 60_000;

/** A chunk is so long that it takes about this time in one stage. */
const CHUNK_MS = 50;
const LARGEST_CHUNK = 250;
const SMALLEST_CHUNK = 5;
/** Weight of the newest chunk in a stage's pace. */
const NEWEST = 0.3;

/**
 * The step that takes events through the transformations of their project, one after the other:
 * each is given what the one before made of an event. While one works on a chunk of the events, the
 * one before works on the next chunk. A project without transformations costs a look into a map.
 */
export function runTransformations(deps: RunTransformationsDeps): Step {
  const { chains, journal } = deps;
  const neighbours = createNeighbours();
  return {
    name: "transformations",
    run(entries, occasion) {
      const projectId = entries[0]?.event.projectId ?? 0;
      neighbours.note(projectId);
      const stages = chains.get(projectId)?.transforming ?? [];
      if (stages.length === 0) return entries.map(({ event }) => ({ kind: "keep", event }));
      const end = journal.begin(projectId);
      // Events under way pass the versions they began with.
      const releases = stages.map((stage) => stage.hold());
      const hasNeighbours = () => neighbours.has(projectId);
      return passAll(entries, stages, occasion, { ...deps, hasNeighbours }).finally(() => {
        for (const release of releases) release();
        end(entries.at(-1)?.position ?? 0);
      });
    },
  };
}

/** Tells whether events of other projects came lately. */
function createNeighbours() {
  let newest = { projectId: 0, atMs: Number.NEGATIVE_INFINITY };
  let other = newest;
  return {
    note(projectId: number): void {
      if (newest.projectId !== projectId) other = newest;
      newest = { projectId, atMs: performance.now() };
    },
    has(projectId: number): boolean {
      const { atMs } = newest.projectId === projectId ? other : newest;
      return performance.now() - atMs < NEIGHBOUR_MS;
    },
  };
}

interface PassDeps extends RunTransformationsDeps {
  readonly hasNeighbours: () => boolean;
}

async function passAll(
  entries: readonly LoggedEvent[],
  stages: readonly Stage[],
  { isRepeated }: StepOccasion,
  deps: PassDeps,
): Promise<readonly StepOutcome[]> {
  const untilMs = performance.now() + ALL_MS + entries.length * EACH_MS;
  const all = entries.map((entry) => begin(entry, deps.siteUrl));
  const isCounted = ({ entry }: EventUnderWay) =>
    deps.journal.isCounted(entry.event.projectId, entry.position);
  /** By stage: what it is busy with. */
  const turns = new Map<Stage, Promise<void>>();
  const passing: Promise<void>[] = [];
  for (let from = 0; from < all.length; ) {
    const length = chunkLength(stages);
    const chunk = all.slice(from, from + length);
    from += length;
    let last: Promise<void> = Promise.resolve();
    for (const stage of stages) {
      const before = [last, turns.get(stage)];
      last = Promise.all(before).then(() => passStage(chunk, stage, untilMs, isCounted, deps));
      turns.set(stage, last);
    }
    passing.push(last);
    // The pace of the first chunk tells how long the others should be.
    if (passing.length === 1) await last;
  }
  await Promise.all(passing);
  return all.map((one) => outcomeOf(one, isRepeated));
}

function chunkLength(stages: readonly Stage[]): number {
  const slowest = stages.reduce((ms, { pace }) => Math.max(ms, pace.ms), 0.001);
  return Math.min(LARGEST_CHUNK, Math.max(SMALLEST_CHUNK, Math.round(CHUNK_MS / slowest)));
}

function begin(entry: LoggedEvent, siteUrl: string): EventUnderWay {
  return {
    entry,
    hops: hopsOf(entry.event.properties),
    event: pluginEventOf(withoutClaims(entry.event), siteUrl),
    ...{ succeeded: [], failed: [], changedBy: [], captured: [], droppedBy: undefined },
  };
}

/** What senders say of transformations themselves is not believed. */
function withoutClaims(event: CapturedEvent): CapturedEvent {
  const { properties } = event;
  if (!CLAIMS.some((name) => Object.hasOwn(properties, name))) return event;
  const honest: JsonObject = Object.fromEntries(
    Object.entries(properties).filter(([name]) => !CLAIMS.includes(name)),
  );
  return { ...event, properties: honest };
}

const CLAIMS = ["$plugins_succeeded", "$plugins_failed", "$plugins_deferred"];

async function passStage(
  chunk: readonly EventUnderWay[],
  stage: Stage,
  untilMs: number,
  isCounted: (one: EventUnderWay) => boolean,
  { journal, disable, watch, hasNeighbours }: PassDeps,
): Promise<void> {
  const events = chunk.filter(({ droppedBy }) => !droppedBy);
  if (events.length === 0 || stage.isTakenOut) return;
  const given = events.map(({ event, succeeded, failed }) =>
    succeeded.length + failed.length > 0 ? withPassed(event, succeeded, failed) : event,
  );
  const startedAt = performance.now();
  // Who was not reached in time is not to blame.
  const isReached = startedAt < untilMs;
  const late = (isLimit: boolean): readonly EventOutcome[] =>
    given.map(() => ({ kind: "failed", reason: "it did not end in time", isLimit, cpuMs: 0 }));
  const unwatch = watch(stage, events);
  const use = () =>
    stage.use(async (started): Promise<readonly EventOutcome[]> => {
      if (!isFailure(started)) return started.transform(given);
      const { reason, attempts } = started;
      if (attempts >= MAX_STARTS) disable(stage, `It does not start: ${reason}`);
      const failed = { kind: "failed" as const, reason: `it does not start: ${reason}` };
      return given.map(() => ({ ...failed, isLimit: false, cpuMs: 0 }));
    });
  let outcomes: readonly EventOutcome[];
  try {
    outcomes = isReached ? await inTime(use(), untilMs, () => late(stage.abandon())) : late(false);
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    outcomes = given.map(() => ({ kind: "failed", reason, isLimit: false, cpuMs: 0 }));
  } finally {
    unwatch();
  }
  const ms = (performance.now() - startedAt) / events.length;
  if (isReached) stage.pace.ms = stage.pace.ms * (1 - NEWEST) + ms * NEWEST;
  for (const [index, one] of events.entries()) {
    const outcome = settle(one, given[index] as PluginEvent, outcomes[index], stage);
    if (!isCounted(one)) {
      journal.count(stage, outcome.kind, outcome.cpuMs);
      if (outcome.kind === "failed") {
        const message = `${one.entry.event.event} ${one.entry.event.uuid}: ${outcome.reason}`;
        journal.log(stage, { source: "PLUGIN", level: "error", message });
      }
    }
    if (!isReached) continue;
    const result =
      outcome.kind !== "failed" ? "fine" : outcome.isLimit ? "exceeded-limit" : "failed";
    const reason =
      stage.suspicion.note(result, outcome.kind === "failed" ? outcome.reason : "") ??
      (hasNeighbours() ? stage.suspicion.noteCost(outcome.cpuMs, ms) : undefined);
    if (reason === undefined || stage.isTakenOut) continue;
    // What took the place of a retired one is not to blame for it.
    if (stage.isOut) stage.takeOut();
    else disable(stage, reason);
  }
}

/** What work comes to, or what stands for it where it does not end until then. */
async function inTime<Result>(
  work: Promise<Result>,
  untilMs: number,
  otherwise: () => Result,
): Promise<Result> {
  let timer: NodeJS.Timeout | undefined;
  const timeUp = new Promise<"late">((resolve) => {
    timer = setTimeout(() => resolve("late"), Math.max(0, untilMs - performance.now()));
  });
  try {
    const first = await Promise.race([work.then((result) => ({ result })), timeUp]);
    if (first !== "late") return first.result;
  } finally {
    clearTimeout(timer);
  }
  work.catch(() => {});
  return otherwise();
}

/** Failed starts in a row after which a config is taken out of work. */
const MAX_STARTS = 3;

type Settled =
  | { readonly kind: "out" | "dropped"; readonly cpuMs: number }
  | {
      readonly kind: "failed";
      readonly cpuMs: number;
      readonly reason: string;
      readonly isLimit: boolean;
    };

/** Notes what a stage made of an event. */
function settle(
  one: EventUnderWay,
  given: PluginEvent,
  outcome: EventOutcome | undefined,
  stage: Stage,
): Settled {
  const answer = outcome ?? { kind: "failed", reason: "no answer", isLimit: false, cpuMs: 0 };
  const { cpuMs } = answer;
  switch (answer.kind) {
    case "drop":
      one.droppedBy = stage;
      return { kind: "dropped", cpuMs };
    case "failed":
      one.failed.push(stage.label);
      return answer;
    case "keep": {
      const taken = answer.event ? takeAnswer(given, answer.event) : undefined;
      if (taken?.kind === "refused") {
        one.failed.push(stage.label);
        return { kind: "failed", reason: taken.reason, isLimit: false, cpuMs };
      }
      one.succeeded.push(stage.label);
      if (taken) {
        one.event = taken.event;
        one.changedBy.push(stage.versionLabel);
      }
      return { kind: "out", cpuMs };
    }
  }
}

function outcomeOf(one: EventUnderWay, isRepeated: boolean): StepOutcome {
  const captured = isRepeated || one.captured.length === 0 ? {} : { captured: one.captured };
  if (one.droppedBy) {
    const reason = "The transformation answered nothing for it.";
    return { kind: "drop", by: one.droppedBy.versionLabel, reason, ...captured };
  }
  const { event } = one.entry;
  if (one.succeeded.length + one.failed.length === 0) return { kind: "keep", event, ...captured };
  const after = withPassed(one.event, one.succeeded, one.failed);
  const changed = capturedEventOf(event, after);
  return { kind: "keep", event: changed, changedBy: one.changedBy, ...captured };
}

/** The uuid of an event as a transformation sees it. */
export function uuidOf(event: PluginEvent): string {
  const uuid = ownValue(event, "uuid");
  return typeof uuid === "string" ? uuid : "";
}

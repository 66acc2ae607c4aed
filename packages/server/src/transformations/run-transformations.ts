import { type AddedProperties, addedToo } from "@hedgerow/core/events/added-properties";
import type { CapturedEvent, LoggedEvent } from "@hedgerow/core/events/event";
import { encodeJson } from "@hedgerow/core/exact-json";
import { extendJson, extendJsonText } from "@hedgerow/core/extend-json";
import { type JsonObject, ownValue } from "@hedgerow/core/json";
import {
  additionOf,
  capturedEventOf,
  type EventChange,
  hopsOf,
  type PluginEvent,
  passedProperties,
  pluginEventOf,
  takeChange,
} from "@hedgerow/core/transformations/plugin-event";
import type { Step, StepOccasion, StepOutcome } from "../events/steps/step.ts";
import type { Chains } from "./chains.ts";
import type { Neighbours } from "./neighbours.ts";
import type { GivenEvent, TextOutcome } from "./sandbox.ts";
import { isFailure, type Stage } from "./stage.ts";
import type { TransformationJournal } from "./transformation-journal.ts";
import type { TransformationJobs } from "./transformation-records.ts";

/** An event on its way through a chain. */
export interface EventUnderWay {
  readonly entry: LoggedEvent;
  /** How deep it was captured by transformations itself. */
  readonly hops: number;
  /** As the next transformation sees it, but for what it has passed and what was added. */
  event: PluginEvent;
  /** JSON of that without its properties and the last bracket; and of those. */
  headText: string;
  propertiesText: string;
  /** Whether its properties are those of its entry, with nothing but more behind them. */
  isOwn: boolean;
  /** What stands behind them: its place, and what transformations have added. */
  added: AddedProperties | undefined;
  readonly succeeded: string[];
  readonly failed: string[];
  readonly changedBy: string[];
  captured: CapturedEvent[];
  /** What its transformations want to be called for later, once it is durable. */
  jobs: EventJob[];
  /** Set once what became of it is durable. */
  isDurable: boolean;
  /** Configs that it has passed. */
  readonly passed: Set<number>;
  readonly counts: Count[];
  /** Set where a run ended before it had passed all of its chain. */
  isLeft: boolean;
  /** Who dropped it. */
  droppedBy: Stage | undefined;
}

export interface EventJob {
  readonly stage: Stage;
  readonly job: Parameters<TransformationJobs["add"]>[0];
}

export interface RunTransformationsDeps {
  readonly chains: Pick<Chains, "get">;
  readonly journal: TransformationJournal;
  /** Takes a stage out of work, with the reason. */
  readonly disable: (stage: Stage, reason: string) => void;
  /** Told which events a stage is given, so that captures find theirs; answers what ends that. */
  readonly watch: (stage: Stage, events: readonly EventUnderWay[]) => () => void;
  /** Told that what became of events is durable; or that it comes to nothing, and they begin anew. */
  readonly release: (events: readonly EventUnderWay[]) => void;
  readonly undo: (events: readonly EventUnderWay[]) => void;
  /** Whose events pass transformations: they share the sandbox's threads. */
  readonly neighbours: Neighbours;
  readonly siteUrl: string;
}

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
  const { chains } = deps;
  const halfway: Halfway = new Map();
  return {
    name: "transformations",
    takesAdded: true,
    run(entries, occasion) {
      const projectId = entries[0]?.event.projectId ?? 0;
      const stages = chains.get(projectId)?.transforming ?? [];
      if (stages.length === 0 && !halfway.has(projectId)) {
        return entries.map(({ event }) => ({ kind: "keep", event }));
      }
      deps.neighbours.note(projectId);
      const cut = new AbortController();
      const over = () => cut.abort();
      const { leaving } = occasion;
      leaving?.isOver.addEventListener("abort", over);
      // Events under way pass the versions they began with; others wait for the next run.
      const releases = stages.map((stage) => stage.hold(leaving && over));
      return passAll(entries, stages, { ...occasion, cut: cut.signal }, deps, halfway).finally(
        () => {
          leaving?.isOver.removeEventListener("abort", over);
          for (const release of releases) release();
        },
      );
    },
  };
}

/** Events that have begun and are left in their lane, by project and place. */
type Halfway = Map<number, Map<number, EventUnderWay>>;

async function passAll(
  entries: readonly LoggedEvent[],
  stages: readonly Stage[],
  { whenDurable, whenUndone, leaving, cut }: StepOccasion & { readonly cut: AbortSignal },
  deps: RunTransformationsDeps,
  halfway: Halfway,
): Promise<readonly StepOutcome[]> {
  const projectId = entries[0]?.event.projectId ?? 0;
  const all = entries.map((entry) => {
    const known = leaving && halfway.get(projectId)?.get(entry.position);
    return known ?? begin(entry, deps.siteUrl);
  });
  for (const one of all) one.isLeft = false;
  let passed: readonly EventUnderWay[] = [];
  whenDurable(() => {
    deps.release(passed);
    for (const { counts } of passed) {
      for (const { stage, kind, cpuMs } of counts) deps.journal.count(stage, kind, cpuMs);
    }
  });
  whenUndone?.(() => {
    deps.undo([...all, ...(halfway.get(projectId)?.values() ?? [])]);
    halfway.delete(projectId);
  });
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
      last = Promise.all(before).then(() => passStage(chunk, stage, cut, deps));
      turns.set(stage, last);
    }
    passing.push(last);
    // The pace of the first chunk tells how long the others should be.
    if (passing.length === 1) await last;
  }
  await Promise.all(passing);
  const firstLeft = all.findIndex(({ isLeft }) => isLeft);
  passed = firstLeft < 0 ? all : all.slice(0, firstLeft);
  if (leaving) keepHalfway(halfway, projectId, passed, firstLeft < 0 ? [] : all.slice(firstLeft));
  const position = all[firstLeft]?.entry.position;
  if (position !== undefined) leaving?.from(position);
  return all.map((one) => outcomeOf(one));
}

/** What an event has passed it does not pass again with the next run. */
function keepHalfway(
  halfway: Halfway,
  projectId: number,
  passed: readonly EventUnderWay[],
  left: readonly EventUnderWay[],
): void {
  const known = halfway.get(projectId) ?? new Map<number, EventUnderWay>();
  for (const { entry } of passed) known.delete(entry.position);
  for (const one of left) if (one.passed.size > 0) known.set(one.entry.position, one);
  if (known.size > 0) halfway.set(projectId, known);
  else halfway.delete(projectId);
}

function chunkLength(stages: readonly Stage[]): number {
  const slowest = stages.reduce((ms, { pace }) => Math.max(ms, pace.ms), 0.001);
  return Math.min(LARGEST_CHUNK, Math.max(SMALLEST_CHUNK, Math.round(CHUNK_MS / slowest)));
}

function begin(entry: LoggedEvent, siteUrl: string): EventUnderWay {
  const { event, added } = entry;
  const honest = withoutClaims(event);
  const isOwn = honest === event;
  const text = isOwn ? entry.propertiesText : undefined;
  const seen = pluginEventOf(honest, siteUrl);
  return {
    entry,
    hops: hopsOf(event.properties),
    event: seen,
    headText: headTextOf(seen),
    // An event is one line of a text.
    propertiesText:
      text === undefined || text.includes("\n") ? encodeJson(honest.properties) : text,
    ...{ isOwn, added },
    ...{ succeeded: [], failed: [], changedBy: [], captured: [] },
    ...{
      jobs: [],
      counts: [],
      passed: new Set(),
      isLeft: false,
      isDurable: false,
      droppedBy: undefined,
    },
  };
}

function headTextOf(event: PluginEvent): string {
  const { properties: _, ...head } = event;
  return encodeJson(head).slice(0, -1);
}

/** The event as its next transformation is given it. */
function lineOf(one: EventUnderWay): string {
  const { headText, propertiesText, added, succeeded, failed } = one;
  const behind = hasPassed(one) ? addedToo(added, passedProperties(succeeded, failed)) : added;
  const properties = behind ? extendJsonText(propertiesText, behind.text) : propertiesText;
  return `${headText},"properties":${properties}}`;
}

function hasPassed({ succeeded, failed }: EventUnderWay): boolean {
  return succeeded.length + failed.length > 0;
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

/** What an event came to in a stage. */
interface Count {
  readonly stage: Stage;
  readonly kind: Settled["kind"];
  readonly cpuMs: number;
}

async function passStage(
  chunk: readonly EventUnderWay[],
  stage: Stage,
  cut: AbortSignal,
  { journal, disable, watch, neighbours }: RunTransformationsDeps,
): Promise<void> {
  const events = chunk.filter(
    ({ droppedBy, isLeft, passed }) => !droppedBy && !isLeft && !passed.has(stage.configId),
  );
  if (events.length === 0 || stage.isTakenOut) return;
  if (cut.aborted) {
    for (const one of events) one.isLeft = true;
    return;
  }
  const given = events.map((one): GivenEvent => ({ event: one.event, line: lineOf(one) }));
  const startedAt = performance.now();
  const unwatch = watch(stage, events);
  let outcomes: readonly TextOutcome[];
  try {
    outcomes = await stage.use(async (started): Promise<readonly TextOutcome[]> => {
      if (!isFailure(started)) return started.pass(given, cut);
      const { reason, attempts } = started;
      if (attempts >= MAX_STARTS) disable(stage, `It does not start: ${reason}`);
      const failed = { kind: "failed" as const, reason: `it does not start: ${reason}` };
      return given.map(() => ({ ...failed, isLimit: false, cpuMs: 0 }));
    });
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error);
    outcomes = given.map(() => ({ kind: "failed", reason, isLimit: false, cpuMs: 0 }));
  } finally {
    unwatch();
  }
  const count = outcomes.filter(({ kind }) => kind !== "not-run").length;
  const ms = (performance.now() - startedAt) / Math.max(1, count);
  if (count > 0) stage.pace.ms = stage.pace.ms * (1 - NEWEST) + ms * NEWEST;
  for (const [index, one] of events.entries()) {
    const given = outcomes[index];
    if (given?.kind === "not-run") {
      one.isLeft = true;
      continue;
    }
    const outcome = settle(one, given, stage);
    one.passed.add(stage.configId);
    one.counts.push({ stage, kind: outcome.kind, cpuMs: outcome.cpuMs });
    if (outcome.kind === "failed") {
      const message = `${one.entry.event.event} ${one.entry.event.uuid}: ${outcome.reason}`;
      journal.log(stage, { source: "PLUGIN", level: "error", message });
    }
    const result =
      outcome.kind !== "failed" ? "fine" : outcome.isLimit ? "exceeded-limit" : "failed";
    const reason =
      stage.suspicion.note(result, outcome.kind === "failed" ? outcome.reason : "") ??
      (neighbours.has(stage.projectId) ? stage.suspicion.noteCost(outcome.cpuMs, ms) : undefined);
    if (reason === undefined || stage.isTakenOut) continue;
    // What took the place of a retired one is not to blame for it.
    if (stage.isOut) stage.takeOut();
    else disable(stage, reason);
  }
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
  outcome: Exclude<TextOutcome, { kind: "not-run" }> | undefined,
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
      const { change } = answer;
      const refusal = change && take(one, change);
      if (refusal !== undefined) {
        one.failed.push(stage.label);
        return { kind: "failed", reason: refusal, isLimit: false, cpuMs };
      }
      one.succeeded.push(stage.label);
      if (change) one.changedBy.push(stage.versionLabel);
      return { kind: "out", cpuMs };
    }
  }
}

/** Changes an event as a transformation has; answers why it may not. */
function take(one: EventUnderWay, change: EventChange): string | undefined {
  const { properties } = one.event as { properties: JsonObject };
  const more = additionOf(
    change,
    (name) =>
      Object.hasOwn(properties, name) ||
      (one.added !== undefined && Object.hasOwn(one.added.properties, name)),
  );
  if (more !== undefined) {
    one.added = addedToo(one.added, more);
    return undefined;
  }
  const before = one.added
    ? { ...one.event, properties: extendJson(properties, one.added.properties) }
    : one.event;
  const taken = takeChange(before, change);
  if (taken.kind === "refused") return taken.reason;
  const { propertiesText } = taken;
  // Without any other change the head is the same.
  if (propertiesText === undefined) one.headText = headTextOf(taken.event);
  one.propertiesText = propertiesText ?? encodeJson(ownValue(taken.event, "properties"));
  one.event = taken.event;
  one.added = undefined;
  one.isOwn = false;
  return undefined;
}

function outcomeOf(one: EventUnderWay): StepOutcome {
  const captured = one.captured.length === 0 ? {} : { captured: one.captured };
  if (one.droppedBy) {
    const reason = "The transformation answered nothing for it.";
    return { kind: "drop", by: one.droppedBy.versionLabel, reason, ...captured };
  }
  const { event } = one.entry;
  if (!hasPassed(one)) return { kind: "keep", event, ...captured };
  const { changedBy, propertiesText, succeeded, failed } = one;
  const added = addedToo(one.added, passedProperties(succeeded, failed));
  if (one.isOwn) return { kind: "keep", event, added, changedBy, ...captured };
  const changed = capturedEventOf(event, one.event);
  return { kind: "keep", event: changed, propertiesText, added, changedBy, ...captured };
}

/** The uuid of an event as a transformation sees it. */
export function uuidOf(event: PluginEvent): string {
  const uuid = ownValue(event, "uuid");
  return typeof uuid === "string" ? uuid : "";
}

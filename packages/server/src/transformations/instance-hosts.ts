import { cleanText } from "@hedgerow/core/events/clean-json";
import type { CapturedEvent } from "@hedgerow/core/events/event";
import type { Json } from "@hedgerow/core/json";
import { MAX_HOPS } from "@hedgerow/core/transformations/plugin-event";
import type { IngestionWarnings } from "../events/ingestion-warnings.ts";
import type { PlaceRecords } from "../persons/geo-ip.ts";
import { StoreUnavailable } from "../platform/store-unavailable.ts";
import { captureFrom } from "./capture-from-transformation.ts";
import { asked, stored } from "./event-effects.ts";
import { type AskedJob, EventUnderWay, type OwnCount, uuidOf } from "./event-under-way.ts";
import {
  type InstanceHost,
  MAX_CAPTURES,
  type SandboxCapture,
  type SandboxCause,
} from "./sandbox.ts";
import type { Stage } from "./stage.ts";
import type { StorageBuffer } from "./storage-buffer.ts";
import type { TransformationJournal } from "./transformation-journal.ts";
import {
  type ConfigRef,
  joinOwnMetrics,
  MAX_OWN_METRICS,
  type NewJob,
  type TransformationJobs,
} from "./transformation-records.ts";

/** Answers what running transformations ask of the service. */
export interface InstanceHosts {
  hostFor(stage: Stage): InstanceHost;
  /** What events have stored and asked for by now, as lines that the log keeps. */
  seal(events: readonly EventUnderWay[]): readonly string[];
  /** What became of events is durable: what they stored and asked for since then becomes so, too. */
  release(events: readonly EventUnderWay[]): void;
  /** Events begin anew with a transformation: nothing remains of what they did there. */
  beginAnew(stage: Stage, events: readonly EventUnderWay[]): void;
  /** Events begin anew with their first transformation: nothing that they stored or asked for remains. */
  undo(events: readonly EventUnderWay[]): void;
  /** A job of an event was refused by its store. */
  refused(job: NewJob): void;
  /** Adds jobs that could not be added yet; never rejects. */
  flush(): Promise<void>;
}

const MAX_REMEMBERED = 1_000;
/** Refusals of jobs are told so often. */
const TELL_AGAIN_MS = 10_000;
/** Characters of one job, and of all that events of one config ask for before they pass. */
const MAX_JOB_CHARS = 1_000_000;
const MAX_ASKED_CHARS = 4_000_000;
const MAX_METRIC_NAME_CHARS = 200;
const NO_SDK = { name: "", version: "" };

export function createInstanceHosts({
  journal,
  places,
  storage,
  jobs,
  capture,
  warnings,
  reportFault,
  clock,
  newUuid,
  siteUrl,
  stageOf,
}: {
  journal: TransformationJournal;
  places: PlaceRecords;
  storage: StorageBuffer;
  jobs: Pick<TransformationJobs, "add">;
  reportFault: (error: unknown, context: string) => void;
  /** Takes events that hang on none under way. */
  capture: (events: readonly CapturedEvent[]) => Promise<unknown>;
  warnings: Pick<IngestionWarnings, "note">;
  clock: () => Date;
  newUuid: () => string;
  siteUrl: string;
  /** The stage of a config that is at work. */
  stageOf: (config: ConfigRef) => Stage | undefined;
}): InstanceHosts {
  /** Jobs that events asked for when they were on their way to the disk. */
  let ready: NewJob[] = [];
  let adding: Promise<void> = Promise.resolve();

  /** By config: how long the jobs are that events under way have asked for. */
  const askedChars = new Map<number, number>();

  function setJobs(event: EventUnderWay, jobs: readonly AskedJob[]): void {
    for (const [some, sign] of [[event.jobs, -1] as const, [jobs, 1] as const]) {
      for (const { job, line } of some) {
        const sum = (askedChars.get(job.configId) ?? 0) + sign * line.length;
        if (sum > 0) askedChars.set(job.configId, sum);
        else askedChars.delete(job.configId);
      }
    }
    event.jobs = jobs;
  }

  /** The event under way that something hangs on, unless what became of it is durable. */
  function ownerOf({ event }: SandboxCause): EventUnderWay | undefined {
    return event instanceof EventUnderWay && event.ended !== "released" ? event : undefined;
  }

  async function add(job: NewJob): Promise<boolean> {
    if ((await jobs.add(job)) !== "full") return true;
    tellFull(job);
    return false;
  }

  /** Adds jobs in their order; what fails is tried with the next. */
  function addReady(): Promise<void> {
    adding = adding.then(async () => {
      const some = ready;
      ready = [];
      for (const [index, job] of some.entries()) {
        try {
          await add(job);
        } catch (error) {
          reportFault(error, "jobs of transformations could not be kept");
          ready = [...some.slice(index), ...ready];
          return;
        }
      }
    });
    return adding;
  }

  /** By stage and uuid: how many events were captured from that one. */
  const captures = new Map<string, number>();

  function nextIndex(stage: Stage, uuid: string): number {
    const key = `${stage.configId} ${stage.version} ${uuid}`;
    const index = captures.get(key) ?? 0;
    captures.delete(key);
    captures.set(key, index + 1);
    if (captures.size > MAX_REMEMBERED) {
      const [oldest] = captures.keys();
      captures.delete(oldest ?? "");
    }
    return index;
  }

  /** By config: when its log was told last that jobs are refused, and how many were since. */
  const full = new Map<number, { config: ConfigRef; toldAtMs: number; refused: number }>();

  /** Nobody may wait for the promise of a refused job. */
  function tellFull({ projectId, configId }: ConfigRef): void {
    const nowMs = clock().getTime();
    const known = full.get(configId);
    const refused = (known?.refused ?? 0) + 1;
    if (known && nowMs - known.toldAtMs < TELL_AGAIN_MS) {
      known.refused = refused;
      return;
    }
    const config = { projectId, configId };
    const isTold = tellRefused(config, refused);
    full.set(configId, { config, toldAtMs: nowMs, refused: isTold ? 0 : refused });
  }

  /** Those that were not told since others had just been. */
  function tellOthersFull(): void {
    const nowMs = clock().getTime();
    for (const [configId, { config, toldAtMs, refused }] of full) {
      if (nowMs - toldAtMs < TELL_AGAIN_MS) continue;
      full.delete(configId);
      if (refused > 0) tellRefused(config, refused);
    }
  }

  /** Answers whether it could: not before the config is at work. */
  function tellRefused(config: ConfigRef, refused: number): boolean {
    const stage = stageOf(config);
    if (!stage) return false;
    const count = refused === 1 ? "A job was" : `${refused} jobs were`;
    const message = `${count} refused: too many of this transformation wait.`;
    journal.log(stage, { source: "SYSTEM", level: "warn", message });
    return true;
  }

  async function take(stage: Stage, wanted: SandboxCapture, cause: SandboxCause): Promise<void> {
    const { event, isLikely = false } = cause;
    // Of an event that asked for a job, no more is known than how deep it is.
    const uuid = (event && !isLikely && uuidOf(event.event)) || newUuid();
    // While its stage works on an event, what is captured belongs to it.
    const under = event instanceof EventUnderWay && event.stage === stage ? event : undefined;
    const source = under?.entry.event;
    const index = under ? countCaptured(under, stage) : nextIndex(stage, uuid);
    // Each event has ten as its own: no more of them are as deep as that, whosever they really are.
    const hops = under && index < MAX_CAPTURES ? under.hops : depthOf(cause);
    const made = captureFrom(stage, wanted, {
      hops,
      uuid: source?.uuid ?? uuid,
      index,
      isBounded: under === undefined,
      at: source?.receivedAt ?? clock(),
    });
    if ("refusal" in made) {
      const detail = `${stage.label}: ${REFUSALS[made.refusal]}`;
      const sample = { event: wanted.event, detail };
      const type = `transformation_capture_${made.refusal.replace("-", "_")}`;
      warnings.note(stage.projectId, { type, sdk: NO_SDK, sample });
      const message = `posthog.capture was refused: ${REFUSALS[made.refusal]}`;
      // Mostly nobody waits for it; of too many, and of too deep ones, others tell.
      if (made.refusal === "no-name") {
        journal.log(stage, { source: "SYSTEM", level: "warn", message });
      }
      throw new Error(message);
    }
    const marked = { ...made, properties: { ...made.properties, [FROM]: stage.configId } };
    if (under) under.captured = [...under.captured, marked];
    else await capture([marked]);
  }

  function forget(stage: Stage, events: readonly EventUnderWay[]): void {
    for (const owner of events) {
      setJobs(
        owner,
        owner.jobs.filter(({ job }) => job.configId !== stage.configId),
      );
      owner.captured = owner.captured.filter(
        ({ properties }) => properties[FROM] !== stage.configId,
      );
      owner.own = owner.own.filter((one) => one.stage.configId !== stage.configId);
    }
  }

  /** What it keeps may not be there just now: then nothing that it does tells of itself. */
  async function noting<Result>(stage: Stage, asking: Promise<Result>): Promise<Result> {
    try {
      return await asking;
    } catch (error) {
      if (error instanceof StoreUnavailable) stage.outages.count++;
      throw error;
    }
  }

  return {
    hostFor: (stage) => ({
      siteUrl,
      log(lines) {
        for (const { at, source, level, message } of lines) {
          const from = source === "console" ? "CONSOLE" : "SYSTEM";
          journal.log(stage, { source: from, level, message, at });
        }
      },
      readStored: (key) => noting(stage, storage.get(stage, key)),
      writeStored: (key, value, cause) =>
        noting(stage, storage.set(stage, key, value, ownerOf(cause))),
      deleteStored: (key, cause) => storage.set(stage, key, undefined, ownerOf(cause)),
      capture: (wanted, cause) => take(stage, wanted, cause),
      async enqueueJob(name, payload: Json, runAt, cause) {
        const { projectId, configId } = stage;
        // Once an event has passed with a job, nothing may be in the way of its being stored.
        if (Number.isNaN(runAt.getTime()) || cleanText(name) !== name) {
          throw new Error("the job cannot be stored");
        }
        const hops = Math.min(MAX_HOPS, Math.ceil(depthOf(cause)));
        const job = { projectId, configId, name, payload, runAt, hops };
        const line = asked(job);
        if (line.length > MAX_JOB_CHARS) throw new Error("the job is too large to be stored");
        const owner = ownerOf(cause);
        const isFull = owner
          ? (askedChars.get(configId) ?? 0) + line.length > MAX_ASKED_CHARS
          : !(await add(job));
        if (isFull) throw new Error("too many jobs of this transformation wait");
        if (owner) setJobs(owner, [...owner.jobs, { job, line }]);
      },
      beginAnew: (events) =>
        forget(
          stage,
          events.filter((one) => one instanceof EventUnderWay),
        ),
      undoStored: (events) =>
        storage.undo(
          events.filter((one) => one instanceof EventUnderWay),
          stage,
        ),
      locate: (address) => places.locate(address),
      countMetric(given, kind, value, cause) {
        const name = given.slice(0, MAX_METRIC_NAME_CHARS);
        const owner = ownerOf(cause);
        if (owner) owner.own = countedToo(owner.own, { stage, name, metric: { kind, value } });
        else journal.countOwn(stage, name, { kind, value });
      },
    }),

    seal(events) {
      const lines = storage.seal(events).map(stored);
      for (const one of events) {
        if (one.jobs.length === 0) continue;
        for (const { line } of one.jobs) lines.push(line);
        setJobs(one, []);
        one.hasAsked = true;
      }
      return lines;
    },

    release(events) {
      storage.release(events);
      for (const one of events) {
        if (one.jobs.length === 0) continue;
        ready.push(...one.jobs.map(({ job }) => job));
        setJobs(one, []);
      }
      if (ready.length > 0) void addReady();
      // Whoever asked for jobs should not wait for them.
      if (events.some(({ hasAsked }) => hasAsked)) void storage.flush();
    },

    beginAnew(stage, events) {
      forget(stage, events);
      storage.undo(events, stage);
    },

    undo(events) {
      storage.undo(events);
      for (const one of events) if (one.jobs.length > 0) setJobs(one, []);
    },

    refused: tellFull,

    flush() {
      tellOthersFull();
      return addReady();
    },
  };
}

/** What an event's stages have counted, with one more; those that would be too many are left out. */
function countedToo(some: readonly OwnCount[], more: OwnCount): readonly OwnCount[] {
  const at = some.findIndex(({ stage, name }) => stage === more.stage && name === more.name);
  const known = some[at];
  if (known) return some.with(at, { ...more, metric: joinOwnMetrics(known.metric, more.metric) });
  const ofStage = some.filter(({ stage }) => stage === more.stage);
  return ofStage.length < MAX_OWN_METRICS ? [...some, more] : some;
}

function depthOf({ event, hops = 0 }: SandboxCause): number {
  return Math.max(event?.hops ?? 0, hops);
}

function countCaptured({ captured }: EventUnderWay, { configId }: Stage): number {
  return captured.filter((one) => one.properties[FROM] === configId).length;
}

/** Names the config that captured an event. */
const FROM = "$transformation_config_id";

const REFUSALS = {
  "too-deep": "events that were captured from captured ones three times over may capture no more",
  "too-many": "one event may not capture more",
  "no-name": "an event needs a name",
} as const;

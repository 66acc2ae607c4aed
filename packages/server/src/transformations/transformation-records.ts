import type { Json } from "@hedgerow/core/json";
import { addDurations, type DurationCounts } from "@hedgerow/core/transformations/durations";

/** Whose record it is. */
export interface ConfigRef {
  readonly projectId: number;
  readonly configId: number;
}

/**
 * What a transformation did with the events it was given in some time:
 * `eventsIn = eventsOut + dropped`, and `failed` of those that went out went out unchanged.
 */
export interface EventCounts {
  readonly eventsIn: number;
  readonly eventsOut: number;
  readonly dropped: number;
  readonly failed: number;
}

/** A number that a transformation counts itself (`meta.metrics`). */
export interface OwnMetric {
  readonly kind: "sum" | "max" | "min";
  readonly value: number;
}

/** Two counts of one number as one; the later one tells the kind. */
export function joinOwnMetrics(before: OwnMetric, { kind, value }: OwnMetric): OwnMetric {
  switch (kind) {
    case "sum":
      return { kind, value: finite(before.value + value) };
    case "max":
      return { kind, value: Math.max(before.value, value) };
    case "min":
      return { kind, value: Math.min(before.value, value) };
  }
}

/** No store keeps more than the largest number. */
function finite(value: number): number {
  return Math.max(-Number.MAX_VALUE, Math.min(Number.MAX_VALUE, value));
}

/** Numbers that a transformation counts itself, of one config and hour. */
export const MAX_OWN_METRICS = 50;

/** Counts of several numbers as one; those that would be too many are left out. */
export function joinAllOwnMetrics(
  before: Readonly<Record<string, OwnMetric>>,
  later: Readonly<Record<string, OwnMetric>>,
): Readonly<Record<string, OwnMetric>> {
  const all = new Map(Object.entries(before));
  for (const [name, metric] of Object.entries(later)) {
    const known = all.get(name);
    if (!known && all.size >= MAX_OWN_METRICS) continue;
    all.set(name, known ? joinOwnMetrics(known, metric) : metric);
  }
  return Object.fromEntries(all);
}

/** What is counted of one config and hour. */
export interface HourTally extends ConfigRef {
  /** Start of the hour, UTC. */
  readonly hour: Date;
  readonly counts: EventCounts;
  readonly durations: DurationCounts;
  /** By name; bounded in number. */
  readonly ownMetrics: Readonly<Record<string, OwnMetric>>;
}

const HOUR_MS = 3_600_000;

/** The hour that counts of an instant belong to, by its start. */
export function hourOf(at: Date): Date {
  return new Date(Math.floor(at.getTime() / HOUR_MS) * HOUR_MS);
}

/** Two tallies of one config and hour as one. */
export function joinTallies(before: HourTally, later: HourTally): HourTally {
  return {
    ...before,
    counts: {
      eventsIn: before.counts.eventsIn + later.counts.eventsIn,
      eventsOut: before.counts.eventsOut + later.counts.eventsOut,
      dropped: before.counts.dropped + later.counts.dropped,
      failed: before.counts.failed + later.counts.failed,
    },
    durations: addDurations(before.durations, later.durations),
    ownMetrics: joinAllOwnMetrics(before.ownMetrics, later.ownMetrics),
  };
}

export interface HourQuery extends ConfigRef {
  /** Only hours that begin at or after this time. */
  readonly from?: Date;
  /** Only hours that begin before this time. */
  readonly before?: Date;
}

/** Who wrote a line: the service itself, the transformation's `console`, or whoever tests it. */
export const LOG_SOURCES = ["SYSTEM", "PLUGIN", "CONSOLE"] as const;
export const LOG_TYPES = ["DEBUG", "LOG", "INFO", "WARN", "ERROR"] as const;

/** A line of a config's log (posthog-api 6.7). */
export interface TransformationLogEntry extends ConfigRef {
  /** UUID, version 7: later lines have greater ones. */
  readonly id: string;
  readonly transformationId: number;
  readonly at: Date;
  readonly source: (typeof LOG_SOURCES)[number];
  readonly type: (typeof LOG_TYPES)[number];
  readonly message: string;
  /** UUID of the process that wrote it. */
  readonly instanceId: string;
}

export interface LogQuery extends ConfigRef {
  /** Text that the message holds, in any case. */
  readonly search?: string;
  readonly types?: readonly TransformationLogEntry["type"][];
  /** Exclusive. */
  readonly after?: Date;
  /** Exclusive. */
  readonly before?: Date;
  readonly limit: number;
  readonly offset: number;
}

/** Counts and lines of transformations, for whoever looks after them. */
export interface TransformationRecords {
  /** Adds tallies, in one transaction. Those of configs that are gone are left out. */
  addTallies(tallies: readonly HourTally[]): Promise<void>;
  /** Oldest first. */
  hours(query: HourQuery): Promise<readonly HourTally[]>;
  /** Of each config keeps the newest {@link MAX_LOG_LINES}. Lines of configs that are gone are left out. */
  addLogs(entries: readonly TransformationLogEntry[]): Promise<void>;
  /** Newest first. */
  logs(query: LogQuery): Promise<{ count: number; entries: readonly TransformationLogEntry[] }>;
  /** Forgets hours and lines from before a time. */
  prune(before: Date): Promise<void>;
}

/** Lines kept of each config. */
export const MAX_LOG_LINES = 10_000;

/** A value that a transformation keeps; `undefined` for one that it gives up. */
export interface StoredValue extends ConfigRef {
  readonly key: string;
  readonly value: Json | undefined;
}

/** How much a config keeps. */
export interface StorageUsage extends ConfigRef {
  readonly keys: number;
  /** Of keys and values together, as JSON. */
  readonly chars: number;
}

/** What transformations keep themselves, by config (`meta.storage`). */
export interface TransformationStorage {
  /** `undefined` when nothing is stored under the key. */
  get(config: ConfigRef, key: string): Promise<Json | undefined>;
  usage(config: ConfigRef): Promise<StorageUsage>;
  /**
   * Writes in one transaction, the later of two values for a key winning, and tells how much the
   * configs keep then. Those of configs that are gone are left out.
   */
  write(values: readonly StoredValue[]): Promise<readonly StorageUsage[]>;
}

/** Most keys of one config. */
export const MAX_STORED_KEYS = 10_000;
/** Most characters of keys and values of one config together. */
export const MAX_STORED_CHARS = 16 * 1024 * 1024;

/** A job that a transformation asked for. */
export interface TransformationJob extends ConfigRef {
  readonly id: number;
  readonly name: string;
  readonly payload: Json;
  readonly runAt: Date;
  /** How often it was begun before. */
  readonly attempts: number;
  /** How deep the event was captured by transformations that it was asked for by; 0 without one. */
  readonly hops: number;
}

export type NewJob = Omit<TransformationJob, "id" | "attempts">;

export type ScheduledTask = "runEveryMinute" | "runEveryHour" | "runEveryDay";

/** What transformations want to be called for later. At least once: what is begun stays until it is finished. */
export interface TransformationJobs {
  /**
   * Refuses beyond {@link MAX_JOBS} jobs of one config, and beyond {@link MAX_WEBHOOKS} webhooks; `gone`
   * when the config is.
   */
  add(job: NewJob): Promise<"added" | "full" | "gone">;
  /**
   * Jobs of enabled configs that are due, oldest first: of each config no more than some, and none of
   * those that are excepted.
   */
  due(
    now: Date,
    ofEachConfig: number,
    exceptConfigs?: ReadonlySet<number>,
  ): Promise<readonly TransformationJob[]>;
  /** A job is to be run at a later time, having been begun so often. */
  postpone(id: number, runAt: Date, attempts: number): Promise<void>;
  finish(id: number): Promise<void>;

  /**
   * True once for each config, task and period: whoever is told so runs the task. `period`: start
   * of the minute, hour or day.
   */
  claimPeriod(config: ConfigRef, task: ScheduledTask, period: Date): Promise<boolean>;
}

/** The name of jobs that are webhooks to send once more; no source can declare it. */
export const WEBHOOK_JOB = "$webhook";
/** The names of jobs that are events to give once more, by what they are given to. */
export const EVENT_JOBS = { onEvent: "$onEvent", exportEvents: "$exportEvents" } as const;
/** Jobs that no source asked for. */
export const DELIVERY_JOBS: readonly string[] = [WEBHOOK_JOB, ...Object.values(EVENT_JOBS)];

/** What transformations stored and asked for while they worked on events that have passed, and what these came to. */
export interface EventEffects {
  /** In order: of two values for a key the later one counts. */
  readonly values: readonly StoredValue[];
  readonly jobs: readonly NewJob[];
  readonly tallies: readonly HourTally[];
}

/** Takes effects of events to where they belong, in the order in which the log keeps them, each once. */
export interface TransformationEffects {
  /** Position in the log up to which effects have been taken; 0 where none have been. */
  position(): Promise<number>;
  /**
   * Takes all effects between two positions, in one transaction with the second one. `moved` when the
   * first is not where it stands: nothing is taken then. Values are written as by
   * {@link TransformationStorage.write}, jobs added as by {@link TransformationJobs.add}, tallies as by
   * {@link TransformationRecords.addTallies}; `refused`: jobs that were too many. What is of configs that
   * are gone is left out.
   */
  take(
    span: { readonly after: number; readonly upTo: number },
    effects: EventEffects,
  ): Promise<
    { readonly usages: readonly StorageUsage[]; readonly refused: readonly NewJob[] } | "moved"
  >;
}

/** Most jobs of one config that wait. */
export const MAX_JOBS = 1_000;
/** Most webhooks and events of one config that wait to be sent or given once more. */
export const MAX_WEBHOOKS = 10_000;

import type { Json, JsonObject } from "@hedgerow/core/json";
import type { EventChange } from "@hedgerow/core/transformations/plugin-event";

/**
 * Text files of a transformation by path: `plugin.json`, `index.ts`, `src/a.js`, `package.json`, …
 * Paths are relative, with `/`, without `.` and `..`; others are refused.
 */
export type SourceFiles = Readonly<Record<string, string>>;

/** What is wrong with a source and where. Lines and columns count from 1; `line` 0 is "no place". */
export interface SourceProblem {
  readonly file: string;
  readonly line: number;
  readonly column: number;
  readonly message: string;
}

/** What a source becomes: everything needed to run it again without bundling. Plain data, to be stored. */
export interface Program {
  /** One script, ready for the sandbox. */
  readonly code: string;
  /** SHA-256 of the code, in hexadecimal digits. */
  readonly digest: string;
  /** The exported functions that mean something: `setupPlugin`, `processEvent`, `onEvent`, … */
  readonly methods: readonly string[];
  readonly jobs: readonly string[];
  /** `runEveryMinute`, `runEveryHour`, `runEveryDay`, as far as exported. */
  readonly scheduledTasks: readonly string[];
  /** Metrics that the source declares (`metrics`), by name: `sum`, `max`, `min`. */
  readonly metrics: Readonly<Record<string, string>>;
}

export type CompileOutcome =
  | { readonly kind: "compiled"; readonly program: Program }
  | { readonly kind: "refused"; readonly problems: readonly SourceProblem[] };

/** An event as a transformation sees it (posthog-api 6.9): `uuid`, `event`, `distinct_id`, `team_id`, … */
export type SandboxEvent = JsonObject;

/** An attached file; its contents reach the transformation as bytes. */
export interface SandboxAttachment {
  readonly contentType: string;
  readonly fileName: string;
  readonly contents: Uint8Array;
}

export interface SandboxLimits {
  /** CPU for loading the code and `setupPlugin` each. */
  readonly loadCpuMs: number;
  /** CPU for one event, and for one other call. */
  readonly eventCpuMs: number;
  /** Time until an event, another call or `setupPlugin` that waits for answers is given up. */
  readonly waitMs: number;
  readonly memoryMiB: number;
  /** Characters of JSON that a call may answer, and that become of an event which had many before. */
  readonly outputLength: number;
  /**
   * Characters of JSON that one event may become, unless it had about as many already: what is behind
   * has to read all of them in its own time.
   */
  readonly eventLength: number;
  /** Lines of log for one batch or call; more are counted, and told in one line. */
  readonly logLines: number;
  /** Answers of `fetch` may have so many bytes. */
  readonly fetchBytes: number;
  readonly fetchMs: number;
}

export const DEFAULT_LIMITS: SandboxLimits = {
  loadCpuMs: 1_000,
  eventCpuMs: 100,
  waitMs: 10_000,
  memoryMiB: 32,
  outputLength: 4_000_000,
  eventLength: 250_000,
  logLines: 100,
  fetchBytes: 2_000_000,
  fetchMs: 5_000,
};

/** The settings that bound transformations. */
export interface LimitSettings {
  readonly pluginCpuMs: number;
  readonly pluginLoadMs: number;
  readonly pluginMemoryMb: number;
  readonly pluginOutputKb: number;
  readonly pluginLogLines: number;
}

/** The limits of every transformation, as the operator says. */
export function sandboxLimitsOf(settings: LimitSettings): SandboxLimits {
  const { pluginCpuMs, pluginLoadMs, pluginMemoryMb, pluginOutputKb, pluginLogLines } = settings;
  return {
    ...DEFAULT_LIMITS,
    eventCpuMs: pluginCpuMs,
    loadCpuMs: pluginLoadMs,
    memoryMiB: pluginMemoryMb,
    eventLength: pluginOutputKb * 1_000,
    logLines: pluginLogLines,
  };
}

export type LogLevel = "debug" | "info" | "log" | "warn" | "error";

/** A line that a transformation wrote (`console`), or the sandbox about it (`system`). */
export interface SandboxLogLine {
  readonly at: Date;
  readonly source: "console" | "system";
  readonly level: LogLevel;
  /** At most 8,000 characters. */
  readonly message: string;
}

/** What a transformation captures by `posthog.capture`. */
export interface SandboxCapture {
  readonly event: string;
  /** Given, or null: the host chooses what stands for the transformation. */
  readonly distinctId: string | null;
  readonly properties: JsonObject;
  readonly timestamp: string | null;
}

/** Events that one event may have captured. */
export const MAX_CAPTURES = 10;

/**
 * Where a capture came from: the event under way, if there is one; its hop count tells the depth. Where
 * it is not known of which it is, the one that is likely, and the hop count of the event that had begun it
 * and has ended.
 */
export interface SandboxCause {
  readonly event: GivenEvent | null;
  readonly isLikely?: boolean;
  readonly hops?: number;
}

/**
 * What an instance may ask of the outside, answered on the main thread. A rejection reaches the
 * transformation as an error with the same message, so messages must not tell secrets.
 */
export interface InstanceHost {
  /** Where the service is reached: `posthog.api` asks there unless it is told another host. */
  readonly siteUrl?: string;
  log(lines: readonly SandboxLogLine[]): void;
  readStored(key: string): Promise<Json | undefined>;
  writeStored(key: string, value: Json, cause: SandboxCause): Promise<void>;
  deleteStored(key: string, cause: SandboxCause): Promise<void>;
  /** Rejects when the event is refused, for instance because of its depth. */
  capture(capture: SandboxCapture, cause: SandboxCause): Promise<void>;
  enqueueJob(name: string, payload: Json, runAt: Date, cause: SandboxCause): Promise<void>;
  /** Events are begun anew: what they asked for before must come to nothing, but for what they stored. */
  beginAnew?(events: readonly GivenEvent[]): void;
  /** What events that are begun anew had stored must come to nothing. */
  undoStored?(events: readonly GivenEvent[]): void;
  /** What `meta.geoip.locate` answers (MaxMind's record of a city); null when nothing is known. */
  locate(address: string): Promise<Json | null>;
  countMetric(name: string, kind: "sum" | "max" | "min", value: number, cause: SandboxCause): void;
}

export interface InstanceSettings {
  readonly program: Program;
  readonly projectId: number;
  readonly configId: number;
  readonly name: string;
  readonly config: JsonObject;
  readonly attachments: Readonly<Record<string, SandboxAttachment>>;
  /** Hosts that `fetch` may ask: `api.example.com`, `*.example.com`, with `:port` if not 443 or 80. */
  readonly allowedHosts: readonly string[];
  readonly limits: SandboxLimits;
  readonly host: InstanceHost;
}

export type StartOutcome =
  | { readonly kind: "started"; readonly instance: Instance }
  | {
      readonly kind: "failed";
      readonly reason: string;
      readonly isLimit: boolean;
      /** It threw a `RetryError`: it may go well later. */
      readonly wantsRetry?: boolean;
    };

/**
 * What became of an event.
 * - `keep`: goes on; `event` is what it became, absent when nothing changed.
 * - `drop`: the transformation answered nothing.
 * - `failed`: goes on as it was. `isLimit` when a limit was exceeded.
 * - `cpuMs`: time that the transformation computed for it.
 */
export type EventOutcome =
  | { readonly kind: "keep"; readonly event?: SandboxEvent; readonly cpuMs: number }
  | { readonly kind: "drop"; readonly cpuMs: number }
  | {
      readonly kind: "failed";
      readonly reason: string;
      readonly isLimit: boolean;
      readonly cpuMs: number;
    };

/** An event on its way through many transformations: as it is, and as the text that the next is given. */
export interface GivenEvent {
  /** May be made when it is asked for, which is seldom; may lack what only the text says. */
  readonly event: SandboxEvent;
  /** JSON of it as `JSON.stringify` writes it, so without line breaks. */
  readonly line: string;
  /** How deep it was captured by transformations itself. */
  readonly hops: number;
}

/**
 * What became of an event of which only the differences are told: kept without a `change`, it is the
 * same as before. Otherwise as {@link EventOutcome}; or not begun, since the batch was cut.
 */
export type TextOutcome =
  | { readonly kind: "keep"; readonly change?: EventChange; readonly cpuMs: number }
  | Exclude<EventOutcome, { kind: "keep" }>
  | { readonly kind: "not-run" };

/**
 * A call beside the stream of events. Jobs are called as `{ kind: "job", name, payload }`, with what is
 * known of the event that asked for it where that was captured by transformations: how deep.
 */
export type SandboxCall =
  | { readonly kind: "runEveryMinute" | "runEveryHour" | "runEveryDay" | "teardownPlugin" }
  | { readonly kind: "onEvent" | "exportEvents" | "composeWebhook"; readonly event: SandboxEvent }
  | {
      readonly kind: "job";
      readonly name: string;
      readonly payload: Json;
      readonly event?: SandboxEvent;
    };

/** `value` is what the function answered, as far as JSON can tell it; null for nothing. */
export type CallOutcome =
  | { readonly kind: "answered"; readonly value: Json; readonly cpuMs: number }
  | { readonly kind: "absent" }
  | {
      readonly kind: "failed";
      readonly reason: string;
      readonly isLimit: boolean;
      /** It threw a `RetryError`: it may go well later. */
      readonly wantsRetry: boolean;
      readonly cpuMs: number;
    };

/**
 * A transformation that runs for one config, with memory of its own. Never rejects for what the
 * transformation does. After an exceeded limit the memory (`global`, `cache`) may start anew, with
 * `setupPlugin`; that is not seen from here.
 */
export interface Instance {
  /**
   * Events in their order; one outcome for each. Batches of one instance run one after the other. Once
   * it is told to cut them, no event begins any more, and those that have begun are waited for.
   */
  pass(events: readonly GivenEvent[], cut?: AbortSignal): Promise<readonly TextOutcome[]>;
  /** The same with whole events: for few of them. */
  transform(events: readonly SandboxEvent[]): Promise<readonly EventOutcome[]>;
  call(call: SandboxCall): Promise<CallOutcome>;
  /** Frees what it holds, without `teardownPlugin`; what is under way fails. */
  stop(): Promise<void>;
}

/** Runs code of others: it cannot read the host, outlive its limits or see other instances. */
export interface Sandbox {
  /** Bundles and transpiles a source, and loads it once to learn what it exports. */
  compile(files: SourceFiles): Promise<CompileOutcome>;
  /** Loads the program and runs `setupPlugin`. */
  start(settings: InstanceSettings): Promise<StartOutcome>;
  close(): Promise<void>;
}

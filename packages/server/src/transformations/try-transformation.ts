import { isDeepStrictEqual } from "node:util";
import { isJsonObject, type Json, type JsonObject, ownValue } from "@hedgerow/core/json";
import { type PluginEvent, takeAnswer } from "@hedgerow/core/transformations/plugin-event";
import type {
  Attachment,
  TransformationFiles,
} from "@hedgerow/core/transformations/transformation";
import { Refusal } from "../http/errors.ts";
import { createGate } from "../platform/gate.ts";
import { compileSource, readSourceFiles } from "./compile-source.ts";
import {
  DEFAULT_LIMITS,
  type EventOutcome,
  type Instance,
  type InstanceHost,
  type Program,
  type Sandbox,
  type SandboxLimits,
  type SandboxLogLine,
} from "./sandbox.ts";

/** What is tried: a source with settings, on events that it may do with what it likes. */
export interface Trial {
  readonly projectId: number;
  /** The config that it stands for; 0 for none. */
  readonly configId: number;
  readonly name: string;
  readonly files: TransformationFiles;
  readonly config: JsonObject;
  readonly attachments: readonly Attachment[];
  readonly allowedHosts: readonly string[];
  /** As they would come to the first transformation. */
  readonly events: readonly PluginEvent[];
}

/** How one field of an event differs; `path` is dotted, `before` or `after` absent where there was none. */
export interface EventChange {
  readonly path: string;
  readonly before?: Json;
  readonly after?: Json;
}

/** What became of one event. */
export interface TrialResult {
  readonly outcome: "unchanged" | "changed" | "dropped" | "failed";
  readonly before: PluginEvent;
  /** What goes on; `null` for a dropped event. */
  readonly after: PluginEvent | null;
  readonly changes: readonly EventChange[];
  readonly error: string | null;
  readonly cpuMs: number;
}

export interface TrialOutcome {
  /** Why it does not even start; nothing is tried then. */
  readonly startError: string | null;
  readonly results: readonly TrialResult[];
  readonly logs: readonly SandboxLogLine[];
  /** What it would have captured by `posthog.capture`. */
  readonly captured: readonly JsonObject[];
  /** Jobs that it asked for. */
  readonly jobs: readonly JsonObject[];
  readonly methods: readonly string[];
  readonly startMs: number;
  readonly runMs: number;
}

/**
 * Tries a source without any effect: what it stores, captures and plans is told, then forgotten. Only
 * hosts that the trial itself grants are asked, in earnest.
 */
export type TryTransformation = (trial: Trial) => Promise<TrialOutcome>;

const MAX_KEPT = 1_000;

/** @param locate what is known of an address, as plugins read it */
export function createTryTransformation({
  sandbox,
  locate,
  siteUrl,
  limits = DEFAULT_LIMITS,
}: {
  sandbox: Pick<Sandbox, "compile" | "start">;
  locate: (address: string) => Promise<Json | null>;
  siteUrl: string;
  limits?: SandboxLimits;
}): TryTransformation {
  const gate = createGate(TRIALS);

  const attempt = async (program: Program, trial: Trial): Promise<TrialOutcome> => {
    const record = createRecord(locate);
    const startedAt = performance.now();
    const start = await sandbox.start({
      program,
      projectId: trial.projectId,
      configId: trial.configId,
      name: trial.name,
      config: trial.config,
      attachments: Object.fromEntries(trial.attachments.map((one) => [one.key, one])),
      allowedHosts: trial.allowedHosts,
      limits,
      host: { ...record.host, siteUrl },
    });
    const runFrom = performance.now();
    const startMs = round(runFrom - startedAt);
    const { methods } = program;
    if (start.kind === "failed") {
      const startError = start.reason;
      return { ...record.kept(), methods, startError, results: [], startMs, runMs: 0 };
    }
    try {
      const results = await run(start.instance, trial);
      const runMs = round(performance.now() - runFrom);
      return { ...record.kept(), methods, startError: null, results, startMs, runMs };
    } finally {
      await start.instance.stop();
    }
  };

  return async (trial) => {
    const files = readSourceFiles(trial.files);
    const outcome = await gate.through(async () => {
      const program = await compileSource(sandbox, files, "source");
      if (!program) {
        throw new Refusal("invalid_input", "There is no code to try.", { attr: "source" });
      }
      return attempt(program, trial);
    });
    if (outcome === "full") throw new Refusal("throttled", "Too many trials are running.");
    return outcome;
  };
}

/** Each takes the memory of a sandbox, and what its source takes to be compiled. */
const TRIALS = { maxRunning: 2, maxWaiting: 50 };

async function run(instance: Instance, { events }: Trial): Promise<readonly TrialResult[]> {
  const outcomes = await instance.transform(events);
  return events.map((before, index) => {
    const outcome = outcomes[index];
    if (!outcome) throw new Error("an event without an outcome");
    return resultOf(before, outcome);
  });
}

function resultOf(before: PluginEvent, outcome: EventOutcome): TrialResult {
  const cpuMs = round(outcome.cpuMs);
  const same = { before, after: before, changes: [], error: null, cpuMs };
  switch (outcome.kind) {
    case "drop":
      return { ...same, outcome: "dropped", after: null };
    case "failed":
      return { ...same, outcome: "failed", error: outcome.reason };
    case "keep": {
      if (!outcome.event) return { ...same, outcome: "unchanged" };
      const taken = takeAnswer(before, outcome.event);
      if (taken.kind === "refused") return { ...same, outcome: "failed", error: taken.reason };
      const changes = changesOf(before, taken.event, "");
      if (changes.length === 0) return { ...same, outcome: "unchanged" };
      return { ...same, outcome: "changed", after: taken.event, changes };
    }
  }
}

function changesOf(before: JsonObject, after: JsonObject, prefix: string): readonly EventChange[] {
  const keys = [...new Set([...Object.keys(before), ...Object.keys(after)])];
  return keys.flatMap((key): readonly EventChange[] => {
    const [from, to] = [ownValue(before, key), ownValue(after, key)];
    if (isDeepStrictEqual(from, to)) return [];
    const path = prefix + key;
    if (isJsonObject(from) && isJsonObject(to)) return changesOf(from, to, `${path}.`);
    return [
      { path, ...(from !== undefined && { before: from }), ...(to !== undefined && { after: to }) },
    ];
  });
}

/** A host that does nothing but remember what was asked of it. */
function createRecord(locate: (address: string) => Promise<Json | null>) {
  const logs: SandboxLogLine[] = [];
  const captured: JsonObject[] = [];
  const jobs: JsonObject[] = [];
  const stored = new Map<string, Json>();
  const keep = <Item>(list: Item[], items: readonly Item[]): void => {
    list.push(...items.slice(0, Math.max(0, MAX_KEPT - list.length)));
  };
  const host: InstanceHost = {
    log: (lines) => keep(logs, lines),
    readStored: async (key) => stored.get(key),
    writeStored: async (key, value) => {
      if (stored.size >= MAX_KEPT && !stored.has(key)) throw new Error("the storage is full");
      stored.set(key, value);
    },
    deleteStored: async (key) => {
      stored.delete(key);
    },
    capture: async ({ event, distinctId, properties, timestamp }) => {
      if (event.trim() === "") {
        const message = "posthog.capture was refused: an event needs a name";
        keep(logs, [{ at: new Date(), source: "system", level: "warn", message }]);
        throw new Error(message);
      }
      keep(captured, [{ event, distinct_id: distinctId, properties, timestamp }]);
    },
    enqueueJob: async (name, payload, runAt) =>
      keep(jobs, [{ name, payload, run_at: runAt.toISOString() }]),
    locate,
    countMetric: () => {},
  };
  return { host, kept: () => ({ logs, captured, jobs }) };
}

function round(ms: number): number {
  return Math.round(ms * 1_000) / 1_000;
}

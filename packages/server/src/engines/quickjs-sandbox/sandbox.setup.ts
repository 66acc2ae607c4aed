import type { Json, JsonObject } from "@hedgerow/core/json";
import {
  DEFAULT_LIMITS,
  type EventOutcome,
  type Instance,
  type InstanceHost,
  type InstanceSettings,
  type Sandbox,
  type SandboxEvent,
  type SandboxLogLine,
  type SourceFiles,
} from "../../transformations/sandbox.ts";

/** What a host was asked, for a test to look at. */
export interface HostRecord {
  readonly host: InstanceHost;
  readonly lines: SandboxLogLine[];
  readonly stored: Map<string, Json>;
  readonly captured: JsonObject[];
  readonly jobs: JsonObject[];
  readonly metrics: JsonObject[];
}

export function recordHost(): HostRecord {
  const lines: SandboxLogLine[] = [];
  const stored = new Map<string, Json>();
  const captured: JsonObject[] = [];
  const jobs: JsonObject[] = [];
  const metrics: JsonObject[] = [];
  const host: InstanceHost = {
    log: (more) => lines.push(...more),
    readStored: async (key) => stored.get(key),
    writeStored: async (key, value) => {
      stored.set(key, value);
    },
    deleteStored: async (key) => {
      stored.delete(key);
    },
    capture: async ({ event, properties }, { event: cause }) => {
      captured.push({ event, properties, of: cause?.event["uuid"] ?? null });
    },
    enqueueJob: async (name, payload, runAt) => {
      jobs.push({ name, payload, at: runAt.toISOString() });
    },
    locate: async (address) =>
      address === "89.160.20.112" ? { city: { names: { en: "Linköping" } } } : null,
    countMetric: (name, kind, value) => {
      metrics.push({ name, kind, value });
    },
  };
  return { host, lines, stored, captured, jobs, metrics };
}

/** A transformation of one source that runs; throws where it does not even start. */
export async function startSource(
  sandbox: Sandbox,
  source: string | SourceFiles,
  settings: Partial<InstanceSettings> = {},
): Promise<Instance> {
  const compiled = await sandbox.compile(
    typeof source === "string" ? { "index.js": source } : source,
  );
  if (compiled.kind === "refused") throw new Error(JSON.stringify(compiled.problems));
  const started = await sandbox.start({
    program: compiled.program,
    projectId: 1,
    configId: 1,
    name: "of a test",
    config: {},
    attachments: {},
    allowedHosts: [],
    limits: DEFAULT_LIMITS,
    host: recordHost().host,
    ...settings,
  });
  if (started.kind === "failed") throw new Error(started.reason);
  return started.instance;
}

export function sampleEvents(count: number, properties: JsonObject = {}): SandboxEvent[] {
  return Array.from({ length: count }, (_, index) => ({
    uuid: `uuid-${index}`,
    event: `event ${index}`,
    distinct_id: `person ${index}`,
    team_id: 1,
    ip: null,
    now: "2026-01-02T03:04:05.000Z",
    timestamp: "2026-01-02T03:04:05.000Z",
    properties,
  }));
}

/** The properties that one event has after a transformation; what it became when it has none. */
export async function propertiesAfter(
  sandbox: Sandbox,
  source: string | SourceFiles,
  settings: Partial<InstanceSettings> = {},
): Promise<Json> {
  const instance = await startSource(sandbox, source, settings);
  const [outcome] = await instance.transform(sampleEvents(1));
  await instance.stop();
  return readOutcome(outcome);
}

export function readOutcome(outcome: EventOutcome | undefined): Json {
  if (outcome?.kind === "failed") return `failed: ${outcome.reason}`;
  if (outcome?.kind !== "keep") return outcome?.kind ?? null;
  return outcome.event === undefined ? "unchanged" : (outcome.event["properties"] ?? null);
}

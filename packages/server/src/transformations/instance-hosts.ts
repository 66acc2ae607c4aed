import type { CapturedEvent } from "@hedgerow/core/events/event";
import { isJsonObject, type Json, ownValue } from "@hedgerow/core/json";
import { hopsOf } from "@hedgerow/core/transformations/plugin-event";
import type { IngestionWarnings } from "../events/ingestion-warnings.ts";
import type { PlaceRecords } from "../persons/geo-ip.ts";
import { captureFrom } from "./capture-from-transformation.ts";
import { type EventUnderWay, uuidOf } from "./run-transformations.ts";
import type { InstanceHost, SandboxCapture, SandboxCause } from "./sandbox.ts";
import type { Stage } from "./stage.ts";
import type { StorageBuffer } from "./storage-buffer.ts";
import type { TransformationJournal } from "./transformation-journal.ts";
import type { TransformationJobs } from "./transformation-records.ts";

/** Answers what running transformations ask of the service. */
export interface InstanceHosts {
  hostFor(stage: Stage): InstanceHost;
  /** Until what it answers is called, captures of a stage belong to these events. */
  watch(stage: Stage, events: readonly EventUnderWay[]): () => void;
}

const MAX_REMEMBERED = 1_000;
/** Refusals of jobs are told so often. */
const TELL_AGAIN_MS = 10_000;
const NO_SDK = { name: "", version: "" };

export function createInstanceHosts({
  journal,
  places,
  storage,
  jobs,
  capture,
  warnings,
  clock,
  newUuid,
  siteUrl,
}: {
  journal: TransformationJournal;
  places: PlaceRecords;
  storage: StorageBuffer;
  jobs: Pick<TransformationJobs, "add">;
  /** Takes events that hang on none under way. */
  capture: (events: readonly CapturedEvent[]) => Promise<unknown>;
  warnings: Pick<IngestionWarnings, "note">;
  clock: () => Date;
  newUuid: () => string;
  siteUrl: string;
}): InstanceHosts {
  /** By config: the events that its stage is given at the moment, by the uuid it knows them by. */
  const watched = new Map<Stage, Map<string, EventUnderWay>>();
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
  const full = new Map<number, { toldAtMs: number; refused: number }>();

  /** Nobody may wait for the promise of a refused job. */
  function tellFull(stage: Stage): void {
    const nowMs = clock().getTime();
    const known = full.get(stage.configId);
    const refused = (known?.refused ?? 0) + 1;
    if (known && nowMs - known.toldAtMs < TELL_AGAIN_MS) {
      known.refused = refused;
      return;
    }
    full.set(stage.configId, { toldAtMs: nowMs, refused: 0 });
    const count = refused === 1 ? "A job was" : `${refused} jobs were`;
    const message = `${count} refused: too many of this transformation wait.`;
    journal.log(stage, { source: "SYSTEM", level: "warn", message });
  }

  async function take(stage: Stage, asked: SandboxCapture, { event }: SandboxCause): Promise<void> {
    const uuid = event ? uuidOf(event) : newUuid();
    const under = watched.get(stage)?.get(uuid);
    const properties = event ? ownValue(event, "properties") : undefined;
    const outside = isJsonObject(properties) ? hopsOf(properties) : 0;
    const source = under?.entry.event;
    const made = captureFrom(stage, asked, {
      hops: under?.hops ?? outside,
      uuid: source?.uuid ?? uuid,
      index: under
        ? under.captured.filter((one) => one.properties[FROM] === stage.configId).length
        : nextIndex(stage, uuid),
      at: source?.receivedAt ?? clock(),
    });
    if ("refusal" in made) {
      const detail = `${stage.label}: ${REFUSALS[made.refusal]}`;
      const sample = { event: asked.event, detail };
      const type = `transformation_capture_${made.refusal.replace("-", "_")}`;
      warnings.note(stage.projectId, { type, sdk: NO_SDK, sample });
      throw new Error(`posthog.capture was refused: ${REFUSALS[made.refusal]}`);
    }
    const marked = { ...made, properties: { ...made.properties, [FROM]: stage.configId } };
    if (under) under.captured.push(marked);
    else await capture([marked]);
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
      readStored: (key) => storage.get(stage, key),
      writeStored: (key, value) => storage.set(stage, key, value),
      deleteStored: (key) => storage.set(stage, key, undefined),
      capture: (asked, cause) => take(stage, asked, cause),
      async enqueueJob(name, payload: Json, runAt) {
        const { projectId, configId } = stage;
        const added = await jobs.add({ projectId, configId, name, payload, runAt });
        if (added !== "full") return;
        tellFull(stage);
        throw new Error("too many jobs of this transformation wait");
      },
      locate: (address) => places.locate(address),
      countMetric: (name, kind, value) => journal.countOwn(stage, name, { kind, value }),
    }),

    watch(stage, events) {
      const byUuid = new Map<string, EventUnderWay>();
      for (const one of events) byUuid.set(uuidOf(one.event), one);
      watched.set(stage, byUuid);
      return () => {
        if (watched.get(stage) === byUuid) watched.delete(stage);
      };
    },
  };
}

/** Names the config that captured an event. */
const FROM = "$transformation_config_id";

const REFUSALS = {
  "too-deep": "events that were captured from captured ones three times over may capture no more",
  "too-many": "one event may not capture more",
  "no-name": "an event needs a name",
} as const;

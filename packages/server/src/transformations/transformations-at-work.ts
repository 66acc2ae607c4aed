import { cleanText } from "@hedgerow/core/events/clean-json";
import type { CapturedEvent } from "@hedgerow/core/events/event";
import type { ConfigProblem } from "@hedgerow/core/transformations/transformation";
import type { LogLanes } from "../events/event-log.ts";
import type { EventRows } from "../events/event-store.ts";
import type { IngestionWarnings } from "../events/ingestion-warnings.ts";
import type { Step } from "../events/steps/step.ts";
import type { PlaceRecords } from "../persons/geo-ip.ts";
import type { PersonStore } from "../persons/person-store.ts";
import { atMost } from "../platform/at-most.ts";
import type { GuardedRequestOptions } from "../platform/guarded-request.ts";
import { createChains } from "./chains.ts";
import { createEventDelivery } from "./deliver-events.ts";
import { createHandOver } from "./event-effects.ts";
import { createInstanceHosts } from "./instance-hosts.ts";
import { createNeighbours } from "./neighbours.ts";
import { type CountsObserver, createPassedCounts } from "./passed-counts.ts";
import { createRunLater } from "./run-later.ts";
import { runTransformations } from "./run-transformations.ts";
import { DEFAULT_LIMITS, type Sandbox, type SandboxLimits } from "./sandbox.ts";
import { isFailure, type Stage } from "./stage.ts";
import { createStorageBuffer } from "./storage-buffer.ts";
import type { TransformationConfigStore } from "./transformation-config-store.ts";
import { createTransformationJournal } from "./transformation-journal.ts";
import type {
  TransformationEffects,
  TransformationJobs,
  TransformationRecords,
  TransformationStorage,
} from "./transformation-records.ts";
import type { TransformationStore } from "./transformation-store.ts";

/** Transformations as they run in this process. */
export interface TransformationsAtWork {
  /** Takes events through the transformations of their projects. */
  readonly step: Step;
  /** Whether events of a project have to pass any, asked for each that comes. */
  isAtWork(projectId: number): boolean;
  /** To be told of rows once they are stored. */
  note(rows: EventRows): void;
  /** What was committed before the call is at work when this resolves; reports faults itself. */
  changed(projectId: number): Promise<void>;
  /**
   * Starts an enabled config where it is not started yet, and waits for that, though not for long:
   * what it came to is its {@link startProblem}. Never rejects.
   */
  tryStart(projectId: number, configId: number): Promise<void>;
  /** Why a config that is at work does not start; `null` where it does, or nothing is known yet. */
  startProblem(projectId: number, configId: number): ConfigProblem | null;
  /** Writes what has been counted and logged so far. */
  flush(): Promise<void>;
  /** Runs what is due by the clock, as happens each second by itself. */
  tick(): Promise<void>;
  close(): Promise<void>;
}

export interface AtWorkDeps {
  readonly configs: Pick<TransformationConfigStore, "configsToRun" | "projectsToRun" | "revisions">;
  readonly sandbox: Pick<Sandbox, "start">;
  readonly records: TransformationRecords;
  readonly storage: TransformationStorage;
  readonly jobs: TransformationJobs;
  /** What events stored, asked for and came to, as it comes from the log. */
  readonly effects: TransformationEffects;
  readonly lanes: Pick<LogLanes, "effects" | "forgetEffects" | "areEffectsMany">;
  readonly places: PlaceRecords;
  readonly persons: Pick<PersonStore, "personByDistinctId">;
  /** Takes events that transformations capture outside of events; survives a crash. */
  readonly capture: (events: readonly CapturedEvent[]) => Promise<unknown>;
  readonly warnings: Pick<IngestionWarnings, "note">;
  /** Takes a config out of work, with a reason for its owners; `false` where it is not at work. */
  readonly disableFailing: (projectId: number, id: number, reason: string) => Promise<boolean>;
  readonly observer: CountsObserver & { disabled(): void };
  /** Whether webhooks may reach an address that is not public; unless given, none may. */
  readonly isAllowed?: GuardedRequestOptions["isAllowed"];
  readonly limits?: SandboxLimits;
  /** How long whoever enables a config waits to see whether it starts; five seconds unless given. */
  readonly tryStartMs?: number;
  readonly siteUrl: string;
  readonly recordDays: number;
  readonly versions: Pick<TransformationStore, "pruneVersions">;
  /** Newest versions of each source that are kept, however long ago they were replaced. */
  readonly versionsKept: number;
  readonly clock: () => Date;
  readonly newUuid: () => string;
  readonly reportFault: (error: unknown, context: string) => void;
}

const DOES_NOTHING =
  "It exports nothing that is ever called, such as processEvent or onEvent: it does nothing.";
const TICK_MS = 1_000;
const TRY_START_MS = 5_000;
const FLUSH_MS = 2_000;
const PRUNE_MS = 3_600_000;
const DAY_MS = 86_400_000;

function startMessage(reason: string): string {
  return `It does not start: ${reason}`;
}

/** Loads what is enabled, and runs it from now on. */
export async function startTransformations(deps: AtWorkDeps): Promise<TransformationsAtWork> {
  const { clock, newUuid, reportFault, jobs, siteUrl, warnings } = deps;
  const journal = createTransformationJournal({
    ...{ records: deps.records, clock, newUuid, reportFault },
  });
  const handOver = createHandOver({
    ...{ log: deps.lanes, effects: deps.effects, reportFault },
    onRefused: (job) => hosts.refused(job),
  });
  const storage = createStorageBuffer({ storage: deps.storage, handOver, reportFault });
  const hosts = createInstanceHosts({
    ...{ journal, places: deps.places, storage, jobs, capture: deps.capture, warnings },
    ...{ clock, newUuid, siteUrl, reportFault },
    stageOf: ({ projectId, configId }) => chains.stage(projectId, configId),
  });
  const chains = createChains({
    ...{ configs: deps.configs, sandbox: deps.sandbox, hostFor: hosts.hostFor, reportFault },
    limits: deps.limits ?? DEFAULT_LIMITS,
    nowMs: () => clock().getTime(),
    onStarted(stage, before) {
      const version = `Version ${stage.version}`;
      const what =
        before === undefined
          ? "is in place"
          : before.version === stage.version
            ? "begins anew with what was changed of its config"
            : `takes the place of version ${before.version}`;
      const message = `${version} ${what}, from the next event on.`;
      journal.log(stage, { source: "SYSTEM", level: "info", message });
      const { methods, jobs: declared } = stage.program;
      if (methods.length + declared.length > 0) return;
      journal.log(stage, { source: "SYSTEM", level: "warn", message: DOES_NOTHING });
    },
  });

  /** What is out of work and not noted as disabled, with the reason. */
  const unsaved = new Map<Stage, string>();

  function disable(stage: Stage, why: string): void {
    const reason = cleanText(why);
    stage.takeOut();
    const { projectId, label } = stage;
    const message = `Disabled. ${reason}`;
    journal.log(stage, { source: "SYSTEM", level: "error", message });
    const sample = { detail: `${label}: ${reason}` };
    const sdk = { name: "", version: "" };
    warnings.note(projectId, { type: "transformation_disabled", sdk, sample });
    deps.observer.disabled();
    unsaved.set(stage, reason);
    void saveDisabled();
  }

  /** Notes of what is out of work that it is disabled; what fails is tried again. */
  async function saveDisabled(): Promise<void> {
    for (const [stage, reason] of [...unsaved]) {
      unsaved.delete(stage);
      const { projectId, configId, label } = stage;
      try {
        await deps.disableFailing(projectId, configId, reason);
        await changed(projectId);
      } catch (error) {
        unsaved.set(stage, reason);
        reportFault(error, `${label} could not be disabled`);
      }
    }
  }

  const delivery = createEventDelivery({
    ...{ chains, journal, jobs, persons: deps.persons, disable, siteUrl, clock },
    isAllowed: deps.isAllowed,
  });
  const later = createRunLater({
    ...{ chains, jobs, journal, send: delivery.send, disable, clock, reportFault },
  });

  async function changed(projectId: number): Promise<void> {
    try {
      await chains.refresh(projectId);
    } catch (error) {
      reportFault(error, `transformations of project ${projectId} could not be read`);
    }
  }

  async function tryStart(projectId: number, configId: number): Promise<void> {
    const stage = chains.stage(projectId, configId);
    if (!stage || stage.isOut) return;
    const started = stage.use(async (outcome) => {
      if (isFailure(outcome)) {
        const message = startMessage(outcome.reason);
        journal.log(stage, { source: "PLUGIN", level: "error", message });
      }
    });
    await atMost(
      deps.tryStartMs ?? TRY_START_MS,
      started.catch(() => {}),
    );
  }

  async function flush(): Promise<void> {
    await storage.flush();
    await hosts.flush();
    await journal.flush();
    await saveDisabled();
  }

  async function prune(): Promise<void> {
    try {
      const before = new Date(clock().getTime() - deps.recordDays * DAY_MS);
      await deps.records.prune(before);
      // Receipts name versions for as long.
      await deps.versions.pruneVersions(before, deps.versionsKept);
    } catch (error) {
      reportFault(error, "old records of transformations could not be removed");
    }
  }

  // Before anybody reads what is stored, and before any lane goes on.
  while (!(await handOver()).isAll);
  await chains.load();
  let flushing: Promise<void> | undefined;
  const timers = [
    setInterval(() => {
      void chains.checkRevisions();
      void later.tick();
    }, TICK_MS),
    setInterval(() => {
      flushing ??= flush().finally(() => {
        flushing = undefined;
      });
    }, FLUSH_MS),
    setInterval(() => void prune(), PRUNE_MS),
  ];
  for (const timer of timers) timer.unref();
  void prune();

  return {
    step: runTransformations({
      ...{ chains, journal, disable, siteUrl },
      ...{ seal: hosts.seal, release: hosts.release, undo: hosts.undo, beginAnew: hosts.beginAnew },
      beginCounts: createPassedCounts({
        ...{ lanes: deps.lanes, journal, observer: deps.observer, clock },
      }),
      neighbours: createNeighbours(),
    }),
    isAtWork: (projectId) => (chains.get(projectId)?.transforming.length ?? 0) > 0,
    note: delivery.note,
    changed,
    tryStart,
    startProblem(projectId, configId) {
      const codelessSince = chains.get(projectId)?.withoutCode.get(configId);
      if (codelessSince) return { message: "Its source holds no code.", at: codelessSince };
      const problem = chains.stage(projectId, configId)?.startProblem;
      return problem ? { ...problem, message: startMessage(problem.message) } : null;
    },
    flush,
    tick: later.tick,
    async close() {
      for (const timer of timers) clearInterval(timer);
      await delivery.close();
      const ended = later.close();
      await chains.close();
      await ended;
      await flushing;
      await flush();
    },
  };
}

import { encodeJson } from "@hedgerow/core/exact-json";
import type { JsonObject } from "@hedgerow/core/json";
import { configFieldsOf, withDefaults } from "@hedgerow/core/transformations/config-schema";
import type { ConfigProblem } from "@hedgerow/core/transformations/transformation";
import { withResolvers } from "../platform/with-resolvers.ts";
import type {
  CallOutcome,
  Instance,
  InstanceHost,
  Program,
  Sandbox,
  SandboxCall,
  SandboxLimits,
} from "./sandbox.ts";
import { createSuspicion, type Suspicion } from "./suspicion.ts";
import type { RunnableConfig } from "./transformation-config-store.ts";
import type { ConfigRef } from "./transformation-records.ts";

/** A config at work: one version of a transformation with its settings in a project. */
export interface Stage extends ConfigRef {
  readonly transformationId: number;
  /** The transformation's name, which it is known to events by. */
  readonly name: string;
  /** How events name it, as PostHog does: `<name> (<config id>)`. */
  readonly label: string;
  /** How receipts name it: with its version. */
  readonly versionLabel: string;
  readonly version: number;
  readonly program: Program;
  readonly allowedHosts: readonly string[];
  /** Everything it was made from: equal where nothing about it has changed. */
  readonly fingerprint: string;
  /** True when events pass through it. */
  readonly isTransforming: boolean;
  readonly suspicion: Suspicion;
  /** Milliseconds that an event takes, of late. */
  readonly pace: { ms: number };
  /** How often what it keeps could not be read, since the store was out of order. */
  readonly outages: { count: number };
  /** Why it did not start when that was last tried; `null` where it did, or was not tried. */
  readonly startProblem: ConfigProblem | null;
  /** Set once it is retired or taken out of work: nothing new is given to it. */
  readonly isOut: boolean;
  /** Set once it is taken out of work: not even what is under way is given to it. */
  readonly isTakenOut: boolean;
  takeOut(): void;
  /**
   * Keeps it running, be it retired meanwhile, until what is answered is called; tells when it is
   * retired or taken out.
   */
  hold(onOut?: () => void): () => void;
  /**
   * Runs work with its instance, which starts with the first; or with why there is none. An instance
   * that did not start is tried again after a while.
   */
  use<Result>(work: (started: Instance | StartFailure) => Promise<Result>): Promise<Result>;
  call(call: SandboxCall): Promise<CallOutcome>;
  /**
   * Gives up what its instance is busy with; the next use starts another one. `false` where it has
   * none that runs.
   */
  abandon(): boolean;
  /** Lets it finish what it has begun, tells it so, and frees what it holds. */
  retire(): Promise<void>;
}

export interface StartFailure {
  readonly kind: "failed";
  readonly reason: string;
  readonly isLimit: boolean;
  /** It asked to be started again later. */
  readonly wantsRetry: boolean;
  /** Failed starts in a row, but for those that asked for another, or met an outage. */
  readonly attempts: number;
  /** It could not read what it keeps: that is not held against it. */
  readonly isOutage: boolean;
}

/** Pauses between attempts to start; the last one again and again. */
const START_PAUSES_MS = [1_000, 5_000, 30_000];

/** A stage for a config, not started yet. */
export function createStage(
  runnable: RunnableConfig,
  program: Program,
  {
    sandbox,
    hostFor,
    limits,
    nowMs,
  }: {
    sandbox: Pick<Sandbox, "start">;
    hostFor: (stage: Stage) => InstanceHost;
    limits: SandboxLimits;
    nowMs: () => number;
  },
): Stage {
  const { config, transformation, version, attachments } = runnable;
  const { id: configId, projectId } = config;
  const name = transformation.name;
  const label = `${name} (${configId})`;
  const settings: JsonObject = withDefaults(
    config.config,
    configFieldsOf(transformation.configSchema),
  );
  let isOut = false;
  let isTakenOut = false;
  let starting: Promise<Instance | StartFailure> | undefined;
  let running: Instance | undefined;
  let attempts = 0;
  let nextTryMs = 0;
  let startProblem: ConfigProblem | null = null;
  const users = new Set<Promise<unknown>>();
  const listeners = new Set<() => void>();

  async function start(): Promise<Instance | StartFailure> {
    const { count } = stage.outages;
    const outcome = await sandbox.start({
      program,
      projectId,
      configId,
      name,
      config: settings,
      attachments: Object.fromEntries(attachments.map((one) => [one.key, one])),
      allowedHosts: config.allowedHosts,
      limits,
      host: hostFor(stage),
    });
    if (outcome.kind === "started") {
      attempts = 0;
      startProblem = null;
      running = outcome.instance;
      return running;
    }
    const { wantsRetry = false } = outcome;
    const isOutage = stage.outages.count > count;
    startProblem = { message: outcome.reason, at: new Date(nowMs()) };
    if (!wantsRetry && !isOutage) attempts++;
    const pauseMs = isOutage ? START_PAUSES_MS[0] : START_PAUSES_MS[attempts - 1];
    nextTryMs = nowMs() + (pauseMs ?? START_PAUSES_MS.at(-1) ?? 0);
    return { ...outcome, wantsRetry, attempts, isOutage };
  }

  async function instance(): Promise<Instance | StartFailure> {
    for (let known = starting; known; known = starting) {
      const started = await known;
      // Somebody else may have begun another start meanwhile.
      if (known !== starting) continue;
      if (!isFailure(started) || nowMs() < nextTryMs) return started;
      break;
    }
    starting = start().catch((error: unknown): StartFailure => {
      attempts++;
      nextTryMs = nowMs() + (START_PAUSES_MS.at(-1) ?? 0);
      const reason = error instanceof Error ? error.message : String(error);
      startProblem = { message: reason, at: new Date(nowMs()) };
      return {
        ...{ kind: "failed", reason, isLimit: false, wantsRetry: false, attempts },
        isOutage: false,
      };
    });
    return starting;
  }

  const stage: Stage = {
    projectId,
    configId,
    transformationId: transformation.id,
    name,
    label,
    versionLabel: `${label} v${version.version}`,
    version: version.version,
    program,
    allowedHosts: config.allowedHosts,
    fingerprint: fingerprintOf(runnable),
    isTransforming: ["processEvent", "processEventBatch"].some((method) =>
      program.methods.includes(method),
    ),
    suspicion: createSuspicion(nowMs),
    pace: { ms: 1 },
    outages: { count: 0 },
    get startProblem() {
      return startProblem;
    },
    get isOut() {
      return isOut;
    },
    get isTakenOut() {
      return isTakenOut;
    },
    takeOut() {
      isOut = true;
      isTakenOut = true;
      for (const tell of listeners) tell();
    },
    hold(onOut = () => {}) {
      const { promise, resolve } = withResolvers();
      const tell = () => onOut();
      users.add(promise);
      listeners.add(tell);
      return () => {
        users.delete(promise);
        listeners.delete(tell);
        resolve();
      };
    },
    async use(work) {
      const working = instance().then(work);
      const settled = working.catch(() => {});
      users.add(settled);
      try {
        return await working;
      } finally {
        users.delete(settled);
      }
    },
    call: (call) =>
      stage.use(async (started) =>
        isFailure(started)
          ? {
              kind: "failed",
              reason: started.reason,
              isLimit: started.isLimit,
              wantsRetry: started.wantsRetry,
              cpuMs: 0,
            }
          : started.call(call),
      ),
    abandon() {
      if (!running) return false;
      // What was under way is told that it failed.
      void running.stop();
      running = undefined;
      starting = undefined;
      return true;
    },
    async retire() {
      isOut = true;
      for (const tell of listeners) tell();
      await Promise.all(users);
      const started = await starting;
      if (!started || isFailure(started)) return;
      if (program.methods.includes("teardownPlugin")) {
        await started.call({ kind: "teardownPlugin" });
      }
      await started.stop();
    },
  };
  return stage;
}

export function isFailure(started: Instance | StartFailure): started is StartFailure {
  return "kind" in started;
}

function fingerprintOf({ config, transformation, version, attachments }: RunnableConfig): string {
  return encodeJson([
    config.config,
    config.allowedHosts,
    transformation.name,
    transformation.configSchema,
    version.version,
    version.program?.digest,
    attachments.map(({ key, fileName, contents }) => [key, fileName, hashOf(contents)]),
  ]);
}

/** Attachments are megabytes at most, and rarely read: FNV-1a tells a change well enough with their length. */
function hashOf(contents: Uint8Array): string {
  let hash = 0x811c9dc5;
  for (const byte of contents) hash = Math.imul(hash ^ byte, 0x01000193);
  return `${contents.length}:${hash >>> 0}`;
}

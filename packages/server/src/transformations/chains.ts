import { setTimeout as delay } from "node:timers/promises";
import type { InstanceHost, Sandbox, SandboxLimits } from "./sandbox.ts";
import { createStage, type Stage } from "./stage.ts";
import type { TransformationConfigStore } from "./transformation-config-store.ts";

/** What runs in a project at one revision of its configs, in order. Never changes. */
export interface Chain {
  readonly revision: number;
  /** All that are enabled and have code. */
  readonly stages: readonly Stage[];
  /** Those that events pass through. */
  readonly transforming: readonly Stage[];
  /** Enabled configs whose source holds no code, and since when that is so. */
  readonly withoutCode: ReadonlyMap<number, Date>;
}

/** The transformations at work in all projects. */
export interface Chains {
  /** `undefined` where nothing was ever enabled. */
  get(projectId: number): Chain | undefined;
  all(): Iterable<Chain>;
  stage(projectId: number, configId: number): Stage | undefined;
  /** Reads what every project has enabled. Reports what cannot be read of one, and goes on. */
  load(): Promise<void>;
  /**
   * Reads what a project has enabled now: whatever was committed before the call is at work when it
   * resolves. What has not changed goes on with its memory; what has gone finishes first.
   */
  refresh(projectId: number): Promise<void>;
  /** Takes in changes made by others. Reports faults, and never rejects. */
  checkRevisions(): Promise<void>;
  close(): Promise<void>;
}

/** What is under way when everything closes has so long; then it is given up. */
const CLOSE_MS = 1_000;

export function createChains({
  configs,
  sandbox,
  hostFor,
  limits,
  nowMs,
  onStarted,
  reportFault,
}: {
  configs: Pick<TransformationConfigStore, "configsToRun" | "projectsToRun" | "revisions">;
  sandbox: Pick<Sandbox, "start">;
  hostFor: (stage: Stage) => InstanceHost;
  limits: SandboxLimits;
  nowMs: () => number;
  /** Told of a stage that is new, or takes the place of one with another version or settings. */
  onStarted: (stage: Stage, before: Stage | undefined) => void;
  reportFault: (error: unknown, context: string) => void;
}): Chains {
  const chains = new Map<number, Chain>();
  const refreshing = new Map<number, Promise<void>>();
  const retiring = new Map<Promise<void>, Stage>();

  function retire(stage: Stage): void {
    const done = stage
      .retire()
      .catch((error: unknown) => reportFault(error, `${stage.label} could not be stopped`))
      .finally(() => retiring.delete(done));
    retiring.set(done, stage);
  }

  async function read(projectId: number): Promise<void> {
    const revision = (await configs.revisions([projectId])).get(projectId) ?? 0;
    const runnable = await configs.configsToRun(projectId);
    const before = chains.get(projectId);
    const earlier = new Map((before?.stages ?? []).map((stage) => [stage.configId, stage]));
    const withoutCode = new Map<number, Date>();
    const stages = runnable.flatMap((one) => {
      const { program, createdAt } = one.version;
      if (!program) {
        withoutCode.set(one.config.id, createdAt);
        return [];
      }
      const fresh = createStage(one, program, { sandbox, hostFor, limits, nowMs });
      const known = earlier.get(fresh.configId);
      if (known && !known.isOut && known.fingerprint === fresh.fingerprint) return [known];
      onStarted(fresh, known);
      return [fresh];
    });
    const transforming = stages.filter(({ isTransforming }) => isTransforming);
    // An empty one too: it tells which revision was read.
    chains.set(projectId, { revision, stages, transforming, withoutCode });
    for (const stage of before?.stages ?? []) if (!stages.includes(stage)) retire(stage);
  }

  /** One read of a project after the other, so that the last one is the newest. */
  function refresh(projectId: number): Promise<void> {
    const earlier = refreshing.get(projectId) ?? Promise.resolve();
    const reading = earlier.catch(() => {}).then(() => read(projectId));
    refreshing.set(projectId, reading);
    const forget = () => {
      if (refreshing.get(projectId) === reading) refreshing.delete(projectId);
    };
    reading.then(forget, forget);
    return reading;
  }

  /** What cannot be read of one project keeps no other waiting; it is read anew with the next look. */
  async function refreshSafely(projectId: number): Promise<void> {
    try {
      await refresh(projectId);
    } catch (error) {
      reportFault(error, `transformations of project ${projectId} could not be read`);
    }
  }

  return {
    get: (projectId) => chains.get(projectId),
    all: () => chains.values(),
    stage: (projectId, configId) =>
      chains.get(projectId)?.stages.find((stage) => stage.configId === configId),

    async load() {
      for (const projectId of await configs.projectsToRun()) await refreshSafely(projectId);
    },

    refresh,

    async checkRevisions() {
      try {
        const ids = new Set([...(await configs.projectsToRun()), ...chains.keys()]);
        const revisions = await configs.revisions([...ids]);
        for (const id of ids) {
          if ((chains.get(id)?.revision ?? 0) !== (revisions.get(id) ?? 0)) {
            await refreshSafely(id);
          }
        }
      } catch (error) {
        reportFault(error, "changes of transformations could not be looked for");
      }
    },

    async close() {
      const stages = [...chains.values()].flatMap((chain) => chain.stages);
      chains.clear();
      for (const stage of stages) retire(stage);
      const timeUp = new AbortController();
      const late = delay(CLOSE_MS, undefined, { signal: timeUp.signal }).catch(() => {});
      await Promise.race([Promise.all(retiring.keys()), late]);
      timeUp.abort();
      // Those too that were replaced or disabled before, and are not done yet.
      for (const stage of retiring.values()) {
        stage.takeOut();
        stage.abandon();
      }
      await Promise.all(retiring.keys());
    },
  };
}

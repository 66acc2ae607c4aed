import { isJsonObject } from "@hedgerow/core/json";
import { HOPS_PROPERTY } from "@hedgerow/core/transformations/plugin-event";
import type { Chains } from "./chains.ts";
import type { EventDelivery } from "./deliver-events.ts";
import type { SandboxCall } from "./sandbox.ts";
import type { Stage } from "./stage.ts";
import type { TransformationJournal } from "./transformation-journal.ts";
import {
  EVENT_JOBS,
  type ScheduledTask,
  type TransformationJob,
  type TransformationJobs,
  WEBHOOK_JOB,
} from "./transformation-records.ts";

/** Runs what transformations asked for later: their jobs, and their tasks by the clock. */
export interface RunLater {
  /**
   * Begins what is due now, but for what its config is still busy with; never rejects. Answers what
   * resolves once all that runs is done.
   */
  tick(): Promise<void>;
  /** Begins no more, and waits for what is under way. */
  close(): Promise<void>;
}

const PERIOD_MS: Readonly<Record<ScheduledTask, number>> = {
  runEveryMinute: 60_000,
  runEveryHour: 3_600_000,
  runEveryDay: 86_400_000,
};
const TASKS = Object.keys(PERIOD_MS) as readonly ScheduledTask[];

/** Jobs of one config that are begun one after the other before they are looked for anew. */
const JOBS_IN_TURN = 50;
/** Pauses before a job that failed is tried again; then it is given up. */
const RETRY_MS = [5_000, 30_000, 120_000, 600_000];

export function createRunLater({
  chains,
  jobs,
  journal,
  send,
  disable,
  clock,
  reportFault,
}: {
  chains: Pick<Chains, "all" | "stage">;
  jobs: Pick<TransformationJobs, "due" | "postpone" | "finish" | "claimPeriod">;
  journal: Pick<TransformationJournal, "log">;
  send: EventDelivery["send"];
  disable: (stage: Stage, reason: string) => void;
  clock: () => Date;
  reportFault: (error: unknown, context: string) => void;
}): RunLater {
  /** By config and task: the period that it ran in, or was found to have run in. */
  const passed = new Map<string, number>();
  /** By config: its jobs that run, one after the other. */
  const lanes = new Map<number, Promise<void>>();
  /** By config and task: those that run. */
  const tasks = new Map<string, Promise<void>>();
  /** Jobs are looked for one time after the other: what was found must not have been run meanwhile. */
  let looking: Promise<void> = Promise.resolve();
  let isClosed = false;

  function failed(stage: Stage, what: string, reason: string, isLimit: boolean): void {
    journal.log(stage, { source: "PLUGIN", level: "error", message: `${what}: ${reason}` });
    const why = stage.suspicion.note(isLimit ? "exceeded-limit" : "failed", reason);
    if (why !== undefined && !stage.isOut) disable(stage, why);
  }

  async function runTask(stage: Stage, task: ScheduledTask): Promise<void> {
    const period = Math.floor(clock().getTime() / PERIOD_MS[task]) * PERIOD_MS[task];
    const key = `${stage.configId} ${task}`;
    if (passed.get(key) === period) return;
    const isOurs = await jobs.claimPeriod(stage, task, new Date(period));
    passed.set(key, period);
    if (!isOurs) return;
    const outcome = await stage.call({ kind: task });
    if (outcome.kind === "failed") failed(stage, task, outcome.reason, outcome.isLimit);
  }

  async function runJob(stage: Stage, job: TransformationJob): Promise<void> {
    let reason: string | undefined;
    if (job.name === WEBHOOK_JOB) {
      try {
        if (isJsonObject(job.payload)) await send(stage, job.payload);
      } catch (error) {
        reason = error instanceof Error ? error.message : String(error);
      }
    } else {
      const call = callOf(job);
      const isEvent = call.kind !== "job";
      const outcome = await stage.call(call);
      if (outcome.kind === "failed") {
        const { reason: why, wantsRetry } = outcome;
        // An event is given once more only to those that ask for it, which is no fault of theirs.
        if (!isEvent || wantsRetry) reason = why;
        if (!isEvent) failed(stage, `job ${job.name}`, why, outcome.isLimit);
        else if (!wantsRetry) failed(stage, call.kind, why, outcome.isLimit);
      }
    }
    if (reason === undefined) return jobs.finish(job.id);
    const pauseMs = RETRY_MS[job.attempts];
    if (pauseMs !== undefined) {
      return jobs.postpone(job.id, new Date(clock().getTime() + pauseMs), job.attempts + 1);
    }
    const message = `${job.name} was given up after ${job.attempts + 1} attempts: ${reason}`;
    journal.log(stage, { source: "SYSTEM", level: "error", message });
    return jobs.finish(job.id);
  }

  /** One after the other for each config, all configs side by side: none waits for another. */
  async function beginJobs(): Promise<void> {
    const due = await jobs.due(clock(), JOBS_IN_TURN, new Set(lanes.keys()));
    const byConfig = new Map<number, TransformationJob[]>();
    for (const job of due) {
      byConfig.set(job.configId, [...(byConfig.get(job.configId) ?? []), job]);
    }
    for (const [configId, some] of byConfig) {
      if (!lanes.has(configId)) keep(lanes, configId, runInTurn(some));
    }
  }

  async function runInTurn(some: readonly TransformationJob[]): Promise<void> {
    for (const job of some) {
      const stage = chains.stage(job.projectId, job.configId);
      // Those that are not begun stay as they are: that is no attempt.
      if (isClosed || !stage || stage.isOut) return;
      await runJob(stage, job);
    }
  }

  function beginTasks(): void {
    for (const { stages } of chains.all()) {
      for (const stage of stages) {
        if (stage.isOut) continue;
        for (const task of TASKS) {
          const key = `${stage.configId} ${task}`;
          if (!stage.program.scheduledTasks.includes(task) || tasks.has(key)) continue;
          keep(tasks, key, runTask(stage, task));
        }
      }
    }
  }

  function keep<Key>(running: Map<Key, Promise<void>>, key: Key, work: Promise<void>): void {
    const done = work
      .catch((error: unknown) => reportFault(error, FAULT))
      .finally(() => running.delete(key));
    running.set(key, done);
  }

  const settled = async (): Promise<void> => {
    await Promise.all([...lanes.values(), ...tasks.values()]);
  };

  return {
    async tick() {
      if (isClosed) return;
      try {
        beginTasks();
        const begun = looking.then(beginJobs);
        looking = begun.catch(() => {});
        await begun;
      } catch (error) {
        reportFault(error, FAULT);
      }
      await settled();
    },

    close() {
      isClosed = true;
      return settled();
    },
  };
}

/** What a job calls. */
function callOf({ name, payload, hops }: TransformationJob): SandboxCall {
  for (const kind of ["onEvent", "exportEvents"] as const) {
    if (name === EVENT_JOBS[kind] && isJsonObject(payload)) return { kind, event: payload };
  }
  const event = { properties: { [HOPS_PROPERTY]: hops } };
  return { kind: "job", name, payload, ...(hops > 0 && { event }) };
}

const FAULT = "jobs of transformations could not be run";

import { isJsonObject } from "@hedgerow/core/json";
import type { Chains } from "./chains.ts";
import { type EventDelivery, WEBHOOK_JOB } from "./deliver-events.ts";
import type { Stage } from "./stage.ts";
import type { TransformationJournal } from "./transformation-journal.ts";
import type {
  ScheduledTask,
  TransformationJob,
  TransformationJobs,
} from "./transformation-records.ts";

/** Runs what transformations asked for later: their jobs, and their tasks by the clock. */
export interface RunLater {
  /** Runs what is due now, after what is running; never rejects. */
  tick(): Promise<void>;
}

const PERIOD_MS: Readonly<Record<ScheduledTask, number>> = {
  runEveryMinute: 60_000,
  runEveryHour: 3_600_000,
  runEveryDay: 86_400_000,
};
const TASKS = Object.keys(PERIOD_MS) as readonly ScheduledTask[];

const JOBS_AT_ONCE = 50;
/** Pauses before a job that failed is tried again; then it is given up. */
const RETRY_MS = [5_000, 30_000, 120_000, 600_000];
/** Jobs of configs that are not at work wait for so long before they are looked at again. */
const ASLEEP_MS = 3_600_000;

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
  let running: Promise<void> = Promise.resolve();

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

  async function runJob(job: TransformationJob): Promise<void> {
    const stage = chains.stage(job.projectId, job.configId);
    if (!stage || stage.isOut) {
      // It was not begun: that is no attempt.
      return jobs.postpone(job.id, new Date(clock().getTime() + ASLEEP_MS), job.attempts);
    }
    let reason: string | undefined;
    if (job.name === WEBHOOK_JOB) {
      try {
        if (isJsonObject(job.payload)) await send(stage, job.payload);
      } catch (error) {
        reason = error instanceof Error ? error.message : String(error);
      }
    } else {
      const outcome = await stage.call({ kind: "job", name: job.name, payload: job.payload });
      if (outcome.kind === "failed") {
        reason = outcome.reason;
        failed(stage, `job ${job.name}`, reason, outcome.isLimit);
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

  /** One after the other for each config, all configs side by side. */
  async function runJobs(): Promise<void> {
    const due = await jobs.due(clock(), JOBS_AT_ONCE);
    const byConfig = new Map<number, TransformationJob[]>();
    for (const job of due) {
      byConfig.set(job.configId, [...(byConfig.get(job.configId) ?? []), job]);
    }
    const inTurn = async (some: readonly TransformationJob[]) => {
      for (const job of some) await runJob(job);
    };
    await Promise.all([...byConfig.values()].map(inTurn));
  }

  async function runTasks(): Promise<void> {
    const due = [...chains.all()].flatMap(({ stages }) =>
      stages.flatMap((stage) =>
        TASKS.filter((task) => stage.program.scheduledTasks.includes(task)).map((task) =>
          stage.isOut ? undefined : runTask(stage, task),
        ),
      ),
    );
    await Promise.all(due);
  }

  return {
    tick() {
      running = running
        .then(() => Promise.all([runJobs(), runTasks()]))
        .then(
          () => {},
          (error: unknown) => reportFault(error, "jobs of transformations could not be run"),
        );
      return running;
    },
  };
}

import type { FlagEvaluation } from "@hedgerow/core/flags/flag";
import type { DecisionCount, DecisionCounts } from "./decision-counts.ts";

/** Counts what a share of all flag requests is answered. */
export interface DecisionCounter {
  /** To be told of the answer to a request. Never fails, never waits. */
  note(projectId: number, evaluations: readonly FlagEvaluation[], now: Date): void;
  flush(): Promise<void>;
  /** Stops, after a last writing. */
  close(): Promise<void>;
}

const FLUSH_EVERY_MS = 10_000;

/**
 * Starts counting.
 * @param percent the share of requests that are counted, above 0; each stands for the others as well
 * @param random from 0 up to 1
 */
export function startDecisionCounter({
  counts,
  percent,
  random,
  reportFault,
  flushEveryMs = FLUSH_EVERY_MS,
}: {
  counts: Pick<DecisionCounts, "add">;
  percent: number;
  random: () => number;
  reportFault: (error: unknown, context: string) => void;
  flushEveryMs?: number;
}): DecisionCounter {
  const share = percent / 100;
  let waiting = new Map<number, Map<string, DecisionCount>>();
  let turn = Promise.resolve();

  function add(projectId: number, { flagKey, day, value, times }: DecisionCount): void {
    let ofProject = waiting.get(projectId);
    if (!ofProject) {
      ofProject = new Map();
      waiting.set(projectId, ofProject);
    }
    const name = JSON.stringify([flagKey, day, value]);
    const known = ofProject.get(name)?.times ?? 0;
    ofProject.set(name, { flagKey, day, value, times: known + times });
  }

  async function write(): Promise<void> {
    const taken = waiting;
    waiting = new Map();
    for (const [projectId, ofProject] of taken) {
      try {
        await counts.add(projectId, [...ofProject.values()]);
      } catch (error) {
        for (const count of ofProject.values()) add(projectId, count);
        reportFault(error, "counts of flag requests could not be written");
      }
    }
  }

  const flush = () => {
    turn = turn.then(write);
    return turn;
  };
  const flushing = setInterval(() => void flush(), flushEveryMs).unref();

  return {
    note(projectId, evaluations, now) {
      if (random() >= share) return;
      const day = now.toISOString().slice(0, 10);
      for (const { flag, value, failed } of evaluations) {
        if (failed) continue;
        add(projectId, { flagKey: flag.key, day, value: String(value), times: 1 / share });
      }
    },

    flush,

    async close() {
      clearInterval(flushing);
      await flush();
    },
  };
}

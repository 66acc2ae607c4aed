import { encodeJson, parseExactJson } from "@hedgerow/core/exact-json";
import type { LogLanes } from "../events/event-log.ts";
import { StoreUnavailable } from "../platform/store-unavailable.ts";
import type {
  NewJob,
  StorageUsage,
  StoredValue,
  TransformationEffects,
} from "./transformation-records.ts";

/** A value that an event stored, with its place among all that this process stores. */
export interface OrderedValue extends StoredValue {
  readonly order: number;
}

/** As lines that the log keeps in the commit with which events pass (decision record 30). */
export function stored(value: OrderedValue): string {
  return encodeJson({ kind: "stored", ...value });
}

export function asked({ runAt, ...job }: NewJob): string {
  return encodeJson({ kind: "asked", ...job, runAt: runAt.getTime() });
}

type Line =
  | ({ readonly kind: "stored" } & OrderedValue)
  | ({ readonly kind: "asked"; readonly runAt: number } & Omit<NewJob, "runAt">);

/** What came from the log to where it belongs. */
export interface HandedOver {
  readonly values: readonly OrderedValue[];
  readonly usages: readonly StorageUsage[];
  /** Whether the log had none. */
  readonly isAll: boolean;
}

/** Lines taken in one transaction; those that passed together are never parted. */
const LINES_AT_ONCE = 1_000;

/**
 * Hands over the next of what events that passed have stored and asked for, each once: the store
 * keeps the log's position in the same transaction. One call at a time. Rejects where the store fails;
 * all of it is still in the log then.
 */
export function createHandOver({
  log,
  effects,
  onRefused,
  reportFault,
}: {
  log: Pick<LogLanes, "effects" | "forgetEffects">;
  effects: TransformationEffects;
  /** Told of jobs that are too many. */
  onRefused: (job: NewJob) => void;
  reportFault: (error: unknown, context: string) => void;
}): () => Promise<HandedOver> {
  /** Up to where it is handed over; unknown at first. */
  let position: number | undefined;

  function moveTo(upTo: number): number {
    position = upTo;
    log.forgetEffects(upTo);
    return upTo;
  }

  function decode(lines: readonly string[]) {
    const values: OrderedValue[] = [];
    const jobs: NewJob[] = [];
    for (const text of lines) {
      const line = read(text);
      if (line?.kind === "stored") {
        const { projectId, configId, key, value, order } = line;
        values.push({ projectId, configId, key, value, order });
      } else if (line?.kind === "asked") {
        const { kind: _, ...job } = line;
        jobs.push({ ...job, runAt: new Date(job.runAt) });
      }
    }
    return { values, jobs };
  }

  function read(line: string): Line | undefined {
    try {
      // This module wrote it; damage is the only other thing it can be.
      return parseExactJson(line) as unknown as Line;
    } catch (error) {
      reportFault(error, "what a transformation stored cannot be read from the log");
      return undefined;
    }
  }

  type Range = Parameters<TransformationEffects["take"]>[0];
  type Some = Parameters<TransformationEffects["take"]>[1];

  async function takeAll(range: Range, some: Some) {
    try {
      return await effects.take(range, some);
    } catch (error) {
      if (error instanceof StoreUnavailable) throw error;
      return takeOneByOne(range, some, error);
    }
  }

  /**
   * Something among them may be what the store never takes: it must not hold up the rest for ever. Here
   * alone some may be taken twice, where the process dies in between.
   */
  async function takeOneByOne({ after, upTo }: Range, { values, jobs }: Some, fault: unknown) {
    const stay = { after, upTo: after };
    const nothing = { values: [], jobs: [] };
    const lines = [
      ...values.map((value): Some => ({ values: [value], jobs: [] })),
      ...jobs.map((job): Some => ({ values: [], jobs: [job] })),
    ];
    // Whether it is the store that fails.
    if ((await effects.take(stay, nothing)) === "moved") return "moved";
    reportFault(fault, "effects of events are handed over one by one");
    const refused: NewJob[] = [];
    for (const line of lines) {
      try {
        const taken = await effects.take(stay, line);
        if (taken === "moved") return taken;
        refused.push(...taken.refused);
      } catch (error) {
        // Not its fault where nothing else is taken either.
        await effects.take(stay, nothing);
        reportFault(error, "what a transformation stored or asked for cannot be kept, and is lost");
      }
    }
    const last = await effects.take({ after, upTo }, nothing);
    return last === "moved" ? last : { ...last, refused };
  }

  return async () => {
    const after = position ?? moveTo(await effects.position());
    const found = log.effects(after);
    let count = 0;
    const some = found.filter(({ lines }, index) => {
      count += lines.length;
      return index === 0 || count <= LINES_AT_ONCE;
    });
    const upTo = some.at(-1)?.position;
    if (upTo === undefined) return { values: [], usages: [], isAll: true };
    const portions = some.map(({ position, lines }) => ({ position, ...decode(lines) }));
    const values = portions.flatMap((one) => one.values);
    const jobs = portions.flatMap((one) => one.jobs);
    const taken = await takeAll({ after, upTo }, { values, jobs });
    if (taken !== "moved") {
      moveTo(upTo);
      for (const job of taken.refused) onRefused(job);
      return { values, usages: taken.usages, isAll: false };
    }
    // Some was taken though nobody heard of it.
    position = undefined;
    const now = await effects.position();
    if (now <= after) throw new Error(`effects stand at ${now} and not at ${after}`);
    moveTo(now);
    const there = portions.filter(({ position }) => position <= now);
    return { values: there.flatMap((one) => one.values), usages: [], isAll: false };
  };
}

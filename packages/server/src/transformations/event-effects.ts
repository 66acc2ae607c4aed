import { encodeJson, parseExactJson } from "@hedgerow/core/exact-json";
import type { DurationCounts } from "@hedgerow/core/transformations/durations";
import type { LogLanes } from "../events/event-log.ts";
import { StoreUnavailable } from "../platform/store-unavailable.ts";
import type {
  HourTally,
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

/** What the events that pass with the line have come to, in short: most lines are of few events. */
export function counted(tally: HourTally): string {
  const { projectId, configId, hour, counts, durations, ownMetrics } = tally;
  const { eventsIn, dropped, failed } = counts;
  const numbers = [configId, hour.getTime(), eventsIn, dropped, failed] as const;
  const own = Object.keys(ownMetrics).length > 0 ? { ownMetrics } : undefined;
  return encodeJson({ kind: "counted", projectId, numbers, durations, ...own });
}

function tallyOf({ projectId, numbers, durations, ownMetrics = {} }: CountedLine): HourTally {
  const [configId, hourMs, eventsIn, dropped, failed] = numbers;
  const counts = { eventsIn, eventsOut: eventsIn - dropped, dropped, failed };
  return { projectId, configId, hour: new Date(hourMs), counts, durations, ownMetrics };
}

interface CountedLine {
  readonly kind: "counted";
  readonly projectId: number;
  /** Config, hour, and how many came in, were dropped and failed. */
  readonly numbers: readonly [number, number, number, number, number];
  readonly durations: DurationCounts;
  /** Absent where there are none. */
  readonly ownMetrics?: HourTally["ownMetrics"];
}

type Line =
  | ({ readonly kind: "stored" } & OrderedValue)
  | ({ readonly kind: "asked"; readonly runAt: number } & Omit<NewJob, "runAt">)
  | CountedLine;

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
 * Hands over the next of what events that passed have stored, asked for and come to, each once: the store
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
    const tallies: HourTally[] = [];
    for (const text of lines) {
      const line = read(text);
      if (line?.kind === "stored") {
        const { projectId, configId, key, value, order } = line;
        values.push({ projectId, configId, key, value, order });
      } else if (line?.kind === "asked") {
        const { kind: _, ...job } = line;
        jobs.push({ ...job, runAt: new Date(job.runAt) });
      } else if (line?.kind === "counted") {
        tallies.push(tallyOf(line));
      }
    }
    return { values, jobs, tallies };
  }

  function read(line: string): Line | undefined {
    try {
      // This module wrote it; damage is the only other thing it can be.
      return parseExactJson(line) as unknown as Line;
    } catch (error) {
      reportFault(error, "an effect of events cannot be read from the log");
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
  async function takeOneByOne({ after, upTo }: Range, some: Some, fault: unknown) {
    const stay = { after, upTo: after };
    const nothing: Some = { values: [], jobs: [], tallies: [] };
    const lines = [
      ...some.values.map((value): Some => ({ ...nothing, values: [value] })),
      ...some.jobs.map((job): Some => ({ ...nothing, jobs: [job] })),
      ...some.tallies.map((tally): Some => ({ ...nothing, tallies: [tally] })),
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
        reportFault(error, "an effect of events cannot be kept, and is lost");
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
    const tallies = portions.flatMap((one) => one.tallies);
    const taken = await takeAll({ after, upTo }, { values, jobs, tallies });
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

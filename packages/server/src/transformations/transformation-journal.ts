import { bucketOf } from "@hedgerow/core/transformations/durations";
import type { LogLevel } from "./sandbox.ts";
import type { Stage } from "./stage.ts";
import {
  type HourTally,
  joinOwnMetrics,
  type OwnMetric,
  type TransformationLogEntry,
  type TransformationRecords,
} from "./transformation-records.ts";

/** What one event, or another call, came to in one stage. */
export type CountedOutcome = "out" | "dropped" | "failed";

/** Told of everything that is counted; for the operator's counters. */
export interface JournalObserver {
  counted(outcome: CountedOutcome): void;
}

/** Counts and lines of transformations, gathered in memory and written now and then. */
export interface TransformationJournal {
  count(stage: Stage, outcome: CountedOutcome, cpuMs: number): void;
  countOwn(stage: Stage, name: string, metric: OwnMetric): void;
  /** A line of the service itself, or of the transformation. */
  log(stage: Stage, line: JournalLine): void;
  /** Writes what has been gathered. Reports what cannot be written: counts are kept, lines are lost. */
  flush(): Promise<void>;
}

export interface JournalLine {
  readonly source: TransformationLogEntry["source"];
  readonly level: LogLevel;
  readonly message: string;
  readonly at?: Date;
}

const HOUR_MS = 3_600_000;
const MAX_OWN_METRICS = 50;
/** Lines of one config between two writings. */
const MAX_LINES = 500;

interface Tally {
  readonly stage: Stage;
  readonly hourMs: number;
  eventsIn: number;
  eventsOut: number;
  dropped: number;
  failed: number;
  readonly durations: Record<string, number>;
  readonly ownMetrics: Map<string, OwnMetric>;
}

export function createTransformationJournal({
  records,
  clock,
  newUuid,
  observer,
  reportFault,
}: {
  records: Pick<TransformationRecords, "addTallies" | "addLogs">;
  clock: () => Date;
  newUuid: () => string;
  observer: JournalObserver;
  reportFault: (error: unknown, context: string) => void;
}): TransformationJournal {
  const instanceId = newUuid();
  let tallies = new Map<string, Tally>();
  let lines = new Map<number, { readonly entries: TransformationLogEntry[]; left: number }>();

  function tallyOf(stage: Stage): Tally {
    const hourMs = Math.floor(clock().getTime() / HOUR_MS) * HOUR_MS;
    const key = `${stage.configId} ${hourMs}`;
    let tally = tallies.get(key);
    if (!tally) {
      const counts = { eventsIn: 0, eventsOut: 0, dropped: 0, failed: 0 };
      tally = { stage, hourMs, ...counts, durations: {}, ownMetrics: new Map() };
      tallies.set(key, tally);
    }
    return tally;
  }

  async function writeTallies(): Promise<void> {
    const due = tallies;
    if (due.size === 0) return;
    tallies = new Map();
    try {
      await records.addTallies([...due.values()].map(hourTallyOf));
    } catch (error) {
      reportFault(error, "counts of transformations could not be written");
      for (const [key, tally] of due) tallies.set(key, join(tally, tallies.get(key)));
    }
  }

  async function writeLines(): Promise<void> {
    const due = lines;
    if (due.size === 0) return;
    lines = new Map();
    const entries = [...due.values()].flatMap((one) => {
      const [first] = one.entries;
      if (one.left === 0 || !first) return one.entries;
      const message = `${one.left} more lines were left out.`;
      const more = {
        ...first,
        id: newUuid(),
        at: clock(),
        source: "SYSTEM",
        type: "WARN",
        message,
      };
      return [...one.entries, more as TransformationLogEntry];
    });
    try {
      await records.addLogs(entries);
    } catch (error) {
      reportFault(error, "logs of transformations could not be written");
    }
  }

  return {
    count(stage, outcome, cpuMs) {
      const tally = tallyOf(stage);
      tally.eventsIn++;
      if (outcome === "dropped") tally.dropped++;
      else tally.eventsOut++;
      if (outcome === "failed") tally.failed++;
      const bucket = bucketOf(cpuMs);
      tally.durations[bucket] = (tally.durations[bucket] ?? 0) + 1;
      observer.counted(outcome);
    },

    countOwn(stage, name, metric) {
      const { ownMetrics } = tallyOf(stage);
      const before = ownMetrics.get(name);
      if (!before && ownMetrics.size >= MAX_OWN_METRICS) return;
      ownMetrics.set(name, before ? joinOwnMetrics(before, metric) : metric);
    },

    log(stage, { source, level, message, at = clock() }) {
      const { projectId, configId, transformationId } = stage;
      let known = lines.get(configId);
      if (!known) {
        known = { entries: [], left: 0 };
        lines.set(configId, known);
      }
      if (known.entries.length >= MAX_LINES) {
        known.left++;
        return;
      }
      const type = level.toUpperCase() as TransformationLogEntry["type"];
      const about = { projectId, configId, transformationId, instanceId };
      known.entries.push({ ...about, id: newUuid(), at, source, type, message });
    },

    async flush() {
      await writeTallies();
      await writeLines();
    },
  };
}

function hourTallyOf(tally: Tally): HourTally {
  const { stage, hourMs, durations, ownMetrics, ...counts } = tally;
  const { eventsIn, eventsOut, dropped, failed } = counts;
  return {
    projectId: stage.projectId,
    configId: stage.configId,
    hour: new Date(hourMs),
    counts: { eventsIn, eventsOut, dropped, failed },
    durations,
    ownMetrics: Object.fromEntries(ownMetrics),
  };
}

function join(one: Tally, other: Tally | undefined): Tally {
  if (!other) return one;
  for (const [bucket, count] of Object.entries(other.durations)) {
    one.durations[bucket] = (one.durations[bucket] ?? 0) + count;
  }
  for (const [name, metric] of other.ownMetrics) {
    const before = one.ownMetrics.get(name);
    one.ownMetrics.set(name, before ? joinOwnMetrics(before, metric) : metric);
  }
  return {
    ...one,
    eventsIn: one.eventsIn + other.eventsIn,
    eventsOut: one.eventsOut + other.eventsOut,
    dropped: one.dropped + other.dropped,
    failed: one.failed + other.failed,
  };
}

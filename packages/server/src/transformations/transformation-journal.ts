import { cleanText } from "@hedgerow/core/events/clean-json";
import type { LogLevel } from "./sandbox.ts";
import type { Stage } from "./stage.ts";
import {
  type HourTally,
  hourOf,
  joinTallies,
  type OwnMetric,
  type TransformationLogEntry,
  type TransformationRecords,
} from "./transformation-records.ts";

/**
 * Lines about transformations, and what they count themselves outside of events, gathered in memory and
 * written now and then. Counts of events come here where they cannot go to the log.
 */
export interface TransformationJournal {
  add(tally: HourTally): void;
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

/** Lines of one config between two writings. */
const MAX_LINES = 500;

export function createTransformationJournal({
  records,
  clock,
  newUuid,
  reportFault,
}: {
  records: Pick<TransformationRecords, "addTallies" | "addLogs">;
  clock: () => Date;
  newUuid: () => string;
  reportFault: (error: unknown, context: string) => void;
}): TransformationJournal {
  const instanceId = newUuid();
  /** By config and hour. */
  let tallies = new Map<string, HourTally>();
  let lines = new Map<number, { readonly entries: TransformationLogEntry[]; left: number }>();

  const keyOf = ({ configId, hour }: Pick<HourTally, "configId" | "hour">) =>
    `${configId} ${hour.getTime()}`;

  function add(tally: HourTally): void {
    const key = keyOf(tally);
    const before = tallies.get(key);
    tallies.set(key, before ? joinTallies(before, tally) : tally);
  }

  async function writeTallies(): Promise<void> {
    const due = tallies;
    if (due.size === 0) return;
    tallies = new Map();
    try {
      await records.addTallies([...due.values()]);
    } catch (error) {
      reportFault(error, "counts of transformations could not be written");
      const later = tallies;
      tallies = due;
      for (const tally of later.values()) add(tally);
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
    add,

    countOwn({ projectId, configId }, name, metric) {
      const hour = hourOf(clock());
      const counts = { eventsIn: 0, eventsOut: 0, dropped: 0, failed: 0 };
      const ownMetrics = { [name]: metric };
      add({ projectId, configId, hour, counts, durations: {}, ownMetrics });
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
      // Most of it comes from foreign code, and one line that no store takes would cost all others.
      const text = cleanText(message);
      known.entries.push({ ...about, id: newUuid(), at, source, type, message: text });
    },

    async flush() {
      await writeTallies();
      await writeLines();
    },
  };
}

import { bucketOf } from "@hedgerow/core/transformations/durations";
import type { LogLanes } from "../events/event-log.ts";
import { counted } from "./event-effects.ts";
import type { Count } from "./event-under-way.ts";
import type { Stage } from "./stage.ts";
import type { TransformationJournal } from "./transformation-journal.ts";
import type { EventCounts, HourTally } from "./transformation-records.ts";

/** Counts the events of one run by what they came to in each stage. */
export interface PassedCounts {
  /** They are on their way to the log: lines with what they came to, which go there with them. */
  seal(events: readonly CountedEvent[]): readonly string[];
  /** They are there. */
  release(events: readonly CountedEvent[]): void;
}

/** What an event came to in the stages that it has passed. */
export interface CountedEvent {
  readonly counts: Count | undefined;
}

/** Told of everything that is counted; for the operator's counters. */
export interface CountsObserver {
  counted(counts: EventCounts): void;
}

const HOUR_MS = 3_600_000;

/**
 * Answers what counts one run after the other. Counts go to their store by way of the log, with their
 * events: whatever dies when, each event counts once (decision record 30). Where the log keeps much
 * already they wait in memory for their store instead, so that no event waits for it.
 */
export function createPassedCounts({
  lanes,
  journal,
  observer,
  clock,
}: {
  lanes: Pick<LogLanes, "areEffectsMany">;
  journal: Pick<TransformationJournal, "add">;
  observer: CountsObserver;
  clock: () => Date;
}): () => PassedCounts {
  return () => {
    let tallies: readonly HourTally[] | undefined;
    let areInLog = false;
    return {
      seal(events) {
        tallies = talliesOf(events, clock());
        areInLog = !lanes.areEffectsMany();
        return areInLog ? tallies.map(counted) : [];
      },
      release(events) {
        tallies ??= talliesOf(events, clock());
        for (const tally of tallies) {
          observer.counted(tally.counts);
          if (!areInLog) journal.add(tally);
        }
      },
    };
  };
}

interface Tally {
  readonly counts: { -readonly [Field in keyof EventCounts]: number };
  readonly durations: Record<string, number>;
}

/** What events came to, by stage, in the hour of a time. */
export function talliesOf(events: readonly CountedEvent[], at: Date): readonly HourTally[] {
  const byStage = new Map<Stage, Tally>();
  for (const { counts } of events) {
    for (let one = counts; one; one = one.before) add(tallyOf(one.stage), one);
  }
  const hour = new Date(Math.floor(at.getTime() / HOUR_MS) * HOUR_MS);
  return [...byStage].map(([{ projectId, configId }, tally]) => ({
    ...{ projectId, configId, hour },
    ...tally,
    ownMetrics: {},
  }));

  function tallyOf(stage: Stage): Tally {
    let tally = byStage.get(stage);
    if (!tally) {
      tally = { counts: { eventsIn: 0, eventsOut: 0, dropped: 0, failed: 0 }, durations: {} };
      byStage.set(stage, tally);
    }
    return tally;
  }
}

function add({ counts, durations }: Tally, { kind, cpuMs }: Count): void {
  counts.eventsIn++;
  if (kind === "dropped") counts.dropped++;
  else counts.eventsOut++;
  if (kind === "failed") counts.failed++;
  const bucket = bucketOf(cpuMs);
  durations[bucket] = (durations[bucket] ?? 0) + 1;
}

import { bucketOf } from "@hedgerow/core/transformations/durations";
import type { LogLanes } from "../events/event-log.ts";
import { counted } from "./event-effects.ts";
import type { Count, OwnCount } from "./event-under-way.ts";
import type { Stage } from "./stage.ts";
import type { TransformationJournal } from "./transformation-journal.ts";
import {
  type EventCounts,
  type HourTally,
  hourOf,
  joinAllOwnMetrics,
} from "./transformation-records.ts";

/** Counts the events of one run by what they came to in each stage. */
export interface PassedCounts {
  /** They are on their way to the log: lines with what they came to, which go there with them. */
  seal(events: readonly CountedEvent[]): readonly string[];
  /** They are there. */
  release(events: readonly CountedEvent[]): void;
}

/** What an event came to in the stages that it has passed, and what these counted themselves. */
export interface CountedEvent {
  readonly counts: Count | undefined;
  /** Is taken from it when it is counted. */
  own: readonly OwnCount[];
}

/** Told of everything that is counted; for the operator's counters. */
export interface CountsObserver {
  counted(counts: EventCounts): void;
}

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
  journal: Pick<TransformationJournal, "add" | "countOwn">;
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
        // What its code has counted since it was on its way to the disk is no event's.
        for (const { own } of events) {
          for (const { stage, name, metric } of own) journal.countOwn(stage, name, metric);
        }
      },
    };
  };
}

interface Tally {
  readonly counts: { -readonly [Field in keyof EventCounts]: number };
  readonly durations: Record<string, number>;
  ownMetrics: HourTally["ownMetrics"];
}

/** What events came to, by stage, in the hour of a time. */
function talliesOf(events: readonly CountedEvent[], at: Date): readonly HourTally[] {
  const byStage = new Map<Stage, Tally>();
  for (const event of events) {
    for (let one = event.counts; one; one = one.before) add(tallyOf(one.stage), one);
    if (event.own.length === 0) continue;
    for (const { stage, name, metric } of event.own) {
      const tally = tallyOf(stage);
      tally.ownMetrics = joinAllOwnMetrics(tally.ownMetrics, { [name]: metric });
    }
    event.own = [];
  }
  const hour = hourOf(at);
  return [...byStage].map(([{ projectId, configId }, tally]) => ({
    ...{ projectId, configId, hour },
    ...tally,
  }));

  function tallyOf(stage: Stage): Tally {
    let tally = byStage.get(stage);
    if (!tally) {
      const counts = { eventsIn: 0, eventsOut: 0, dropped: 0, failed: 0 };
      tally = { counts, durations: {}, ownMetrics: {} };
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

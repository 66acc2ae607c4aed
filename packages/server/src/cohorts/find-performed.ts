import { type Behavior, resolvePeriod, spanBefore } from "@hedgerow/core/cohorts/behavior";
import type { BacktrackingPatterns } from "@hedgerow/core/flags/pattern";
import type { Moment, PerformerSource, PerformersQuery } from "../events/performers.ts";
import { compilePropertySearch } from "../events/property-search.ts";
import { createPersonTally, type PersonTally } from "./person-tally.ts";

/** Who shows a behavior. */
export interface Performed {
  /** How many persons may show it. */
  readonly size: number;
  by(uuid: string): boolean;
  /** Those who may show it, in runs. */
  uuids(runLength: number): Iterable<readonly string[]>;
}

/** What looking for behavior takes. */
interface LookUpTools {
  readonly performers: PerformerSource;
  readonly backtracking: BacktrackingPatterns;
  readonly now: Date;
  /** Makes room for other work; throws when the calculation is to end. */
  readonly pause: () => Promise<void>;
}

/** What the patterns on events of one behavior may cost, whatever the number of its periods: nobody waits for a calculation. */
const PATTERN_BUDGETS = 100_000;

/** Finds out who shows a behavior at an instant. Rejects as the source of events does. */
export async function findPerformed(
  behavior: Behavior,
  project: { readonly projectId: number; readonly timeZone: string },
  tools: LookUpTools,
): Promise<Performed> {
  const doings = doingsOf(behavior, project, tools);
  const nowMs = tools.now.getTime();
  switch (behavior.kind) {
    case "times": {
      const during = await doings.tally(resolvePeriod(behavior.period, nowMs));
      return among(during, (uuid) => isWithin(during.times(uuid), behavior));
    }
    case "first": {
      const { afterMs, beforeMs } = resolvePeriod(behavior.period, nowMs);
      const during = await doings.tally({ afterMs, beforeMs });
      if (afterMs === null) return among(during, (uuid) => during.times(uuid) > 0);
      const before = await doings.tally({ afterMs: null, beforeMs: justAfter(afterMs) });
      return among(during, (uuid) => during.times(uuid) > 0 && before.times(uuid) === 0);
    }
    case "sequence":
      return findSequence(behavior, doings, nowMs);
    case "regularly":
      return findRegular(behavior, doings, nowMs);
    case "stopped": {
      const recentMs = spanBefore(behavior.recent, nowMs);
      const sinceMs = spanBefore(behavior.since, nowMs);
      const earlier = await doings.tally({ afterMs: sinceMs, beforeMs: justAfter(recentMs) });
      const lately = await doings.tally({ afterMs: recentMs, beforeMs: null });
      return among(earlier, (uuid) => earlier.times(uuid) > 0 && lately.times(uuid) === 0);
    }
    case "restarted": {
      const recentMs = spanBefore(behavior.recent, nowMs);
      const sinceMs = spanBefore(behavior.since, nowMs);
      const first = await doings.tally({ afterMs: null, beforeMs: justAfter(sinceMs) });
      const between = await doings.tally({ afterMs: sinceMs, beforeMs: justAfter(recentMs) });
      const lately = await doings.tally({ afterMs: recentMs, beforeMs: null });
      return among(
        lately,
        (uuid) => lately.times(uuid) > 0 && first.times(uuid) > 0 && between.times(uuid) === 0,
      );
    }
  }
}

/** The end of a period that has the moment in it: periods end exclusively. */
function justAfter(ms: number): number {
  return ms + 1;
}

function isWithin(
  times: number,
  { least, most }: { readonly least: number; readonly most: number | null },
): boolean {
  return times >= least && (most === null || times <= most);
}

function among(tally: PersonTally, by: (uuid: string) => boolean): Performed {
  return { size: tally.size, by, uuids: (runLength) => tally.uuids(runLength) };
}

interface Bounds {
  readonly afterMs: number | null;
  readonly beforeMs: number | null;
}

/** What was done of a behavior's event, and of the one that follows it in a sequence. */
interface Doings {
  tally(bounds: Bounds): Promise<PersonTally>;
  moments(bounds: Bounds): AsyncIterable<Moment>;
  /** Of another event, whatever its properties. */
  momentsOf(event: string, bounds: Bounds): AsyncIterable<Moment>;
}

function doingsOf(
  { event, eventFilters }: Behavior,
  { projectId, timeZone }: { readonly projectId: number; readonly timeZone: string },
  { performers, backtracking, now, pause }: LookUpTools,
): Doings {
  const properties =
    eventFilters.length === 0
      ? null
      : compilePropertySearch(eventFilters, {
          now,
          timeZone,
          backtracking,
          patternBudgets: PATTERN_BUDGETS,
        });
  const instant = (ms: number | null) => (ms === null ? null : new Date(ms));
  const queryOf = ({ afterMs, beforeMs }: Bounds): PerformersQuery => ({
    projectId,
    event,
    after: instant(afterMs),
    before: instant(beforeMs),
    properties,
  });
  async function* oneByOne(query: PerformersQuery): AsyncGenerator<Moment> {
    for await (const run of performers.moments(query)) {
      yield* run;
      await pause();
    }
  }
  return {
    async tally(bounds) {
      const counted = createPersonTally();
      for await (const run of performers.performers(queryOf(bounds))) {
        for (const { personId, times } of run) counted.add(personId, times);
        await pause();
      }
      return counted;
    },
    moments: (bounds) => oneByOne(queryOf(bounds)),
    momentsOf: (other, bounds) => oneByOne({ ...queryOf(bounds), event: other, properties: null }),
  };
}

/** Before every instant, so that what is counted from here is above 0. */
const EARLIEST_MS = -8_640_000_000_000_001;

/** Goes through both events in the order of time and knows of each person the last first step. */
async function findSequence(
  { event, next, eventFilters, period, within }: Extract<Behavior, { kind: "sequence" }>,
  doings: Doings,
  nowMs: number,
): Promise<Performed> {
  const bounds = resolvePeriod(period, nowMs);
  const lastSteps = createPersonTally();
  const found = createPersonTally();
  const start = (personId: string, atMs: number) => lastSteps.put(personId, atMs - EARLIEST_MS);
  const follow = (personId: string, atMs: number) => {
    const last = lastSteps.times(personId);
    // At one and the same time nothing follows.
    if (last === 0 || last + EARLIEST_MS >= atMs) return;
    if (last + EARLIEST_MS >= spanBefore(within, atMs)) found.add(personId, 1);
  };
  if (event === next && eventFilters.length === 0) {
    for await (const { personId, atMs } of doings.moments(bounds)) {
      follow(personId, atMs);
      start(personId, atMs);
    }
    return among(found, (uuid) => found.times(uuid) > 0);
  }
  const firsts = doings.moments(bounds)[Symbol.asyncIterator]();
  try {
    let first = await firsts.next();
    for await (const { personId, atMs } of doings.momentsOf(next, bounds)) {
      while (first.done !== true && first.value.atMs < atMs) {
        start(first.value.personId, first.value.atMs);
        first = await firsts.next();
      }
      follow(personId, atMs);
    }
  } finally {
    await firsts.return?.();
  }
  return among(found, (uuid) => found.times(uuid) > 0);
}

/** Looks at one period after the other. */
async function findRegular(
  behavior: Extract<Behavior, { kind: "regularly" }>,
  doings: Doings,
  nowMs: number,
): Promise<Performed> {
  const { span, minPeriods, totalPeriods } = behavior;
  const active = createPersonTally();
  // Where a period without any event counts, those are noted that do not.
  const isMetByNone = behavior.least === 0;
  const periods = createPersonTally();
  for (let at = 0; at < totalPeriods; at++) {
    const during = await doings.tally({
      afterMs: spanBefore(span, nowMs, at + 1),
      beforeMs: at === 0 ? null : justAfter(spanBefore(span, nowMs, at)),
    });
    for (const uuids of during.uuids(RUN_PERSONS)) {
      for (const uuid of uuids) {
        active.add(uuid, 1);
        if (isWithin(during.times(uuid), behavior) !== isMetByNone) periods.add(uuid, 1);
      }
    }
  }
  return among(active, (uuid) => {
    if (active.times(uuid) === 0) return false;
    const met = isMetByNone ? totalPeriods - periods.times(uuid) : periods.times(uuid);
    return met >= minPeriods;
  });
}

const RUN_PERSONS = 2_000;

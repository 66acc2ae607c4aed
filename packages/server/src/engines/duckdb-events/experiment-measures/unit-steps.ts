import type { FunnelEvent } from "@hedgerow/core/experiments/funnel";
import { createUnitRetention, stepsReached } from "@hedgerow/core/experiments/measure-unit";
import type {
  FunnelMetric,
  MeasuredEvent,
  RetentionMetric,
} from "@hedgerow/core/experiments/metric";
import type { TimeZone } from "@hedgerow/core/flags/zoned-date";
import { QueryTooLong } from "../../../events/event-store.ts";
import type { ArmMeasure } from "../../../experiments/experiment-measures.ts";
import { createSlices, type Slices } from "../../../platform/slices.ts";
import type { Exposed } from "./exposed-units.ts";
import { BITS, identify, matchEvents } from "./matching.ts";
import {
  commonConditions,
  declaredArms,
  exposedJoin,
  Parameters,
  type Part,
  type Reading,
} from "./reading.ts";
import type { Arms, Tallies } from "./tallies.ts";

/** Metrics that depend on the order of a unit's events. */
export type StepMetric = FunnelMetric | RetentionMetric;

/** Events of one unit that are held at a time: who has more is no person, and no group to compare. */
const MAX_UNIT_EVENTS = 500_000;

/**
 * Measures metrics by one scan of the events, unit by unit, each by the rules of core. The table
 * `exposed` is there.
 */
export async function measureSteps(
  reading: Reading,
  metrics: readonly StepMetric[],
  { exposed, byDay }: { readonly exposed: Exposed; readonly byDay: boolean },
): Promise<readonly Tallies[]> {
  if (metrics.length === 0) return [];
  const kinds = new Map<string, MeasuredEvent>();
  for (const kind of metrics.flatMap(kindsOf)) kinds.set(identify(kind), kind);
  const names = [...kinds.keys()];
  const hasFunnel = metrics.some(({ kind }) => kind === "funnel");
  // Without a window the first exposure leaves the most time; with one a later may (statistics 1.2),
  // as it may after an exclusion.
  const startsAnew = metrics.some(
    (metric) =>
      metric.kind === "funnel" &&
      (metric.conversionWindowMs !== null || (metric.exclusions ?? []).length > 0),
  );
  const pause = pauses(reading);
  const counts = metrics.map((metric) =>
    countUnits(metric, {
      places: kindsOf(metric).map((kind) => 1 + names.indexOf(identify(kind))),
      zone: reading.query.zone,
      dayStarts: byDay ? reading.query.days.map(({ from }) => from.getTime()) : null,
      pause,
    }),
  );
  for await (const unit of unitsOf(reading, exposed, [...kinds.values()], {
    hasFunnel,
    startsAnew,
  }))
    for (const count of counts) await count.add(unit);
  return counts.map((count) => count.tallies());
}

/** The kinds of events that a metric looks at, exposures apart. */
function kindsOf(metric: StepMetric): readonly MeasuredEvent[] {
  return metric.kind === "funnel"
    ? [...metric.steps, ...(metric.exclusions ?? []).map(({ events }) => events)]
    : [metric.start, metric.completion];
}

/** A unit and its events from its exposure on, in order, with the kinds that each is: 0 exposes. */
interface UnitEvents {
  readonly number: number;
  readonly variant: string;
  readonly cell: number;
  readonly exposureMs: number;
  readonly events: { readonly at: number; readonly kinds: readonly number[] }[];
}

/** The exposed units of declared variants, one after another; those without events too. */
async function* unitsOf(
  { connection, query, timeUp }: Reading,
  { marker }: Exposed,
  kinds: readonly MeasuredEvent[],
  { hasFunnel, startsAnew }: { readonly hasFunnel: boolean; readonly startsAnew: boolean },
): AsyncGenerator<UnitEvents> {
  const join = exposedJoin(query);
  const reading = { connection, query, timeUp };
  const matching = await matchEvents(reading, kinds, { name: "steps", join, lookbackMs: 0 });
  const exposes: Part = (parameters) => {
    const parts = [
      `(${marker.condition(parameters)})`,
      `${marker.variant(parameters)} = x.variant`,
    ];
    if (!startsAnew) parts.push("e.timestamp = x.exposed_at");
    return parts.join(" and ");
  };
  const all: Part[] = [
    hasFunnel ? exposes : () => "false",
    ...kinds.map((kind) => matching.conditionOf(kind)),
  ];
  const parameters = new Parameters();
  const common = [...commonConditions(query, parameters), declaredArms(query, parameters)];
  const columns = Array.from({ length: Math.ceil(all.length / BITS) }, (_, index) => index);
  const masks = columns.map((column) => {
    const bits = all
      .slice(column * BITS, (column + 1) * BITS)
      .map((part, bit) => `case when ${part(parameters)} then ${2 ** bit} else 0 end`);
    return `(${bits.join(" + ")})::integer as kinds_${column}`;
  });
  const isAny = columns.map((column) => `kinds_${column} <> 0`).join(" or ");
  const result = await connection.stream(
    `select x.number, x.variant, x.cell, epoch_ms(x.exposed_at)::double as at_ms, f.event_ms,
        ${columns.map((column) => `coalesce(f.kinds_${column}, 0)`).join(", ")}
      from exposed x left join (
        select number, epoch_ms(timestamp)::double as event_ms, position,
            ${columns.map((column) => `kinds_${column}`).join(", ")}
          from (
            select x.number, e.timestamp, e.position, ${masks.join(", ")}
              from events e ${join} ${matching.join} ${hasFunnel ? marker.join : ""}
              where ${common.join(" and ")})
          where ${isAny}) f on f.number = x.number
      where ${declaredArms(query, parameters)}
      order by x.number, f.event_ms, f.position`,
    parameters.values,
  );
  let unit: UnitEvents | undefined;
  const kindsOf = createKinds();
  const slices = createSlices();
  for await (const rows of result.yieldRows()) {
    for (const row of rows) {
      const [number, variant, cell, exposureMs, at, ...bits] = row as unknown as [
        number,
        string,
        number,
        number,
        number | null,
        ...number[],
      ];
      if (unit?.number !== number) {
        if (unit) yield unit;
        unit = { number, variant, cell, exposureMs, events: [] };
      }
      if (at !== null) unit.events.push({ at, kinds: kindsOf(bits) });
      if (unit.events.length > MAX_UNIT_EVENTS) throw new QueryTooLong();
      if (slices.isOver()) {
        await slices.next();
        timeUp();
      }
    }
  }
  if (unit) yield unit;
}

/** Reads kinds from bits; events of the same kinds share one list. */
function createKinds(): (columns: readonly number[]) => readonly number[] {
  const known = new Map<string, readonly number[]>();
  return (columns) => {
    const name = columns.join();
    const kinds = known.get(name) ?? kindsOfBits(columns);
    known.set(name, kinds);
    return kinds;
  };
}

function kindsOfBits(columns: readonly number[]): readonly number[] {
  const kinds: number[] = [];
  for (const [column, bits] of columns.entries())
    for (let bit = 0; bits >> bit > 0; bit += 1)
      if (((bits >> bit) & 1) === 1) kinds.push(column * BITS + bit);
  return kinds;
}

/** What one unit's events come to: numbers to be added up, and for funnels to zero at first. */
type Outcome = readonly number[];

/** Lets others have their turn where the last was too long ago; throws when the reading takes too long. */
type Pause = () => Promise<void> | undefined;

function pauses({ timeUp }: Pick<Reading, "timeUp">, slices: Slices = createSlices()): Pause {
  const rest = async () => {
    await slices.next();
    timeUp();
  };
  return () => (slices.isOver() ? rest() : undefined);
}

/** Adds up what a metric says of units. */
export function countUnits(
  metric: StepMetric,
  {
    places,
    zone,
    dayStarts,
    pause,
  }: {
    /** Where each of the metric's kinds of events stands among all. */
    readonly places: readonly number[];
    readonly zone: TimeZone;
    /** Beginnings of the days to tell; `null` for none. */
    readonly dayStarts: readonly number[] | null;
    /** Called while a unit is counted, so that one with many events keeps nobody waiting. */
    readonly pause: Pause;
  },
) {
  const measureUnit =
    metric.kind === "funnel"
      ? funnelOutcomes(metric, pause)
      : retentionOutcomes(metric, zone, pause);
  const width = metric.kind === "funnel" ? 1 + metric.steps.length : 2;
  const arms = new Map<string, number[]>();
  const cells = new Map<number, Map<string, number[]>>();
  const days = dayStarts?.map(() => new Map<string, number[]>()) ?? [];
  const add = (to: Map<string, number[]>, variant: string, outcome: Outcome) => {
    const totals = to.get(variant) ?? new Array<number>(width).fill(0);
    for (const [place, value] of outcome.entries()) totals[place] = (totals[place] ?? 0) + value;
    to.set(variant, totals);
  };
  const nothing = new Array<number>(width).fill(0);
  // Events of the same kinds share one list of them.
  const known = new Map<readonly number[], readonly number[]>();
  const stepsOf = (kinds: readonly number[]) => {
    const steps = known.get(kinds) ?? kinds.flatMap((kind) => stepsOfKind(metric, places, kind));
    known.set(kinds, steps);
    return steps;
  };

  return {
    async add({ variant, cell, exposureMs, events: all }: UnitEvents): Promise<void> {
      const events: FunnelEvent[] = [];
      for (const { at, kinds } of all) {
        const steps = stepsOf(kinds);
        if (steps.length > 0) events.push({ at, steps });
      }
      const until = dayStarts === null ? [] : daysOf(events, exposureMs, dayStarts);
      const outcomes = await measureUnit(events, exposureMs, [
        ...until.slice(0, -1).map(({ count }) => count),
        events.length,
      ]);
      const outcome = outcomes.at(-1) ?? nothing;
      add(arms, variant, outcome);
      const inCell = cells.get(cell) ?? new Map<string, number[]>();
      cells.set(cell, inCell);
      add(inCell, variant, outcome);
      // What each day with events adds to what was known the day before.
      for (const [index, { day }] of until.entries()) {
        const on = days[day];
        const before = outcomes[index - 1] ?? nothing;
        const next = outcomes[index] ?? nothing;
        if (on && next !== before)
          add(
            on,
            variant,
            next.map((value, place) => value - (before[place] ?? 0)),
          );
      }
    },

    tallies(): Tallies {
      const armsOf = (totals: ReadonlyMap<string, readonly number[]>): Arms =>
        new Map(
          [...totals].map(([variant, outcome]) => [variant, armOf(metric, variant, outcome)]),
        );
      const running = new Map<string, number[]>();
      return {
        arms: armsOf(arms),
        cells: new Map([...cells].map(([cell, totals]) => [cell, armsOf(totals)])),
        days: days.map((changes) => {
          for (const [variant, change] of changes) add(running, variant, change);
          return armsOf(new Map([...running].map(([variant, totals]) => [variant, [...totals]])));
        }),
      };
    },
  };
}

/** What an event's kind is to a metric: for funnels 0 exposes, 1 is the first step, and so on. */
function stepsOfKind(
  metric: StepMetric,
  places: readonly number[],
  kind: number,
): readonly number[] {
  const steps: number[] = metric.kind === "funnel" && kind === 0 ? [0] : [];
  const first = metric.kind === "funnel" ? 1 : 0;
  for (const [index, place] of places.entries()) if (place === kind) steps.push(first + index);
  return steps;
}

/** The days that a unit's exposure and events are on, and how many of its events there are by their ends. */
function daysOf(
  events: readonly FunnelEvent[],
  exposureMs: number,
  dayStarts: readonly number[],
): readonly { readonly day: number; readonly count: number }[] {
  const dayOf = (at: number) => Math.max(0, lastAtMost(dayStarts, at));
  const days: { day: number; count: number }[] = [{ day: dayOf(exposureMs), count: 0 }];
  let end = endOf(days[0]?.day ?? 0);
  for (const { at } of events) {
    if (at >= end) {
      const day = dayOf(at);
      days.push({ day, count: days.at(-1)?.count ?? 0 });
      end = endOf(day);
    }
    const last = days.at(-1);
    if (last) last.count += 1;
  }
  return days;

  function endOf(day: number): number {
    return dayStarts[day + 1] ?? Number.POSITIVE_INFINITY;
  }
}

/**
 * What the first so many of a unit's events, which are in order, come to: an outcome for each of ascending
 * counts.
 */
type MeasureUnit = (
  events: readonly FunnelEvent[],
  exposureMs: number,
  counts: readonly number[],
) => Promise<readonly Outcome[]>;

/** Steps are never undone, so that only the counts are looked for at which one more is reached. */
function funnelOutcomes(metric: FunnelMetric, pause: Pause): MeasureUnit {
  const outcomes = Array.from(
    { length: metric.steps.length + 1 },
    (_, reached): Outcome => [1, ...metric.steps.map((_, step) => (step < reached ? 1 : 0))],
  );
  return async (events, _, counts) => {
    const reachedBy = async (place: number) => {
      await pause();
      const count = counts[place] ?? 0;
      return stepsReached(count === events.length ? events : events.slice(0, count), metric);
    };
    const last = counts.length - 1;
    const final = await reachedBy(last);
    const reached = new Array<number>(counts.length).fill(final);
    for (let place = 0; place < last; ) {
      const now = await reachedBy(place);
      if (now === final) break;
      // Nothing changes up to `low`, and something has by `high`.
      let low = place;
      let high = last;
      while (high - low > 1) {
        const middle = Math.floor((low + high) / 2);
        if ((await reachedBy(middle)) === now) low = middle;
        else high = middle;
      }
      reached.fill(now, place, high);
      place = high;
    }
    return reached.map((steps) => outcomes[steps] ?? []);
  };
}

function retentionOutcomes(metric: RetentionMetric, zone: TimeZone, pause: Pause): MeasureUnit {
  return async (events, exposureMs, counts) => {
    const unit = createUnitRetention(exposureMs, { metric, zone });
    const outcomes: Outcome[] = [];
    let added = 0;
    for (const count of counts) {
      for (; added < count; added += 1) {
        const event = events[added];
        if (event) unit.add(event);
        const rest = pause();
        if (rest) await rest;
      }
      const { started, retained } = unit.outcome();
      outcomes.push([started ? 1 : 0, retained ? 1 : 0]);
    }
    return outcomes;
  };
}

function armOf(metric: StepMetric, variant: string, outcome: Outcome): ArmMeasure {
  const [n = 0, ...counts] = outcome;
  const last = counts.at(-1) ?? 0;
  if (metric.kind === "funnel") return { variant, sums: { n, sum: last }, stepCounts: counts };
  const denominator = { sum: n, sumSquares: n, withMain: last };
  return { variant, sums: { n, sum: last, sumSquares: last, denominator }, stepCounts: null };
}

/** The place of the last of ascending numbers that is at most another; -1 for none. */
function lastAtMost(numbers: readonly number[], most: number): number {
  let low = -1;
  let high = numbers.length - 1;
  while (low < high) {
    const middle = Math.ceil((low + high) / 2);
    if ((numbers[middle] ?? Number.POSITIVE_INFINITY) <= most) low = middle;
    else high = middle - 1;
  }
  return low;
}

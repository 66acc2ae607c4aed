import { type CountedEvents, countEvents, type Value } from "./counted-events.ts";
import { withoutQuotes } from "./matching.ts";
import { createCalendar, Parameters, type Reading } from "./reading.ts";
import { type Arms, armSumsOf, pairsOf } from "./tallies.ts";
import { inside, type ValuePlan } from "./value-plan.ts";
import { type DoneScan, unitsWith } from "./value-tables.ts";

/**
 * Sums by the end of each day. A unit's number at the end of a day is made of its events until then;
 * what it adds to a sum that day is the difference to the day before, so that sums over days add up.
 */
export async function sumUpByDay(
  reading: Reading,
  scan: DoneScan,
  { metric, values, columns, bounds }: ValuePlan,
): Promise<readonly Arms[]> {
  const { connection, query } = reading;
  await createCalendar(reading);
  const parameters = new Parameters();
  const own = values.filter(({ isCovariate }) => !isCovariate);
  const counted = countEvents(reading, own, scan, parameters);
  const states = own.flatMap((value, place) => statesOf(value, place, counted));
  const window = "over (partition by number order by day rows unbounded preceding)";
  const totals = own.map((value, place) => `${totalOf(value, place, window)} as total_${place}`);
  const cut = (expression: string, place: number) => inside(expression, bounds[place], parameters);
  const isOwn = (place: number) => place < own.length;
  const zeros = own.map((_, place) => cut("0::double", place));
  const places = values.map((_, place) => place);
  const covariate = (place: number) => cut(`v.value_${columns[place]}`, place);
  const after = places.map((place) => {
    const value = isOwn(place) ? cut(`coalesce(total_${place}, 0)`, place) : covariate(place);
    return `${value} as after_${place}`;
  });
  const before = places.map((place) => {
    const order = "over (partition by number order by day)";
    const value = isOwn(place)
      ? `lag(after_${place}, 1, ${zeros[place]}) ${order}`
      : `after_${place}`;
    return `${value} as before_${place}`;
  });
  const starts = places.map(
    (place) => `${isOwn(place) ? zeros[place] : covariate(place)} as after_${place}`,
  );
  const pairs = pairsOf(values.length);
  const changes = [
    ...places.map((place) => `fsum(after_${place} - before_${place})`),
    ...pairs.map(([a, b]) => `fsum(after_${a} * after_${b} - before_${a} * before_${b})`),
  ];
  const first = [
    ...places.map((place) => `fsum(after_${place})`),
    ...pairs.map(([a, b]) => `fsum(after_${a} * after_${b})`),
  ];
  const units = unitsWith(reading, scan, columns.slice(own.length), parameters);
  const result = await connection.runAndReadAll(
    `with units as (${units}),
      unit_days as (select f.number, coalesce(c.day, 0) as day, ${states.join(", ")}
        from (${firstEvents(own, counted)}) f asof left join calendar c on f.timestamp >= c.begins
        group by f.number, coalesce(c.day, 0)),
      running as (select number, day, ${totals.join(", ")} from unit_days),
      valued as (select d.number, d.day, v.variant, ${after.join(", ")}
        from running d join units v on v.number = d.number),
      changed as (select *, ${before.join(", ")} from valued),
      begun as (select v.variant, coalesce(c.day, 0) as day, ${starts.join(", ")}
        from units v asof left join calendar c on v.exposed_at >= c.begins)
      select variant, day, 0::double as units, ${changes.join(", ")}
        from changed group by variant, day
      union all
      select variant, day, count(*)::double, ${first.join(", ")} from begun group by variant, day`,
    parameters.values,
  );
  const rows = result.getRows() as [string, number, number, ...number[]][];
  return accumulate(query.days.length, rows, {
    width: values.length,
    hasDenominator: metric.kind === "ratio",
  });
}

/** Marks the first event of each session or value, which alone adds to how many there are. */
function firstEvents(values: readonly Value[], counted: CountedEvents): string {
  const marks = values.flatMap((value, place) => {
    const { kind } = value.source.measure;
    if (kind !== "unique-sessions" && kind !== "unique-values") return [];
    const { text } = counted.placeOf(value);
    const of = kind === "unique-sessions" ? "session_id" : withoutQuotes(text ?? "null");
    const isKnown = `${counted.isCounted(value)} and ${of} is not null`;
    return [
      `, ${isKnown} and row_number() over (partition by number, ${isKnown}, ${of}
        order by timestamp, position) = 1 as is_first_${place}`,
    ];
  });
  return `select *${marks.join("")} from (${counted.statement})`;
}

/** What a day's events say of a value. */
function statesOf(value: Value, place: number, counted: CountedEvents): readonly string[] {
  const { number } = counted.placeOf(value);
  const finite = counted.filterOf(value, `isfinite(${number})`);
  const { kind } = value.source.measure;
  switch (kind) {
    case "total":
    case "active":
      return [`count(*) ${counted.filterOf(value)} as times_${place}`];
    case "unique-sessions":
    case "unique-values":
      return [`count(*) filter (is_first_${place}) as times_${place}`];
    case "sum":
      return [`fsum(${number}) ${finite} as sum_${place}`];
    case "avg":
      return [`fsum(${number}) ${finite} as sum_${place}`, `count(*) ${finite} as times_${place}`];
    case "min":
    case "max":
      return [`${kind}(${number}) ${finite} as most_${place}`];
  }
}

/** A value at the end of a day, from the days until then. */
function totalOf({ source }: Value, index: number, window: string): string {
  const { kind } = source.measure;
  switch (kind) {
    case "total":
    case "unique-sessions":
    case "unique-values":
      return `(sum(times_${index}) ${window})::double`;
    case "active":
      return `least((sum(times_${index}) ${window})::double, 1)`;
    case "sum":
      return `sum(sum_${index}) ${window}`;
    case "avg":
      return `sum(sum_${index}) ${window} / nullif(sum(times_${index}) ${window}, 0)`;
    case "min":
    case "max":
      return `${kind}(most_${index}) ${window}`;
  }
}

/** Adds up what each day changes. */
function accumulate(
  dayCount: number,
  rows: readonly (readonly [string, number, number, ...number[]])[],
  { width, hasDenominator }: { readonly width: number; readonly hasDenominator: boolean },
): readonly Arms[] {
  const size = 1 + width + pairsOf(width).length;
  const running = new Map<string, number[]>();
  const byDay = new Map<number, (readonly [string, ...number[]])[]>();
  for (const [variant, day, ...changes] of rows)
    byDay.set(day, [...(byDay.get(day) ?? []), [variant, ...changes]]);
  return Array.from({ length: dayCount }, (_, day) => {
    for (const [variant, ...changes] of byDay.get(day) ?? []) {
      const totals = running.get(variant) ?? new Array<number>(size).fill(0);
      running.set(
        variant,
        totals.map((total, place) => total + (changes[place] ?? 0)),
      );
    }
    return new Map(
      [...running].map(([variant, [n = 0, ...rest]]) => {
        const vector = { n, sums: rest.slice(0, width), products: rest.slice(width) };
        return [variant, { variant, sums: armSumsOf(vector, hasDenominator), stepCounts: null }];
      }),
    );
  });
}

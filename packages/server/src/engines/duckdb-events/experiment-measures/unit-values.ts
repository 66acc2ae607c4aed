import type {
  MeanMetric,
  MeasureSource,
  QuantileMetric,
  RatioMetric,
} from "@hedgerow/core/experiments/metric";
import { quantileRanks } from "@hedgerow/core/statistics/quantile-metric";
import type {
  ArmMeasure,
  Measured,
  MeasureOptions,
} from "../../../experiments/experiment-measures.ts";
import {
  identify,
  type Matching,
  matchEvents,
  type PropertyTexts,
  READABLE_TEXTS,
  readUnreadable,
  UNREADABLE,
  withoutQuotes,
} from "./matching.ts";
import {
  commonConditions,
  createCalendar,
  declaredArms,
  exposedJoin,
  Parameters,
  type Part,
  type Reading,
  shifted,
} from "./reading.ts";
import { type Arms, armSumsOf, pairsOf, type Tallies } from "./tallies.ts";

/** Metrics that are made of one number or two of each unit. */
export type ValueMetric = MeanMetric | RatioMetric | QuantileMetric;

/** What such a metric came to. */
export interface ValueTallies
  extends Tallies,
    Pick<Measured, "bounds" | "notNumbers" | "textNumbers"> {}

/** A number of each unit. */
interface Value {
  readonly source: MeasureSource;
  readonly windowMs: number | null;
  /** Whether it is of the time before the exposure. */
  readonly isCovariate: boolean;
}

/** Where values are cut. */
interface Bounds {
  readonly lower: number | null;
  readonly upper: number | null;
}

/** A metric and the numbers it needs of each unit: its own first, then those before the exposure. */
interface Plan {
  readonly metric: ValueMetric;
  readonly values: readonly Value[];
  /** Their columns in the table of units, and where each is cut. */
  readonly columns: readonly number[];
  readonly bounds: readonly (Bounds | null)[];
}

/**
 * Measures metrics by one scan of the events; where days are asked for, by another for each metric. The
 * table `exposed` is there.
 */
export async function measureValues(
  reading: Reading,
  metrics: readonly ValueMetric[],
  options: MeasureOptions,
): Promise<readonly ValueTallies[]> {
  if (metrics.length === 0) return [];
  const byName = new Map<string, Value>();
  const needed = metrics.map((metric) => valuesOf(metric, options));
  for (const value of needed.flat()) byName.set(identify(value), value);
  const names = [...byName.keys()];
  const scan = await scanEvents(reading, [...byName.values()], options.lookbackMs ?? 0);
  const plans: Plan[] = [];
  for (const [index, metric] of metrics.entries()) {
    const values = needed[index] ?? [];
    const columns = values.map((value) => names.indexOf(identify(value)));
    plans.push({ metric, values, columns, bounds: await boundsOf(reading, metric, columns) });
  }
  const summed = await sumUp(reading, plans);
  const found: ValueTallies[] = [];
  for (const [index, plan] of plans.entries()) {
    const { metric, values, columns, bounds } = plan;
    const { arms, cells } = summed[index] ?? { arms: new Map(), cells: new Map() };
    const own = new Set(columns.filter((_, place) => values[place]?.isCovariate === false));
    const total = (counts: readonly number[]) =>
      [...own].reduce((sum, column) => sum + (counts[column] ?? 0), 0);
    const isQuantile = metric.kind === "quantile";
    found.push({
      arms: isQuantile ? await withQuantiles(reading, plan, arms, options.level) : arms,
      cells: isQuantile ? new Map() : cells,
      days: options.byDay && !isQuantile ? await sumUpByDay(reading, scan, plan) : [],
      bounds: bounds[0] ?? null,
      notNumbers: total(scan.notNumbers),
      textNumbers: total(scan.textNumbers),
    });
  }
  return found;
}

function valuesOf(metric: ValueMetric, { lookbackMs }: MeasureOptions): readonly Value[] {
  const sources =
    metric.kind === "ratio" ? [metric.numerator, metric.denominator] : [metric.source];
  const windowMs = metric.conversionWindowMs;
  const own = sources.map((source): Value => ({ source, windowMs, isCovariate: false }));
  if (lookbackMs === null || metric.kind === "quantile") return own;
  const before = sources.map((source): Value => ({ source, windowMs: null, isCovariate: true }));
  return [...own, ...before];
}

/** A scan of the events that count for some values. */
interface Scan {
  readonly values: readonly Value[];
  readonly lookbackMs: number;
  readonly matching: Matching;
  readonly texts: PropertyTexts;
}

/** The same when it is done, with what was found odd, for each value. */
interface DoneScan extends Scan {
  readonly notNumbers: readonly number[];
  readonly textNumbers: readonly number[];
}

/** Makes the table `unit_values`: the numbers of each exposed unit that has any events. */
async function scanEvents(
  reading: Reading,
  values: readonly Value[],
  lookbackMs: number,
): Promise<DoneScan> {
  const join = exposedJoin(reading.query, lookbackMs);
  const matching = await matchEvents(
    reading,
    values.map(({ source }) => source.events),
    { name: "measured", join, lookbackMs },
  );
  const scan = { values, lookbackMs, matching, texts: READABLE_TEXTS };
  const counters = await createUnitValues(reading, scan);
  if (counters.unread === 0) return { ...scan, ...counters };
  const measuring = values.filter((value) => propertyOf(value) !== undefined);
  const conditions: Part[] = [
    (parameters) =>
      measuring
        .map((value) => conditionOf(value, { matching, lookbackMs }, parameters))
        .join(" or "),
  ];
  const texts = await readUnreadable(reading, propertiesOf(values), {
    name: "measured_texts",
    join: `${join} ${matching.join}`,
    lookbackMs,
    conditions,
  });
  await reading.connection.run("drop table unit_values");
  const whole = { ...scan, texts };
  return { ...whole, ...(await createUnitValues(reading, whole)) };
}

async function createUnitValues(reading: Reading, scan: Scan) {
  const { values } = scan;
  const parameters = new Parameters();
  const measured = values.map(
    (value, index) => `${aggregateOf(value, index, values)} as value_${index}`,
  );
  const odd = values.flatMap((value, index) => {
    const place = propertyPlace(value, values);
    if (place === null || value.source.measure.kind === "unique-values") return [];
    const isNumber = `coalesce(isfinite(number_${place}), false)`;
    return [
      `count(*) filter (counts_${index} and text_${place} is not null and not ${isNumber}) as odd_${index}`,
      `count(*) filter (counts_${index} and starts_with(text_${place}, '"') and ${isNumber}) as texts_${index}`,
    ];
  });
  const unread = propertiesOf(values).length > 0 && scan.texts === READABLE_TEXTS;
  if (unread) odd.push("count(*) filter (is_unread) as unread");
  await reading.connection.run(
    `create temp table unit_values as
      select number, ${[...measured, ...odd].join(", ")}
        from (${countedEvents(reading, scan, parameters)}) group by number`,
    parameters.values,
  );
  const totals = odd.map((aggregate) => {
    const name = aggregate.slice(aggregate.lastIndexOf(" ") + 1);
    return { name, total: `coalesce(sum(${name}), 0)::double` };
  });
  if (totals.length === 0) return { unread: 0, notNumbers: [], textNumbers: [] };
  const result = await reading.connection.runAndReadAll(
    `select ${totals.map(({ total }) => total).join()} from unit_values`,
  );
  const row = (result.getRows()[0] ?? []) as readonly number[];
  const count = (name: string) => row[totals.findIndex((one) => one.name === name)] ?? 0;
  return {
    unread: unread ? count("unread") : 0,
    notNumbers: values.map((_, index) => count(`odd_${index}`)),
    textNumbers: values.map((_, index) => count(`texts_${index}`)),
  };
}

function propertyOf({ source }: Value): string | undefined {
  return "property" in source.measure ? source.measure.property : undefined;
}

function propertiesOf(values: readonly Value[]): readonly string[] {
  return [...new Set(values.flatMap((value) => propertyOf(value) ?? []))];
}

/** Which of the properties a value is of. */
function propertyPlace(value: Value, values: readonly Value[]): number | null {
  const property = propertyOf(value);
  return property === undefined ? null : propertiesOf(values).indexOf(property);
}

/** Whether an event `e` of an exposed unit `x` counts for a value. */
function conditionOf(
  { source, windowMs, isCovariate }: Value,
  { matching, lookbackMs }: Pick<Scan, "matching" | "lookbackMs">,
  parameters: Parameters,
): string {
  const parts = [`(${matching.conditionOf(source.events)(parameters)})`];
  if (isCovariate) parts.push("e.timestamp < x.exposed_at");
  else if (lookbackMs > 0) parts.push("e.timestamp >= x.exposed_at");
  if (windowMs !== null) parts.push(`e.timestamp < ${shifted("x.exposed_at", windowMs)}`);
  return `(${parts.join(" and ")})`;
}

/**
 * The events that count for any value: the unit's number, for which of them each counts, the measured
 * properties as texts and as numbers, and whether a text could not be read.
 */
function countedEvents({ query }: Reading, scan: Scan, parameters: Parameters): string {
  const { values, lookbackMs, matching, texts } = scan;
  const common = [
    ...commonConditions(query, parameters, lookbackMs),
    declaredArms(query, parameters),
  ];
  const names = new Set(values.map(({ source }) => source.events.event));
  if (!names.has(null)) {
    const listed = [...names].flatMap((name) => (name === null ? [] : [parameters.bind(name)]));
    common.push(`e.event in (${listed.join()})`);
  }
  const counts = values.map(
    (value, index) => `${conditionOf(value, scan, parameters)} as counts_${index}`,
  );
  const properties = propertiesOf(values);
  const isMeasured = (property?: string) =>
    values
      .flatMap((value, index) => {
        const own = propertyOf(value);
        const isIt = property === undefined ? own !== undefined : own === property;
        return isIt ? [`counts_${index}`] : [];
      })
      .join(" or ");
  const read = properties.map((property, index) => {
    const text = texts.textOf(property)(parameters);
    return `, case when ${isMeasured(property)} then ${text} end as text_${index}`;
  });
  if (properties.length > 0) read.push(`, (${isMeasured()}) and ${UNREADABLE} as is_unread`);
  // Texts like `inf` are numbers to DuckDB, and none that anything can be computed from.
  const numbers = properties.map(
    (_, index) => `, try_cast(${withoutQuotes(`text_${index}`)} as double) as number_${index}`,
  );
  const any = values.map((_, index) => `counts_${index}`).join(" or ");
  return `select *${numbers.join("")} from (
    select e.* exclude (properties)${read.join("")} from (
      select x.number, x.exposed_at, e.timestamp, e.position, e.session_id, e.properties,
          ${counts.join(", ")}
        from events e ${exposedJoin(query, lookbackMs)} ${matching.join}
        where ${common.join(" and ")}) e ${texts.join}
      where ${any})`;
}

function aggregateOf(value: Value, index: number, values: readonly Value[]): string {
  const place = propertyPlace(value, values);
  const counted = `filter (counts_${index})`;
  const finite = `filter (counts_${index} and isfinite(number_${place}))`;
  const { kind } = value.source.measure;
  switch (kind) {
    case "total":
      return `count(*) ${counted}::double`;
    case "active":
      return `least(count(*) ${counted}, 1)::double`;
    case "unique-sessions":
      return `count(distinct session_id) ${counted}::double`;
    case "unique-values":
      return `count(distinct ${withoutQuotes(`text_${place}`)}) ${counted}::double`;
    case "sum":
      return `fsum(number_${place}) ${finite}`;
    case "avg":
      return `favg(number_${place}) ${finite}`;
    case "min":
    case "max":
      return `${kind}(number_${place}) ${finite}`;
  }
}

/** The units of declared variants with their values, zero for those without events. */
function unitsWith({ query }: Reading, columns: readonly number[], parameters: Parameters): string {
  const values = [...new Set(columns)].map(
    (column) => `coalesce(v.value_${column}, 0) as value_${column}`,
  );
  return `select ${["x.number", "x.variant", "x.cell", "x.exposed_at", ...values].join(", ")}
    from exposed x left join unit_values v on v.number = x.number
    where ${declaredArms(query, parameters)}`;
}

/** Where each number of a metric is cut: by its own quantiles over all units (statistics 5.10). */
async function boundsOf(
  reading: Reading,
  metric: ValueMetric,
  columns: readonly number[],
): Promise<readonly (Bounds | null)[]> {
  if (metric.kind !== "mean" || metric.winsorization === null) return columns.map(() => null);
  const { lowerPercentile, upperPercentile, ignoreZeros } = metric.winsorization;
  const parameters = new Parameters();
  const units = unitsWith(reading, columns, parameters);
  const quantile = (column: number, at: number | null, onlyOthers: boolean): string => {
    if (at === null) return "null::double";
    const share = `${parameters.bind(at)}::double`;
    const all = `quantile_cont(value_${column}, ${share})`;
    return onlyOthers ? `coalesce(${all} filter (value_${column} <> 0), ${all})` : all;
  };
  const result = await reading.connection.runAndReadAll(
    `select ${columns
      .flatMap((column) => [
        quantile(column, lowerPercentile, false),
        quantile(column, upperPercentile, ignoreZeros),
      ])
      .join()} from (${units})`,
    parameters.values,
  );
  const row = (result.getRows()[0] ?? []) as readonly (number | null)[];
  return columns.map((_, index) => {
    const [lower, upper] = [row[2 * index] ?? null, row[2 * index + 1] ?? null];
    return lower === null && upper === null ? null : { lower, upper };
  });
}

/** A value inside its bounds. */
function inside(value: string, bounds: Bounds | null | undefined, parameters: Parameters): string {
  const bind = (bound: number) => `${parameters.bind(bound)}::double`;
  const { lower, upper } = bounds ?? { lower: null, upper: null };
  const raised = lower === null ? value : `greatest(${value}, ${bind(lower)})`;
  return upper === null ? raised : `least(${raised}, ${bind(upper)})`;
}

/** Sums of the metrics by variant, and by variant and cell, in one pass over the units. */
async function sumUp(
  reading: Reading,
  plans: readonly Plan[],
): Promise<readonly { arms: Map<string, ArmMeasure>; cells: Map<number, Arms> }[]> {
  const parameters = new Parameters();
  const columns = plans.flatMap((plan) => plan.columns);
  const units = unitsWith(reading, columns, parameters);
  const variables: string[] = [];
  const aggregates: string[] = [];
  const shapes = plans.map(({ metric, columns: own, bounds }, index) => {
    const names = own.map((column, place) => {
      const name = `y_${index}_${place}`;
      variables.push(`${inside(`value_${column}`, bounds[place], parameters)} as ${name}`);
      return name;
    });
    const isLeftOut = metric.kind === "quantile" && metric.ignoresZeros;
    const filter = isLeftOut ? ` filter (${names[0]} <> 0)` : "";
    const first = aggregates.length;
    const pairs = pairsOf(names.length);
    aggregates.push(
      `count(*)${filter}::double`,
      ...names.map((name) => `coalesce(fsum(${name})${filter}, 0)`),
      ...pairs.map(([a, b]) => `coalesce(fsum(${names[a]} * ${names[b]})${filter}, 0)`),
    );
    return {
      first,
      width: names.length,
      pairs: pairs.length,
      hasDenominator: metric.kind === "ratio",
    };
  });
  const result = await reading.connection.runAndReadAll(
    `select variant, cell, ${aggregates.join(", ")}
      from (select variant, cell, ${variables.join(", ")} from (${units}))
      group by grouping sets ((variant), (variant, cell))`,
    parameters.values,
  );
  const rows = result.getRows() as [string, number | null, ...number[]][];
  return shapes.map(({ first, width, pairs, hasDenominator }) => {
    const arms = new Map<string, ArmMeasure>();
    const cells = new Map<number, Map<string, ArmMeasure>>();
    for (const [variant, cell, ...found] of rows) {
      const part = found.slice(first, first + 1 + width + pairs);
      const vector = {
        n: part[0] ?? 0,
        sums: part.slice(1, 1 + width),
        products: part.slice(1 + width),
      };
      const arm = { variant, sums: armSumsOf(vector, hasDenominator), stepCounts: null };
      if (cell === null) arms.set(variant, arm);
      else {
        const inCell = cells.get(cell) ?? new Map<string, ArmMeasure>();
        cells.set(cell, inCell.set(variant, arm));
      }
    }
    return { arms, cells };
  });
}

/** Adds the order statistics that are each arm's quantile and its bounds (statistics 5.9). */
async function withQuantiles(
  reading: Reading,
  { metric, columns }: Plan,
  arms: Arms,
  level: number,
): Promise<Arms> {
  if (metric.kind !== "quantile") return arms;
  const parameters = new Parameters();
  const units = unitsWith(reading, columns, parameters);
  const value = `value_${columns[0]}`;
  const ranks = new Map(
    [...arms].flatMap(([variant, { sums }]) =>
      sums.n === 0 ? [] : [[variant, quantileRanks(sums.n, metric.quantile, 1 - level)] as const],
    ),
  );
  if (ranks.size === 0) return arms;
  const isWanted = [...ranks].map(([variant, { rank, lower, upper }]) => {
    const places = [rank, lower, upper].map((place) => Math.max(1, place));
    return `(variant = ${parameters.bind(variant)} and place in (${places.join()}))`;
  });
  const result = await reading.connection.runAndReadAll(
    `select variant, place::double, value from (
      select variant, ${value} as value,
          row_number() over (partition by variant order by ${value}) as place
        from (${units}) ${metric.ignoresZeros ? `where ${value} <> 0` : ""})
      where ${isWanted.join(" or ")}`,
    parameters.values,
  );
  const values = new Map(
    (result.getRows() as [string, number, number][]).map(([variant, place, found]) => [
      `${place} ${variant}`,
      found,
    ]),
  );
  return new Map(
    [...arms].map(([variant, arm]) => {
      const own = ranks.get(variant);
      if (!own) return [variant, arm];
      const at = (place: number) => values.get(`${Math.max(1, place)} ${variant}`) ?? 0;
      const { n } = arm.sums;
      const quantile = {
        n,
        sampled: n,
        nu: metric.quantile,
        value: at(own.rank),
        lower: at(own.lower),
        upper: at(own.upper),
      };
      return [variant, { ...arm, quantile }];
    }),
  );
}

/**
 * Sums by the end of each day. A unit's number at the end of a day is made of its events until then;
 * what it adds to a sum that day is the difference to the day before, so that sums over days add up.
 */
async function sumUpByDay(reading: Reading, done: Scan, plan: Plan): Promise<readonly Arms[]> {
  const { connection, query } = reading;
  const { metric, values, columns, bounds } = plan;
  await createCalendar(reading);
  const parameters = new Parameters();
  const own = values.filter(({ isCovariate }) => !isCovariate);
  const covariates = columns.slice(own.length);
  const scan = { ...done, values: own };
  const states = own.flatMap((value, index) => statesOf(value, index, own));
  const window = "over (partition by number order by day rows unbounded preceding)";
  const totals = own.map((value, index) => `${totalOf(value, index, window)} as total_${index}`);
  const names = values.map((_, place) => (place < own.length ? `total_${place}` : `x_${place}`));
  const cut = (expression: string, place: number) => inside(expression, bounds[place], parameters);
  const counted = countedEvents(reading, scan, parameters);
  const after = names.map((name, place) =>
    place < own.length
      ? `${cut(`coalesce(${name}, 0)`, place)} as after_${place}`
      : `${cut(`coalesce(v.value_${columns[place]}, 0)`, place)} as after_${place}`,
  );
  const zeros = own.map((_, place) => cut("0::double", place));
  const before = names.map((_, place) =>
    place < own.length
      ? `lag(after_${place}, 1, ${zeros[place]}) over (partition by number order by day) as before_${place}`
      : `after_${place} as before_${place}`,
  );
  const starts = names.map((_, place) =>
    place < own.length
      ? `${zeros[place]} as after_${place}`
      : `${cut(`coalesce(v.value_${columns[place]}, 0)`, place)} as after_${place}`,
  );
  const pairs = pairsOf(names.length);
  const changes = [
    ...names.map((_, place) => `fsum(after_${place} - before_${place})`),
    ...pairs.map(([a, b]) => `fsum(after_${a} * after_${b} - before_${a} * before_${b})`),
  ];
  const first = [
    ...names.map((_, place) => `fsum(after_${place})`),
    ...pairs.map(([a, b]) => `fsum(after_${a} * after_${b})`),
  ];
  const needsCovariates = covariates.length > 0;
  const joined = needsCovariates ? "left join unit_values v on v.number = d.number" : "";
  const result = await connection.runAndReadAll(
    `with first_events as (${firstEvents(own, counted)}),
      unit_days as (select number, coalesce(c.day, 0) as day, ${states.join(", ")}
        from first_events f asof left join calendar c on f.timestamp >= c.begins
        group by all),
      running as (select number, day, ${totals.join(", ")} from unit_days),
      values_after as (select d.number, d.day, ${after.join(", ")} from running d ${joined}),
      changed as (select *, ${before.join(", ")} from values_after),
      begun as (select d.variant, coalesce(c.day, 0) as day, ${starts.join(", ")}
        from exposed d asof left join calendar c on d.exposed_at >= c.begins ${joined}
        where ${declaredArms(query, parameters).replace("x.", "d.")})
      select variant, day, 0::double as units, ${changes.join(", ")}
        from changed join exposed using (number) group by variant, day
      union all
      select variant, day, count(*)::double, ${first.join(", ")} from begun group by variant, day`,
    parameters.values,
  );
  const rows = result.getRows() as [string, number, number, ...number[]][];
  return accumulate(query.days.length, rows, names.length, metric.kind === "ratio");
}

/** Marks the first event of each session or value, which alone add to how many there are. */
function firstEvents(values: readonly Value[], counted: string): string {
  const marks = values.flatMap((value, index) => {
    const { kind } = value.source.measure;
    if (kind !== "unique-sessions" && kind !== "unique-values") return [];
    const of =
      kind === "unique-sessions"
        ? "session_id"
        : withoutQuotes(`text_${propertyPlace(value, values)}`);
    const isKnown = `counts_${index} and ${of} is not null`;
    return [
      `${isKnown} and row_number() over (partition by number, ${isKnown}, ${of}
        order by timestamp, position) = 1 as is_first_${index}`,
    ];
  });
  return `select *${marks.map((mark) => `, ${mark}`).join("")} from (${counted})`;
}

/** What a day's events say of a value. */
function statesOf(value: Value, index: number, values: readonly Value[]): readonly string[] {
  const number = `number_${propertyPlace(value, values)}`;
  const finite = `filter (counts_${index} and isfinite(${number}))`;
  const { kind } = value.source.measure;
  switch (kind) {
    case "total":
    case "active":
      return [`count(*) filter (counts_${index}) as times_${index}`];
    case "unique-sessions":
    case "unique-values":
      return [`count(*) filter (is_first_${index}) as times_${index}`];
    case "sum":
      return [`fsum(${number}) ${finite} as sum_${index}`];
    case "avg":
      return [`fsum(${number}) ${finite} as sum_${index}`, `count(*) ${finite} as times_${index}`];
    case "min":
    case "max":
      return [`${kind}(${number}) ${finite} as most_${index}`];
  }
}

/** A value at the end of a day, from the days until then. */
function totalOf({ source }: Value, index: number, window: string): string {
  const { kind } = source.measure;
  switch (kind) {
    case "total":
    case "unique-sessions":
    case "unique-values":
      return `sum(times_${index}) ${window}::double`;
    case "active":
      return `least(sum(times_${index}) ${window}, 1)::double`;
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
  width: number,
  hasDenominator: boolean,
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

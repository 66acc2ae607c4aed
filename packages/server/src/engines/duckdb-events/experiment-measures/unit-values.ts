import {
  alternativesOf,
  type MeanMetric,
  type MeasureSource,
  type QuantileMetric,
  type RatioMetric,
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
    plans.push({
      metric,
      values,
      columns,
      bounds: await boundsOf(reading, scan, { metric, columns }),
    });
  }
  const summed = await sumUp(reading, scan, plans);
  const found: ValueTallies[] = [];
  for (const [index, plan] of plans.entries()) {
    const { metric, values, columns, bounds } = plan;
    const { arms, cells } = summed[index] ?? { arms: new Map(), cells: new Map() };
    const own = new Set(columns.filter((_, place) => values[place]?.isCovariate === false));
    const total = (counts: readonly number[]) =>
      [...own].reduce((sum, column) => sum + (counts[column] ?? 0), 0);
    const isQuantile = metric.kind === "quantile";
    found.push({
      arms: isQuantile
        ? await withQuantiles(reading, scan, { plan, arms, level: options.level })
        : arms,
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

/** A value and the number of its column. */
interface Column extends Value {
  readonly index: number;
}

/** What scans of the events have in common. */
interface Scan {
  readonly lookbackMs: number;
  readonly matching: Matching;
  readonly texts: PropertyTexts;
}

/** The scans when they are done: tables of numbers of units, and what was found odd, by column. */
interface DoneScan extends Scan {
  readonly tables: readonly { readonly name: string; readonly columns: readonly number[] }[];
  readonly notNumbers: readonly number[];
  readonly textNumbers: readonly number[];
}

/**
 * Makes tables with the numbers of each exposed unit that has any events, one for each kind of event:
 * what is read of one kind is not read of the others.
 */
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
  const groups = new Map<string, Column[]>();
  for (const [index, value] of values.entries()) {
    const kind = identify(namesOf([value]));
    groups.set(kind, [...(groups.get(kind) ?? []), { ...value, index }]);
  }
  const tables: { name: string; columns: number[] }[] = [];
  const notNumbers = values.map(() => 0);
  const textNumbers = values.map(() => 0);
  let texts = READABLE_TEXTS;
  for (const columns of groups.values()) {
    const name = `unit_values_${tables.length}`;
    const scan = { lookbackMs, matching };
    let odd = await createUnitValues(reading, name, columns, { ...scan, texts });
    if (odd.unread > 0 && texts === READABLE_TEXTS) {
      const measuring = values.filter((value) => propertyOf(value) !== undefined);
      const isMeasured: Part = (parameters) =>
        measuring.map((value) => conditionOf(value, scan, parameters)).join(" or ");
      texts = await readUnreadable(reading, propertiesOf(values), {
        name: "measured_texts",
        join: `${join} ${matching.join}`,
        lookbackMs,
        conditions: [isMeasured],
      });
      await reading.connection.run(`drop table ${name}`);
      odd = await createUnitValues(reading, name, columns, { ...scan, texts });
    }
    for (const { index } of columns) {
      notNumbers[index] = odd.notNumbers.get(index) ?? 0;
      textNumbers[index] = odd.textNumbers.get(index) ?? 0;
    }
    tables.push({ name, columns: columns.map(({ index }) => index) });
  }
  return { lookbackMs, matching, texts, tables, notNumbers, textNumbers };
}

/** Makes a table of numbers of units; tells what was odd, by column. */
async function createUnitValues(
  reading: Reading,
  table: string,
  columns: readonly Column[],
  scan: Scan,
) {
  const parameters = new Parameters();
  const counted = countEvents(reading, columns, scan, parameters);
  const aggregates = columns.map(
    (column) => `${aggregateOf(column, counted)} as value_${column.index}`,
  );
  const oddities = new Map<string, string>();
  const oddOf = (column: Column): { notNumber: string; textNumber: string } | null => {
    const { text, number } = counted.placeOf(column);
    if (text === null || column.source.measure.kind === "unique-values") return null;
    const isNumber = `coalesce(isfinite(${number}), false)`;
    const count = (condition: string) => {
      const aggregate = `count(*) ${counted.filterOf(column, condition)}`;
      const name = oddities.get(aggregate) ?? `odd_${oddities.size}`;
      oddities.set(aggregate, name);
      return name;
    };
    return {
      notNumber: count(`${text} is not null and not ${isNumber}`),
      textNumber: count(`starts_with(${text}, '"') and ${isNumber}`),
    };
  };
  const odd = columns.map((column) => ({ index: column.index, names: oddOf(column) }));
  const hasTexts = propertiesOf(columns).length > 0 && scan.texts === READABLE_TEXTS;
  if (hasTexts) oddities.set("count(*) filter (is_unread)", "unread");
  for (const [aggregate, name] of oddities) aggregates.push(`${aggregate} as ${name}`);
  await reading.connection.run(
    `create temp table ${table} as
      select number, ${aggregates.join(", ")} from (${counted.statement}) group by number`,
    parameters.values,
  );
  const names = [...oddities.values()];
  const totals = new Map<string, number>();
  if (names.length > 0) {
    const result = await reading.connection.runAndReadAll(
      `select ${names.map((name) => `coalesce(sum(${name}), 0)::double`).join()} from ${table}`,
    );
    const row = (result.getRows()[0] ?? []) as readonly number[];
    for (const [place, name] of names.entries()) totals.set(name, row[place] ?? 0);
  }
  const told = (which: "notNumber" | "textNumber") =>
    new Map(odd.map(({ index, names: own }) => [index, own ? (totals.get(own[which]) ?? 0) : 0]));
  return {
    unread: totals.get("unread") ?? 0,
    notNumbers: told("notNumber"),
    textNumbers: told("textNumber"),
  };
}

/** The names of the events that count for any value; `null` where all do. */
function namesOf(values: readonly Value[]): readonly string[] | null {
  const all = values.flatMap(({ source }) => alternativesOf(source.events));
  const names = new Set<string>();
  for (const { event } of all) {
    if (event === null) return null;
    names.add(event);
  }
  return [...names].sort();
}

function propertyOf({ source }: Value): string | undefined {
  return "property" in source.measure ? source.measure.property : undefined;
}

function propertiesOf(values: readonly Value[]): readonly string[] {
  return [...new Set(values.flatMap((value) => propertyOf(value) ?? []))];
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

/** Events that count for some values: a statement, and how its columns are named. */
interface CountedEvents {
  /** Gives `number`, `timestamp`, `position`, `session_id` and what is named below. */
  readonly statement: string;
  /** Where the property of a value stands, as JSON and as a number; `null` where it has none. */
  placeOf(value: Value): { readonly text: string | null; readonly number: string | null };
  /** Whether an event counts for a value. */
  isCounted(value: Value): string;
  /** Keeps to the events that count for a value, and meet a condition. */
  filterOf(value: Value, condition?: string): string;
}

function countEvents(
  { query }: Reading,
  values: readonly Value[],
  scan: Scan,
  parameters: Parameters,
): CountedEvents {
  const { lookbackMs, matching, texts } = scan;
  const where = [
    ...commonConditions(query, parameters, lookbackMs),
    declaredArms(query, parameters),
  ];
  const names = namesOf(values);
  if (names !== null) {
    const listed = names.map((name) => parameters.bind(name));
    where.push(`e.event in (${listed.join()})`);
  }
  // Values of the same events share a condition; a single one need not be told of each event.
  const kindOf = ({ source, ...rest }: Value) =>
    identify([source.events, rest.windowMs, rest.isCovariate]);
  const kinds = [...new Set(values.map(kindOf))];
  const conditions = kinds.map((kind) => {
    const value = values.find((one) => kindOf(one) === kind);
    return value ? conditionOf(value, scan, parameters) : "false";
  });
  const isOne = conditions.length === 1;
  if (isOne) where.push(...conditions);
  const flags = isOne
    ? []
    : conditions.map((condition, kind) => `, ${condition} as counts_${kind}`);
  const countsFor = (value: Value) => (isOne ? null : `counts_${kinds.indexOf(kindOf(value))}`);
  const properties = propertiesOf(values);
  const isRead = (property: string) => {
    const owners = values.filter((value) => propertyOf(value) === property).map(countsFor);
    return owners.includes(null) ? "true" : `(${[...new Set(owners)].join(" or ")})`;
  };
  const read = properties.map((property, place) => {
    const text = texts.textOf(property)(parameters);
    return `, case when ${isRead(property)} then ${text} end as text_${place}`;
  });
  if (properties.length > 0) {
    const any = properties.map(isRead).join(" or ");
    read.push(`, (${any}) and ${UNREADABLE} as is_unread`);
  }
  // Texts like `inf` are numbers to DuckDB, and none that anything can be computed from.
  const numbers = properties.map(
    (_, place) => `, try_cast(${withoutQuotes(`text_${place}`)} as double) as number_${place}`,
  );
  const any = isOne ? "true" : conditions.map((_, kind) => `counts_${kind}`).join(" or ");
  const statement = `select *${numbers.join("")} from (
    select e.* exclude (properties)${read.join("")} from (
      select x.number, e.timestamp, e.position, e.session_id, e.properties${flags.join("")}
        from events e ${exposedJoin(query, lookbackMs)} ${matching.join}
        where ${where.join(" and ")}) e ${texts.join}
      where ${any})`;
  return {
    statement,
    placeOf(value) {
      const property = propertyOf(value);
      if (property === undefined) return { text: null, number: null };
      const place = properties.indexOf(property);
      return { text: `text_${place}`, number: `number_${place}` };
    },
    isCounted: (value) => countsFor(value) ?? "true",
    filterOf(value, condition) {
      const parts = [countsFor(value), condition].filter((part) => typeof part === "string");
      return parts.length === 0 ? "" : `filter (${parts.join(" and ")})`;
    },
  };
}

function aggregateOf(value: Value, counted: CountedEvents): string {
  const { text, number } = counted.placeOf(value);
  const all = counted.filterOf(value);
  const finite = counted.filterOf(value, `isfinite(${number})`);
  const { kind } = value.source.measure;
  switch (kind) {
    case "total":
      return `(count(*) ${all})::double`;
    case "active":
      return `least(count(*) ${all}, 1)::double`;
    case "unique-sessions":
      return `(count(distinct session_id) ${all})::double`;
    case "unique-values":
      return `(count(distinct ${withoutQuotes(text ?? "null")}) ${all})::double`;
    case "sum":
      return `fsum(${number}) ${finite}`;
    case "avg":
      return `favg(${number}) ${finite}`;
    case "min":
    case "max":
      return `${kind}(${number}) ${finite}`;
  }
}

/** The units of declared variants with their values, zero for those without events. */
function unitsWith(
  { query }: Reading,
  { tables }: DoneScan,
  columns: readonly number[],
  parameters: Parameters,
): string {
  const needed = new Set(columns);
  const joins: string[] = [];
  const values: string[] = [];
  for (const { name, columns: own } of tables) {
    const wanted = own.filter((column) => needed.has(column));
    if (wanted.length === 0) continue;
    joins.push(`left join ${name} on ${name}.number = x.number`);
    for (const column of wanted)
      values.push(`, coalesce(${name}.value_${column}, 0) as value_${column}`);
  }
  return `select x.number, x.variant, x.cell, x.exposed_at${values.join("")}
    from exposed x ${joins.join(" ")} where ${declaredArms(query, parameters)}`;
}

/** Where each number of a metric is cut: by its own quantiles over all units (statistics 5.10). */
async function boundsOf(
  reading: Reading,
  scan: DoneScan,
  { metric, columns }: Pick<Plan, "metric" | "columns">,
): Promise<readonly (Bounds | null)[]> {
  if (metric.kind !== "mean" || metric.winsorization === null) return columns.map(() => null);
  const { lowerPercentile, upperPercentile, ignoreZeros } = metric.winsorization;
  const parameters = new Parameters();
  const units = unitsWith(reading, scan, columns, parameters);
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
  // As text: large numbers that are whole would be bound as integers, and are none that fit.
  const bind = (bound: number) => `${parameters.bind(String(bound))}::double`;
  const { lower, upper } = bounds ?? { lower: null, upper: null };
  const raised = lower === null ? value : `greatest(${value}, ${bind(lower)})`;
  return upper === null ? raised : `least(${raised}, ${bind(upper)})`;
}

/** Sums of the metrics by variant, and by variant and cell, in one pass over the units. */
async function sumUp(
  reading: Reading,
  scan: DoneScan,
  plans: readonly Plan[],
): Promise<readonly { arms: Map<string, ArmMeasure>; cells: Map<number, Arms> }[]> {
  const parameters = new Parameters();
  const columns = plans.flatMap((plan) => plan.columns);
  const units = unitsWith(reading, scan, columns, parameters);
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
  scan: DoneScan,
  { plan, arms, level }: { readonly plan: Plan; readonly arms: Arms; readonly level: number },
): Promise<Arms> {
  const { metric, columns } = plan;
  if (metric.kind !== "quantile") return arms;
  const parameters = new Parameters();
  const units = unitsWith(reading, scan, columns, parameters);
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
async function sumUpByDay(
  reading: Reading,
  scan: DoneScan,
  { metric, values, columns, bounds }: Plan,
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

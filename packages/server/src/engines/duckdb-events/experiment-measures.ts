import type { DuckDBConnection, DuckDBValue } from "@duckdb/node-api";
import { encodeJson, parseExactJson } from "@hedgerow/core/exact-json";
import type { FunnelEvent } from "@hedgerow/core/experiments/funnel";
import { retentionOfUnit, stepsReached } from "@hedgerow/core/experiments/measure-unit";
import type {
  FunnelMetric,
  MeanMetric,
  Measure,
  MeasuredEvent,
  MeasureSource,
  Metric,
  RatioMetric,
  RetentionMetric,
} from "@hedgerow/core/experiments/metric";
import { type JsonObject, ownValue } from "@hedgerow/core/json";
import {
  type ArmMeasure,
  type ExperimentMeasures,
  type ExposureCount,
  type ExposureQuery,
  HOLDOUT_PREFIX,
  MULTIPLE_VARIANTS,
} from "../../experiments/experiment-measures.ts";
import { createSlices } from "../../platform/slices.ts";
import { timestampOf } from "./duckdb-values.ts";
import { type Candidate, readTexts, runsOf } from "./performers.ts";
import { createTurns } from "./turns.ts";

/** Runs queries on a connection of their own; `timeUp` throws when they have taken too long. */
type Read = <Result>(
  use: (connection: DuckDBConnection, timeUp: () => void) => Promise<Result>,
  limitMs: number,
) => Promise<Result>;

/** Longest that one answer may take. */
const MEASURE_LIMIT_MS = 60_000;
/** Candidates for matching fetched by one query. */
const CANDIDATES_PER_PAGE = 50_000;

const FLAG_CALLED = "$feature_flag_called";

/**
 * {@link ExperimentMeasures} over the events. One answer is made of tables that live as long as its
 * connection and can leave memory: `exposed`, a row per unit, and for conditions on properties the
 * positions of the events that meet them. One answer at a time, so that others can read meanwhile.
 */
export function createExperimentMeasures(read: Read): ExperimentMeasures {
  const takeTurn = createTurns(1);
  const answer = <Result>(
    query: ExposureQuery,
    use: (measuring: Measuring) => Promise<Result>,
  ): Promise<Result> =>
    takeTurn(() =>
      read(async (connection, timeUp) => {
        const reading = { connection, timeUp, query };
        return await use({ ...reading, marker: await createExposed(reading) });
      }, MEASURE_LIMIT_MS),
    );
  return {
    exposures: (query) =>
      answer(query, async ({ connection }) => {
        const result = await connection.runAndReadAll(
          `select variant, strftime(exposed_at, '%Y-%m-%d') as day, count(*)::double from exposed
            group by day, variant order by day, variant`,
        );
        return (result.getRows() as [string, string, number][]).map(
          ([variant, day, units]): ExposureCount => ({ variant, day, units }),
        );
      }),

    measure: (query, metric) =>
      answer(query, async (measuring) => {
        const arms = await measureArms(measuring, metric);
        return query.variants.map((variant) => arms.get(variant) ?? nothing(variant, metric));
      }),
  };
}

/** A connection, and what is asked of it. */
interface Reading {
  readonly connection: DuckDBConnection;
  readonly timeUp: () => void;
  readonly query: ExposureQuery;
}

/** The same once the table of exposed units is there. */
interface Measuring extends Reading {
  readonly marker: PreparedMarker;
}

type Arms = ReadonlyMap<string, ArmMeasure>;

function measureArms(measuring: Measuring, metric: Metric): Promise<Arms> {
  switch (metric.kind) {
    case "mean":
      return measureMean(measuring, metric);
    case "ratio":
      return measureRatio(measuring, metric);
    case "funnel":
      return measureFunnel(measuring, metric);
    case "retention":
      return measureRetention(measuring, metric);
  }
}

function nothing(variant: string, metric: Metric): ArmMeasure {
  const zeros = { sum: 0, sumSquares: 0, withMain: 0 };
  switch (metric.kind) {
    case "mean":
      return { variant, sums: { n: 0, sum: 0, sumSquares: 0 }, stepCounts: null };
    case "funnel":
      return { variant, sums: { n: 0, sum: 0 }, stepCounts: metric.steps.map(() => 0) };
    case "ratio":
    case "retention":
      return {
        variant,
        sums: { n: 0, sum: 0, sumSquares: 0, denominator: zeros },
        stepCounts: null,
      };
  }
}

/** The parameters of one statement. */
class Parameters {
  readonly values: DuckDBValue[] = [];

  bind(value: DuckDBValue): string {
    return `$${this.values.push(value)}`;
  }
}

/** Events that were looked for, as parts of a statement over `events e`. */
interface PreparedEvents {
  conditions(parameters: Parameters): string[];
}

/** A property of events, as text. */
interface PreparedProperty {
  readonly join: string;
  text(parameters: Parameters): string;
}

/** The unit of an event, and what is joined to tell it. */
function unitOf({ groupTypeIndex }: ExposureQuery): { unit: string; merges: string } {
  if (groupTypeIndex !== null) return { unit: `e.group_${groupTypeIndex}`, merges: "" };
  return {
    unit: "coalesce(m.into_id, e.person_id)",
    merges: "left join person_merges m on m.project_id = e.project_id and m.from_id = e.person_id",
  };
}

/** All that events of an answer have in common. */
function commonConditions({ projectId, from, to }: ExposureQuery, parameters: Parameters) {
  return [
    `e.project_id = ${parameters.bind(projectId)}`,
    `e.timestamp >= ${parameters.bind(timestampOf(from))}`,
    `e.timestamp < ${parameters.bind(timestampOf(to))}`,
  ];
}

/** Joins the unit's exposure to events, of which those before it do not count. */
function exposedJoin(query: ExposureQuery): string {
  const { unit, merges } = unitOf(query);
  return `${merges} join exposed x on x.unit = ${unit} and e.timestamp >= x.exposed_at`;
}

/**
 * Prepares events for statements. Where properties decide, the events that come into question are
 * read in short runs and matched here, and the positions of those that match become a table.
 */
async function prepareEvents(
  { connection, timeUp, query }: Reading,
  { event, filters }: MeasuredEvent,
  name: string,
  join: string,
): Promise<PreparedEvents> {
  const named = (parameters: Parameters) =>
    event === null ? [] : [`e.event = ${parameters.bind(event)}`];
  if (filters.length === 0) return { conditions: named };
  const condition = query.conditionOf(filters);
  const parameters = new Parameters();
  const conditions = [...commonConditions(query, parameters), ...named(parameters)];
  for (const required of condition.requiredNames) {
    // Texts are written by JSON.stringify; long ones are kept elsewhere, and all looked at.
    const text = parameters.bind(`${JSON.stringify(required)}:`);
    conditions.push(`(e.properties is null or contains(e.properties, ${text}))`);
  }
  await connection.run(
    `create temp table ${name}_candidates as select e.position, e.properties_length
      from events e ${join} where ${conditions.join(" and ")}`,
    parameters.values,
  );
  await connection.run(`create temp table ${name}_matched (position bigint not null)`);
  const appender = await connection.createAppender(`${name}_matched`, "main", "temp");
  try {
    for await (const [position, text] of textsOf(connection, `${name}_candidates`, timeUp))
      if (condition.matches(parseExactJson(text) as JsonObject)) {
        appender.appendBigInt(BigInt(position));
        appender.endRow();
      }
    appender.flushSync();
  } finally {
    appender.closeSync();
  }
  return {
    conditions: (statement) => [
      ...named(statement),
      `e.position in (select position from ${name}_matched)`,
    ],
  };
}

/** Texts that DuckDB does not read as JSON: long ones, kept elsewhere, and halves of characters. */
const UNREADABLE = "(e.properties is null or contains(e.properties, '\\ud'))";

/** Prepares a property of prepared events: read by DuckDB where it can, and here where not. */
async function prepareProperty(
  { connection, timeUp, query }: Reading,
  events: PreparedEvents,
  { property, name, join }: { property: string; name: string; join: string },
): Promise<PreparedProperty> {
  const parameters = new Parameters();
  const conditions = [...commonConditions(query, parameters), ...events.conditions(parameters)];
  await connection.run(
    `create temp table ${name}_unread as select e.position, e.properties_length
      from events e ${join} where ${[...conditions, UNREADABLE].join(" and ")}`,
    parameters.values,
  );
  await connection.run(`create temp table ${name}_texts (position bigint not null, text varchar)`);
  const appender = await connection.createAppender(`${name}_texts`, "main", "temp");
  try {
    for await (const [position, text] of textsOf(connection, `${name}_unread`, timeUp)) {
      const value = ownValue(parseExactJson(text) as JsonObject, property);
      if (value === undefined || value === null) continue;
      appender.appendBigInt(BigInt(position));
      appender.appendVarchar(typeof value === "string" ? value : encodeJson(value));
      appender.endRow();
    }
    appender.flushSync();
  } finally {
    appender.closeSync();
  }
  const pointer = `/${property.replaceAll("~", "~0").replaceAll("/", "~1")}`;
  return {
    join: `left join ${name}_texts t on t.position = e.position`,
    text: (statement) =>
      `case when ${UNREADABLE} then t.text
        else json_extract_string(e.properties, ${statement.bind(pointer)}) end`,
  };
}

/** Properties of the events in a table, as texts, with room for other work in between. */
async function* textsOf(
  connection: DuckDBConnection,
  table: string,
  timeUp: () => void,
): AsyncGenerator<readonly [position: number, text: string]> {
  let last = -1;
  const slices = createSlices();
  for (;;) {
    const result = await connection.runAndReadAll(
      `select position::double, '', properties_length from ${table}
        where position > ${last} order by position limit ${CANDIDATES_PER_PAGE}`,
    );
    const page = result.getRows() as unknown as readonly Candidate[];
    if (page.length === 0) return;
    for (const run of runsOf(page)) {
      const texts = await readTexts(
        connection,
        run.map(([position]) => position),
      );
      for (const [position] of run) {
        if (slices.isOver()) {
          await slices.next();
          timeUp();
        }
        last = position;
        const text = texts.get(position);
        if (text !== undefined) yield [position, text];
      }
    }
  }
}

/** How the events that expose are told, and with which variant. */
interface PreparedMarker {
  readonly events: PreparedEvents;
  readonly variant: PreparedProperty;
}

async function prepareMarker(measuring: Reading): Promise<PreparedMarker> {
  const { flagKey, marker } = measuring.query;
  const { event, filters } = marker ?? { event: FLAG_CALLED, filters: [] };
  const events = await prepareEvents(measuring, { event, filters }, "marker", "");
  if (event === FLAG_CALLED) {
    return {
      events: {
        conditions: (statement) => [
          ...events.conditions(statement),
          `e.feature_flag = ${statement.bind(flagKey)}`,
        ],
      },
      variant: { join: "", text: () => "e.feature_flag_response" },
    };
  }
  const property = `$feature/${flagKey}`;
  const variant = await prepareProperty(measuring, events, { property, name: "marker", join: "" });
  return { events, variant };
}

/** Makes the table of units and their exposures. */
async function createExposed(reading: Reading): Promise<PreparedMarker> {
  const { connection, query } = reading;
  const marker = await prepareMarker(reading);
  const { unit, merges } = unitOf(query);
  const parameters = new Parameters();
  const variant = marker.variant.text(parameters);
  const conditions = [
    ...commonConditions(query, parameters),
    ...marker.events.conditions(parameters),
    `${unit} is not null`,
  ];
  const declared = query.variants.map((key) => parameters.bind(key));
  const holdout = parameters.bind(HOLDOUT_PREFIX);
  const isArm = `variant in (${declared.join() || "null"}) or starts_with(variant, ${holdout})`;
  // The variant that came first; of two at one time the one that was stored first.
  const arm =
    query.severalVariants === "exclude"
      ? `case when min(variant) = max(variant) then min(variant) else '${MULTIPLE_VARIANTS}' end`
      : "arg_min(variant, row(timestamp, position))";
  await connection.run(
    `create temp table exposed as
      select *, row_number() over ()::integer as number
        from (
          select unit, min(timestamp) as exposed_at, ${arm} as variant
            from (
              select ${unit} as unit, ${variant} as variant, e.timestamp, e.position
                from events e ${merges} ${marker.variant.join}
                where ${conditions.join(" and ")})
            where ${isArm}
            group by unit)`,
    parameters.values,
  );
  return marker;
}

/** A query that gives the value of each exposed unit that has events of a source. */
async function prepareValues(
  measuring: Measuring,
  { events, measure }: MeasureSource,
  { name, windowMs }: { readonly name: string; readonly windowMs: number | null },
): Promise<(parameters: Parameters) => string> {
  const { query } = measuring;
  const join = exposedJoin(query);
  const prepared = await prepareEvents(measuring, events, name, join);
  const property =
    "property" in measure
      ? await prepareProperty(measuring, prepared, { property: measure.property, name, join })
      : undefined;
  return (parameters) => {
    const conditions = [
      ...commonConditions(query, parameters),
      ...prepared.conditions(parameters),
      ...withinWindow(windowMs, parameters),
    ];
    // Texts like `inf` are numbers to DuckDB, and none that anything can be computed from.
    const number = property && `try_cast(${property.text(parameters)} as double)`;
    return `select unit, coalesce(${aggregateOf(measure)}, 0)::double as value
      from (
        select x.unit, e.session_id${number ? `, ${number} as number` : ""}
          from events e ${join} ${property?.join ?? ""}
          where ${conditions.join(" and ")})
      group by unit`;
  };
}

function withinWindow(windowMs: number | null, parameters: Parameters): string[] {
  return windowMs === null
    ? []
    : [
        `e.timestamp < x.exposed_at + to_microseconds(${parameters.bind(BigInt(windowMs) * 1000n)}::bigint)`,
      ];
}

function aggregateOf({ kind }: Measure): string {
  switch (kind) {
    case "total":
      return "count(*)";
    case "active":
      return "1";
    case "unique-sessions":
      return "count(distinct session_id)";
    case "sum":
      return "fsum(number) filter (isfinite(number))";
    case "avg":
      return "favg(number) filter (isfinite(number))";
    case "min":
    case "max":
      return `${kind}(number) filter (isfinite(number))`;
  }
}

async function measureMean(measuring: Measuring, metric: MeanMetric): Promise<Arms> {
  const { source, winsorization, conversionWindowMs: windowMs } = metric;
  const values = await prepareValues(measuring, source, { name: "main", windowMs });
  const parameters = new Parameters();
  const { lowerPercentile, upperPercentile, ignoreZeros } = winsorization ?? {
    lowerPercentile: null,
    upperPercentile: null,
    ignoreZeros: false,
  };
  const quantile = (at: number, condition: string) =>
    `quantile_cont(value, ${parameters.bind(at)}::double)${condition}`;
  const measured = values(parameters);
  const declared = declaredArms(measuring, parameters);
  const bounds: string[] = [];
  if (lowerPercentile !== null) bounds.push(`${quantile(lowerPercentile, "")} as lower_bound`);
  if (upperPercentile !== null) {
    const counted = quantile(upperPercentile, ignoreZeros ? " filter (value <> 0)" : "");
    bounds.push(`coalesce(${counted}, ${quantile(upperPercentile, "")}) as upper_bound`);
  }
  const raised = lowerPercentile === null ? "value" : "greatest(value, lower_bound)";
  const inside = upperPercentile === null ? raised : `least(${raised}, upper_bound)`;
  const result = await measuring.connection.runAndReadAll(
    `with measured as (${measured}),
      units as (select x.variant, coalesce(v.value, 0) as value
        from exposed x left join measured v on v.unit = x.unit where ${declared})
      ${bounds.length === 0 ? "" : `, bounds as (select ${bounds.join()} from units)`}
      select variant, count(*)::double, fsum(value), fsum(value * value)
        from (select variant, ${inside} as value
          from units ${bounds.length === 0 ? "" : "cross join bounds"})
        group by variant`,
    parameters.values,
  );
  const rows = result.getRows() as [string, number, number, number][];
  return new Map(
    rows.map(([variant, n, sum, sumSquares]) => [
      variant,
      { variant, sums: { n, sum, sumSquares }, stepCounts: null },
    ]),
  );
}

async function measureRatio(measuring: Measuring, metric: RatioMetric): Promise<Arms> {
  const windowMs = metric.conversionWindowMs;
  const main = await prepareValues(measuring, metric.numerator, { name: "main", windowMs });
  const by = await prepareValues(measuring, metric.denominator, { name: "by", windowMs });
  const parameters = new Parameters();
  const result = await measuring.connection.runAndReadAll(
    `with measured as (${main(parameters)}), divided as (${by(parameters)}),
      units as (select x.variant, coalesce(v.value, 0) as y, coalesce(d.value, 0) as d
        from exposed x left join measured v on v.unit = x.unit
          left join divided d on d.unit = x.unit
        where ${declaredArms(measuring, parameters)})
      select variant, count(*)::double, fsum(y), fsum(y * y), fsum(d), fsum(d * d), fsum(y * d)
        from units group by variant`,
    parameters.values,
  );
  const rows = result.getRows() as [string, number, number, number, number, number, number][];
  return new Map(
    rows.map(([variant, n, sum, sumSquares, ...[total, squares, withMain]]) => [
      variant,
      {
        variant,
        sums: {
          n,
          sum,
          sumSquares,
          denominator: { sum: total, sumSquares: squares, withMain },
        },
        stepCounts: null,
      },
    ]),
  );
}

function declaredArms({ query }: Measuring, parameters: Parameters): string {
  const declared = query.variants.map((variant) => parameters.bind(variant));
  return `x.variant in (${declared.join() || "null"})`;
}

async function measureFunnel(measuring: Measuring, metric: FunnelMetric): Promise<Arms> {
  const { marker } = measuring;
  // Without a window the first exposure leaves the most time; with one a later may (statistics 1.2).
  const exposes = {
    join: marker.variant.join,
    conditions: (parameters: Parameters) => [
      ...marker.events.conditions(parameters),
      `${marker.variant.text(parameters)} = x.variant`,
      ...(metric.conversionWindowMs === null ? ["e.timestamp = x.exposed_at"] : []),
    ],
  };
  const steps = await prepareSteps(measuring, metric.steps);
  const tallies = new Map<string, { units: number; counts: number[] }>();
  const tallyOf = (variant: string) => {
    const tally = tallies.get(variant) ?? { units: 0, counts: metric.steps.map(() => 0) };
    tallies.set(variant, tally);
    return tally;
  };
  for await (const { variant, events } of unitsOf(measuring, [exposes, ...steps])) {
    const tally = tallyOf(variant);
    tally.units += 1;
    const reached = stepsReached(events, metric);
    for (let step = 0; step < reached; step += 1)
      tally.counts[step] = (tally.counts[step] ?? 0) + 1;
  }
  return new Map(
    [...tallies].map(([variant, { units, counts }]) => [
      variant,
      { variant, sums: { n: units, sum: counts.at(-1) ?? 0 }, stepCounts: counts },
    ]),
  );
}

async function measureRetention(measuring: Measuring, metric: RetentionMetric): Promise<Arms> {
  const steps = await prepareSteps(measuring, [metric.start, metric.completion]);
  const tallies = new Map<string, { started: number; retained: number }>();
  for await (const { variant, exposureMs, events } of unitsOf(measuring, steps)) {
    const { started, retained } = retentionOfUnit(events, exposureMs, metric);
    const tally = tallies.get(variant) ?? { started: 0, retained: 0 };
    tallies.set(variant, tally);
    if (started) tally.started += 1;
    if (retained) tally.retained += 1;
  }
  return new Map(
    [...tallies].map(([variant, { started, retained }]) => [
      variant,
      {
        variant,
        sums: {
          n: started,
          sum: retained,
          sumSquares: retained,
          denominator: { sum: started, sumSquares: started, withMain: retained },
        },
        stepCounts: null,
      },
    ]),
  );
}

/** Events that are a step of something. */
interface Step {
  readonly join: string;
  conditions(parameters: Parameters): string[];
}

async function prepareSteps(
  measuring: Measuring,
  events: readonly MeasuredEvent[],
): Promise<readonly Step[]> {
  const steps: Step[] = [];
  for (const [index, event] of events.entries()) {
    const join = exposedJoin(measuring.query);
    const { conditions } = await prepareEvents(measuring, event, `step_${index}`, join);
    steps.push({ join: "", conditions });
  }
  return steps;
}

/** A unit and its events from its exposure on, in order, with the steps that each can be. */
interface UnitEvents {
  readonly variant: string;
  readonly exposureMs: number;
  readonly events: readonly FunnelEvent[];
}

/** The exposed units of declared variants that have any such events, one after another. */
async function* unitsOf(measuring: Measuring, steps: readonly Step[]): AsyncGenerator<UnitEvents> {
  const { connection, query, timeUp } = measuring;
  const parameters = new Parameters();
  const common = commonConditions(query, parameters);
  const declared = declaredArms(measuring, parameters);
  const masks = steps.map(
    (step, index) =>
      `case when ${step.conditions(parameters).join(" and ") || "true"} then ${2 ** index} else 0 end`,
  );
  const result = await connection.stream(
    `select number, variant, at_ms, event_ms, steps from (
      select x.number, x.variant, epoch_ms(x.exposed_at)::double as at_ms,
          epoch_ms(e.timestamp)::double as event_ms, e.position,
          (${masks.join(" + ")})::integer as steps
        from events e ${exposedJoin(query)} ${steps.map(({ join }) => join).join(" ")}
        where ${[...common, declared].join(" and ")})
      where steps > 0 order by number, event_ms, position`,
    parameters.values,
  );
  let unit:
    | { number: number; variant: string; exposureMs: number; events: FunnelEvent[] }
    | undefined;
  const slices = createSlices();
  for await (const rows of result.yieldRows()) {
    for (const row of rows) {
      const [number, variant, exposureMs, at, mask] = row as [
        number,
        string,
        number,
        number,
        number,
      ];
      if (unit?.number !== number) {
        if (unit) yield unit;
        unit = { number, variant, exposureMs, events: [] };
      }
      unit.events.push({ at, steps: stepsOfMask(mask) });
    }
    if (slices.isOver()) {
      await slices.next();
    }
    timeUp();
  }
  if (unit) yield unit;
}

function stepsOfMask(mask: number): readonly number[] {
  const steps: number[] = [];
  for (let step = 0; mask >> step > 0; step += 1) if ((mask >> step) & 1) steps.push(step);
  return steps;
}

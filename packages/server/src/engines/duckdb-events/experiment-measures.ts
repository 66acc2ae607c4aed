import type { DuckDBConnection } from "@duckdb/node-api";
import type { Metric } from "@hedgerow/core/experiments/metric";
import { QueryTooLong } from "../../events/event-store.ts";
import type {
  ArmMeasure,
  BreakdownCell,
  ExperimentMeasures,
  ExposureCount,
  ExposureQuery,
  Measured,
  MeasureOptions,
} from "../../experiments/experiment-measures.ts";
import { createExposed, REST_CELL } from "./experiment-measures/exposed-units.ts";
import {
  createCalendar,
  createExceptedPersons,
  type Reading,
} from "./experiment-measures/reading.ts";
import { type Arms, armSumsOf, pairsOf, type Tallies } from "./experiment-measures/tallies.ts";
import { measureSteps, type StepMetric } from "./experiment-measures/unit-steps.ts";
import { measureValues } from "./experiment-measures/unit-values.ts";
import type { ValueMetric } from "./experiment-measures/value-plan.ts";
import { createTurns } from "./turns.ts";

/** Runs queries on a connection of their own; `timeUp` throws when they have taken too long. */
type Read = <Result>(
  use: (connection: DuckDBConnection, timeUp: () => void) => Promise<Result>,
  limitMs: number,
) => Promise<Result>;

/** Longest that one answer may take. */
const MEASURE_LIMIT_MS = 60_000;

/**
 * {@link ExperimentMeasures} over the events. One answer is made of tables that live as long as its
 * connection and can leave memory: `exposed`, a row per unit; `unit_values`, a row per unit that has
 * any events; and for conditions on properties the positions of the events that meet them. One answer at
 * a time, so that others can read meanwhile.
 */
export function createExperimentMeasures(
  read: Read,
  dataVersion: () => Promise<string>,
): ExperimentMeasures {
  const takeTurn = createTurns(1);
  const answer = <Result>(
    query: ExposureQuery,
    use: (reading: Reading) => Promise<Result>,
  ): Promise<Result> =>
    takeTurn(() =>
      read(async (connection, timeUp) => {
        const reading = { connection, timeUp, query };
        try {
          await createExceptedPersons(reading);
          return await use(reading);
        } catch (error) {
          throw isOutOfRoom(error) ? new QueryTooLong({ cause: error }) : error;
        }
      }, MEASURE_LIMIT_MS),
    );
  return {
    dataVersion,

    exposures: (query) =>
      answer(query, async (reading) => {
        await createExposed(reading, null);
        await createCalendar(reading);
        const result = await reading.connection.runAndReadAll(
          `select x.variant, coalesce(c.day, 0) as day, count(*)::double
            from exposed x asof left join calendar c on x.exposed_at >= c.begins
            group by day, x.variant order by day, x.variant`,
        );
        return (result.getRows() as [string, number, number][]).map(
          ([variant, day, units]): ExposureCount => ({
            variant,
            day: query.days[day]?.day ?? "",
            units,
          }),
        );
      }),

    measure: (query, metrics, options) =>
      answer(query, async (reading) => {
        const exposed = await createExposed(reading, options.breakdown);
        const valued = metrics.filter(isOfValues);
        const stepped = metrics.filter((metric) => !isOfValues(metric)) as readonly StepMetric[];
        const values = await measureValues(reading, valued, options);
        const steps = await measureSteps(reading, stepped, { exposed, byDay: options.byDay });
        return metrics.map((metric): Measured => {
          const found = isOfValues(metric) ? values[valued.indexOf(metric)] : undefined;
          const tallies = found ?? steps[stepped.indexOf(metric as StepMetric)] ?? NOTHING;
          const armsOf = (arms: Arms): readonly ArmMeasure[] =>
            query.variants.map((variant) => arms.get(variant) ?? nothing(variant, metric, options));
          return {
            arms: armsOf(tallies.arms),
            cells: cellsOf(tallies, exposed.cells, armsOf),
            days: tallies.days.map((arms, index) => ({
              day: query.days[index]?.day ?? "",
              arms: armsOf(arms),
            })),
            bounds: found?.bounds ?? null,
            notNumbers: found?.notNumbers ?? 0,
            textNumbers: found?.textNumbers ?? 0,
          };
        });
      }),
  };
}

/** Whether an answer needs more memory than DuckDB may use, or more room to spill to. */
function isOutOfRoom(error: unknown): boolean {
  return error instanceof Error && /\bOut of Memory Error\b/.test(error.message);
}

function isOfValues(metric: Metric): metric is ValueMetric {
  return metric.kind === "mean" || metric.kind === "ratio" || metric.kind === "quantile";
}

const NOTHING: Tallies = { arms: new Map(), cells: new Map(), days: [] };

/** The values of the breakdown, those that hold the most units first, and then the rest. */
function cellsOf(
  { cells }: Tallies,
  values: readonly (string | null)[],
  armsOf: (arms: Arms) => readonly ArmMeasure[],
): readonly BreakdownCell[] {
  if (cells.size === 0) return [];
  const told = values.map((value, number) => ({ value, number, isRest: false }));
  if (cells.has(REST_CELL)) told.push({ value: null, number: REST_CELL, isRest: true });
  return told.map(({ value, number, isRest }) => ({
    value,
    isRest,
    arms: armsOf(cells.get(number) ?? new Map()),
  }));
}

/** An arm that nobody is in. */
function nothing(variant: string, metric: Metric, { lookbackMs }: MeasureOptions): ArmMeasure {
  if (metric.kind === "funnel")
    return { variant, sums: { n: 0, sum: 0 }, stepCounts: metric.steps.map(() => 0) };
  const hasDenominator = metric.kind === "ratio" || metric.kind === "retention";
  const own = hasDenominator ? 2 : 1;
  const hasCovariates = lookbackMs !== null && (metric.kind === "mean" || metric.kind === "ratio");
  const width = hasCovariates ? 2 * own : own;
  const zeros = (size: number) => new Array<number>(size).fill(0);
  const vector = { n: 0, sums: zeros(width), products: zeros(pairsOf(width).length) };
  return { variant, sums: armSumsOf(vector, hasDenominator), stepCounts: null };
}

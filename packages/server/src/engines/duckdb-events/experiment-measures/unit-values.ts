import { quantileRanks } from "@hedgerow/core/statistics/quantile-metric";
import type {
  ArmMeasure,
  Measured,
  MeasureOptions,
} from "../../../experiments/experiment-measures.ts";
import type { Value } from "./counted-events.ts";
import { identify } from "./matching.ts";
import { Parameters, type Reading } from "./reading.ts";
import { type Arms, armSumsOf, pairsOf, type Tallies } from "./tallies.ts";
import { boundsOf, inside, type ValueMetric, type ValuePlan, valuesOf } from "./value-plan.ts";
import { type DoneScan, scanEvents, unitsWith } from "./value-tables.ts";
import { sumUpByDay } from "./values-by-day.ts";

/** What a metric that is made of numbers of units came to. */
export interface ValueTallies
  extends Tallies,
    Pick<Measured, "bounds" | "notNumbers" | "textNumbers"> {}

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
  const plans: ValuePlan[] = [];
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

/** Sums of the metrics by variant, and by variant and cell, in one pass over the units. */
async function sumUp(
  reading: Reading,
  scan: DoneScan,
  plans: readonly ValuePlan[],
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
  { plan, arms, level }: { readonly plan: ValuePlan; readonly arms: Arms; readonly level: number },
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

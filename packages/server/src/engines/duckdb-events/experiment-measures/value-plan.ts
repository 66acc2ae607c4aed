import type { MeanMetric, QuantileMetric, RatioMetric } from "@hedgerow/core/experiments/metric";
import type { MeasureOptions } from "../../../experiments/experiment-measures.ts";
import type { Value } from "./counted-events.ts";
import { Parameters, type Reading } from "./reading.ts";
import { type DoneScan, unitsWith } from "./value-tables.ts";

/** Metrics that are made of one number or two of each unit. */
export type ValueMetric = MeanMetric | RatioMetric | QuantileMetric;

/** Where values are cut. */
interface Bounds {
  readonly lower: number | null;
  readonly upper: number | null;
}

/** A metric and the numbers it needs of each unit: its own first, then those before the exposure. */
export interface ValuePlan {
  readonly metric: ValueMetric;
  readonly values: readonly Value[];
  /** Their columns in the table of units, and where each is cut. */
  readonly columns: readonly number[];
  readonly bounds: readonly (Bounds | null)[];
}

/** The numbers that a metric needs of each unit. */
export function valuesOf(metric: ValueMetric, { lookbackMs }: MeasureOptions): readonly Value[] {
  const sources =
    metric.kind === "ratio" ? [metric.numerator, metric.denominator] : [metric.source];
  const windowMs = metric.conversionWindowMs;
  const own = sources.map((source): Value => ({ source, windowMs, isCovariate: false }));
  if (lookbackMs === null || metric.kind === "quantile") return own;
  const before = sources.map((source): Value => ({ source, windowMs: null, isCovariate: true }));
  return [...own, ...before];
}

/** Where each number of a metric is cut: by its own quantiles over all units (statistics 5.10). */
export async function boundsOf(
  reading: Reading,
  scan: DoneScan,
  { metric, columns }: Pick<ValuePlan, "metric" | "columns">,
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
export function inside(
  value: string,
  bounds: Bounds | null | undefined,
  parameters: Parameters,
): string {
  // As text: large numbers that are whole would be bound as integers, and are none that fit.
  const bind = (bound: number) => `${parameters.bind(String(bound))}::double`;
  const { lower, upper } = bounds ?? { lower: null, upper: null };
  const raised = lower === null ? value : `greatest(${value}, ${bind(lower)})`;
  return upper === null ? raised : `least(${raised}, ${bind(upper)})`;
}

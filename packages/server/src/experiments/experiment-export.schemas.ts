import { Type } from "typebox";
import { Refusal } from "../http/errors.ts";
import { queryText } from "../http/query-text.ts";
import { wireInstant, wireInstantOrNull } from "../http/wire-instant.ts";
import { AnyObject } from "../http/wire-schemas.ts";
import type { Analysis, Exposures } from "./analyse-experiment.ts";
import type { VariantResult } from "./analyse-measured.ts";
import { wireSums } from "./balanced-numbers.schemas.ts";
import { type BalancedEffect, balancedNumbersOf } from "./balanced-numbers.ts";
import {
  type JudgedMetric,
  wireAnalysis,
  wireExposures,
  wireFamily,
} from "./experiment-query.schemas.ts";
import type { ExperimentView } from "./experiment-view.ts";
import { type CsvCell, writeCsv } from "./write-csv.ts";

export const ExportParameters = Type.Object({
  format: Type.Optional(Type.String({ description: "`json`, unless `csv` is given." })),
});

/** All that results were computed from, and the results. */
export const ExportAnswer = AnyObject;

/** A metric with its place in the experiment. */
export interface ExportedMetric {
  readonly role: "primary" | "secondary";
  readonly judged: JudgedMetric;
  readonly analysis: Analysis;
}

/** The results of an experiment with everything that they were computed from. */
export interface ExperimentExport {
  readonly view: ExperimentView;
  readonly exposures: Exposures;
  readonly metrics: readonly ExportedMetric[];
}

/** The `format` of a request; throws a {@link Refusal} for one that there is none of. */
export function exportFormatOf(query: unknown): "csv" | "json" {
  const format = queryText(query, "format") || "json";
  if (format === "csv" || format === "json") return format;
  throw new Refusal("invalid_choice", `"${format}" is not a valid choice. Possible is csv, json.`, {
    attr: "format",
  });
}

/** The export as JSON: answers of queries, under the experiment that they are of. */
export function wireExport({ view, exposures, metrics }: ExperimentExport) {
  const { experiment, flag } = view;
  return {
    experiment: {
      id: experiment.id,
      name: experiment.name,
      feature_flag_key: flag.key,
      start_date: wireInstantOrNull(experiment.startDate),
      end_date: wireInstantOrNull(experiment.endDate),
      stats_config: experiment.statsConfig,
      exposure_criteria: experiment.exposureCriteria,
    },
    computed_at: wireInstant(exposures.computedAt),
    exposures: wireExposures(exposures),
    metrics: metrics.map(({ role, judged, analysis }) => ({
      role,
      ...wireAnalysis(analysis, judged),
    })),
    extended: wireFamily(metrics.filter(({ role }) => role === "primary")),
  };
}

/** One of a row's columns. */
interface Column {
  readonly name: string;
  readonly of: (row: Row) => CsvCell | undefined;
}

/** One variant of one metric; the control has no effect. */
interface Row {
  readonly view: ExperimentView;
  readonly metric: ExportedMetric;
  readonly result: Pick<VariantResult, "arm" | "failures">;
  readonly effect: BalancedEffect | null;
}

const sums = (name: string): Column => ({
  name,
  of: ({ result }) => (wireSums(result.arm.sums) as Record<string, CsvCell>)[name],
});
const comparison = (
  name: string,
  of: (compared: VariantResult["comparison"], row: Row) => CsvCell | undefined,
): Column => ({
  name,
  of: (row) => row.effect && of(row.effect.result.comparison, row),
});

const COLUMNS: readonly Column[] = [
  { name: "experiment_id", of: ({ view }) => view.experiment.id },
  { name: "experiment", of: ({ view }) => view.experiment.name },
  { name: "flag", of: ({ view }) => view.flag.key },
  { name: "start", of: ({ view }) => view.experiment.startDate?.toISOString() },
  { name: "end", of: ({ view }) => view.experiment.endDate?.toISOString() },
  { name: "role", of: ({ metric }) => metric.role },
  { name: "metric_uuid", of: ({ metric }) => textOf(metric.judged.sent.uuid) },
  { name: "metric", of: ({ metric }) => textOf(metric.judged.sent.name) },
  { name: "kind", of: ({ metric }) => metric.judged.metric.kind },
  { name: "goal", of: ({ metric }) => metric.judged.metric.goal },
  { name: "level", of: ({ metric }) => metric.judged.method.level },
  { name: "variant", of: ({ result }) => result.arm.variant },
  { name: "is_control", of: ({ effect }) => effect === null },
  sums("number_of_samples"),
  sums("sum"),
  sums("sum_squares"),
  sums("denominator_sum"),
  sums("denominator_sum_squares"),
  sums("numerator_denominator_sum_product"),
  comparison("status", ({ status }) => status),
  comparison("decision", (_, { effect }) => effect?.report.decision),
  comparison("difference", ({ absolute }) => absolute?.estimate),
  comparison("standard_error", ({ absolute }) => absolute?.standardError),
  comparison("degrees", ({ absolute }) => absolute?.degrees),
  comparison("p_value", ({ absolute }) => absolute?.pValue),
  comparison("difference_low", ({ absolute }) => absolute?.interval[0]),
  comparison("difference_high", ({ absolute }) => absolute?.interval[1]),
  comparison("lift", ({ relative }) => relative?.estimate),
  comparison("lift_set", ({ relative }) => relative?.set.kind),
  comparison("lift_low", ({ relative }) => bounded(relative)?.lower),
  comparison("lift_high", ({ relative }) => bounded(relative)?.upper),
  comparison("chance_to_win", ({ bayes }) => bayes?.chanceToWin),
  comparison("chance_to_lose", ({ bayes }) => bayes?.chanceToLose),
  comparison("loss_if_shipped", ({ bayes }) => bayes?.lossIfShipped),
  comparison("loss_if_kept", ({ bayes }) => bayes?.lossIfKept),
  comparison("sequential_p_value", ({ sequential }) => sequential?.pValue),
  comparison("sequential_low", ({ sequential }) => sequential?.interval[0]),
  comparison("sequential_high", ({ sequential }) => sequential?.interval[1]),
  comparison("p_value_holm", (_, { effect }) => effect?.corrected.holm),
  comparison("p_value_bh", (_, { effect }) => effect?.corrected.benjaminiHochberg),
  comparison("p_value_bonferroni", (_, { effect }) => effect?.corrected.bonferroni),
  comparison("posthog_method", (_, { metric }) => metric.judged.method.method),
  comparison("posthog_probability", (_, { effect }) => effect?.result.numbers?.probability),
  comparison("posthog_low", (_, { effect }) => effect?.result.numbers?.interval[0]),
  comparison("posthog_high", (_, { effect }) => effect?.result.numbers?.interval[1]),
  comparison("posthog_significant", (_, { effect }) => effect?.result.numbers?.significant),
  { name: "validation_failures", of: ({ result }) => result.failures.join(" ") },
  { name: "warnings", of: ({ effect }) => effect?.remarks.map(({ code }) => code).join(" ") },
];

/** The export as a table: a row for each metric and variant. */
export function csvExport({ view, metrics }: ExperimentExport): string {
  const rows = metrics.flatMap((metric): Row[] => {
    const { analysis, judged } = metric;
    const { effects } = balancedNumbersOf(analysis, judged.metric, {
      ...judged.balanced,
      level: judged.method.level,
    });
    return [
      { view, metric, result: analysis.baseline, effect: null },
      ...effects.map((effect) => ({ view, metric, result: effect.result, effect })),
    ];
  });
  return writeCsv(
    COLUMNS.map(({ name }) => name),
    rows.map((row) => COLUMNS.map(({ of }) => of(row) ?? null)),
  );
}

function textOf(value: unknown): string | null {
  return typeof value === "string" ? value : null;
}

function bounded(relative: VariantResult["comparison"]["relative"]) {
  return relative?.set.kind === "bounded" ? relative.set : null;
}

import { isJsonObject, type JsonObject, ownValue } from "@hedgerow/core/json";
import type { ExperimentView } from "./experiment-view.ts";

/** A metric of an experiment as it was sent, and where it stands. */
export interface ExperimentMetric {
  readonly sent: JsonObject;
  /** The field that refusals name. */
  readonly attr: string;
}

/** The primary metrics of the newer form, shared ones included, in the order that the experiment says. */
export function primaryMetricsOf({ experiment, savedMetrics }: ExperimentView): ExperimentMetric[] {
  const all = [
    ...experiment.metrics.map((sent, index) => ({ sent, attr: `metrics__${index}` })),
    ...sharedMetricsOf(savedMetrics, "primary"),
  ];
  return inOrder(all, experiment.primaryOrder);
}

/**
 * The secondary metrics: insights of the older form as they were sent, then those of the newer form in
 * the order that the experiment says, shared ones included. Their place is the id that clients ask by.
 */
export function secondaryMetricsOf({
  experiment,
  savedMetrics,
}: ExperimentView): readonly (ExperimentMetric & { readonly isInsight: boolean })[] {
  const insights = (experiment.secondaryMetrics ?? []).map((sent, index) => ({
    sent: isJsonObject(sent) ? sent : {},
    attr: `secondary_metrics__${index}`,
    isInsight: true,
  }));
  const metrics = [
    ...experiment.metricsSecondary.map((sent, index) => ({
      sent,
      attr: `metrics_secondary__${index}`,
    })),
    ...sharedMetricsOf(savedMetrics, "secondary"),
  ];
  return [
    ...insights,
    ...inOrder(metrics, experiment.secondaryOrder).map((metric) => ({
      ...metric,
      isInsight: false,
    })),
  ];
}

/** Those that are linked without a type are secondary: they were not what the experiment is about. */
function sharedMetricsOf(
  savedMetrics: ExperimentView["savedMetrics"],
  type: "primary" | "secondary",
): ExperimentMetric[] {
  return savedMetrics.flatMap(({ link, metric }, index) => {
    const linked = link.metadata === null ? undefined : ownValue(link.metadata, "type");
    const isPrimary = linked === "primary";
    if (isPrimary !== (type === "primary")) return [];
    return [
      { sent: { name: metric.name, ...metric.query }, attr: `saved_metrics__${index}__query` },
    ];
  });
}

/** Metrics by their uuids; those that the order does not name come last, as they stood. */
function inOrder(
  metrics: readonly ExperimentMetric[],
  order: readonly string[] | null,
): ExperimentMetric[] {
  const place = ({ sent }: ExperimentMetric): number => {
    const found = order?.indexOf(String(ownValue(sent, "uuid"))) ?? -1;
    return found < 0 ? Number.MAX_SAFE_INTEGER : found;
  };
  return metrics.toSorted((left, right) => place(left) - place(right));
}

import { isJsonObject, type JsonObject, ownValue } from "@hedgerow/core/json";
import type { App } from "../http/app.ts";
import { answersAlso } from "../http/check-accept.ts";
import { Refusal } from "../http/errors.ts";
import { access, projectOf } from "../http/management-api.ts";
import { pathIdOf } from "../http/path-id.ts";
import type { AnalyseExperiment } from "./analyse-experiment.ts";
import { NO_DATA } from "./classic-result.ts";
import {
  csvExport,
  ExportAnswer,
  ExportParameters,
  exportFormatOf,
  wireExport,
} from "./experiment-export.schemas.ts";
import { primaryMetricsOf, secondaryMetricsOf } from "./experiment-metrics.ts";
import { noResults } from "./experiment-results.schemas.ts";
import type { ExperimentView } from "./experiment-view.ts";
import type { Experiments } from "./experiments.ts";
import { exposureOf } from "./exposure.schemas.ts";
import { anyMetricOf, breakdownOf, insightMetricOf } from "./metric.schemas.ts";
import { balancedSettingsOf, lookbackOf, methodOf } from "./stats-config.schemas.ts";

/** Results with all that they were computed from, for whoever checks them with tools of their own. */
export function experimentExportRoutes(
  app: App,
  {
    experiments,
    analyseExperiment,
  }: {
    experiments: Pick<Experiments, "experiment">;
    analyseExperiment: AnalyseExperiment;
  },
): void {
  app.get(
    "/api/projects/:project_id/experiments/:id/export",
    {
      config: { ...access("experiment:read").config, ...answersAlso("text/csv") },
      schema: {
        tags: ["experiments"],
        summary: "Take the results of all metrics away with their inputs, as JSON or CSV",
        querystring: ExportParameters,
        response: { 200: ExportAnswer },
      },
    },
    async (request, reply) => {
      const format = exportFormatOf(request.query);
      const project = projectOf(request);
      const view = await experiments.experiment(project.id, pathIdOf(request));
      const { id, startDate, statsConfig, parameters } = view.experiment;
      if (startDate === null) throw noResults(NO_DATA);
      const method = methodOf(statsConfig);
      const criteria = exposureOf(view.experiment, project.timeZone);
      const metrics = metricsOf(view, project.timeZone).map(({ role, sent, attr, metric }) => ({
        role,
        judged: {
          sent,
          metric,
          method,
          balanced: balancedSettingsOf(statsConfig, parameters, { sent, attr }),
          breakdown: breakdownOf(sent, attr),
        },
      }));
      const asked = { project, view, criteria };
      const exposures = await analyseExperiment.exposures(asked);
      const analyses = await analyseExperiment.analyseAll({
        ...asked,
        method,
        metrics: metrics.map(({ judged: { metric, balanced, breakdown } }) => ({
          metric,
          belief: balanced,
          breakdown,
        })),
        options: { lookbackMs: lookbackOf(statsConfig) },
      });
      const analysed = metrics.flatMap((metric, index) => {
        const analysis = analyses[index];
        return analysis ? [{ ...metric, analysis }] : [];
      });
      const whole = { view, exposures, metrics: analysed };
      if (format === "json") return wireExport(whole);
      return reply
        .header("content-disposition", `attachment; filename="experiment-${id}.csv"`)
        .type("text/csv; charset=utf-8")
        .serializer((text: string) => text)
        .send(csvExport(whole) as never);
    },
  );
}

/** All metrics of an experiment, the older forms first. */
function metricsOf(view: ExperimentView, timeZone: string) {
  const { filters } = view.experiment;
  const insight = insightMetricOf(filters, "filters", timeZone);
  const read = (role: "primary" | "secondary", sent: JsonObject, attr: string) => ({
    role,
    sent,
    attr,
    metric: anyMetricOf(sent, attr, timeZone),
  });
  const metrics = [
    ...(insight
      ? [{ role: "primary" as const, sent: filters ?? {}, attr: "filters", metric: insight }]
      : []),
    ...primaryMetricsOf(view).map(({ sent, attr }) => read("primary", sent, attr)),
    ...secondaryMetricsOf(view).flatMap(({ sent, attr, isInsight }) => {
      if (!isInsight) return [read("secondary", sent, attr)];
      const own = ownValue(sent, "filters");
      const metric = insightMetricOf(isJsonObject(own) ? own : null, `${attr}__filters`, timeZone);
      return metric ? [{ role: "secondary" as const, sent, attr, metric }] : [];
    }),
  ];
  if (metrics.length > 0) return metrics;
  throw new Refusal("invalid_input", "Experiment has no target metric", { attr: "metrics" });
}

import { ownValue } from "@hedgerow/core/json";
import type { App } from "../http/app.ts";
import { Refusal } from "../http/errors.ts";
import { access, projectOf } from "../http/management-api.ts";
import { pathIdOf } from "../http/path-id.ts";
import { queryText } from "../http/query-text.ts";
import type { AnalyseExperiment } from "./analyse-experiment.ts";
import { NO_DATA } from "./classic-result.ts";
import { primaryMetricsOf, secondaryMetricsOf } from "./experiment-metrics.ts";
import { noResults } from "./experiment-results.schemas.ts";
import {
  TimeseriesAnswer,
  TimeseriesParameters,
  wireTimeseries,
} from "./experiment-timeseries.schemas.ts";
import type { Experiments } from "./experiments.ts";
import { exposureOf } from "./exposure.schemas.ts";
import { anyMetricOf } from "./metric.schemas.ts";
import { asksToRefresh } from "./refresh.schemas.ts";
import { lookbackOf, methodOf } from "./stats-config.schemas.ts";

/** How a metric's estimate and its interval went from day to day (posthog-api 5.14). */
export function experimentTimeseriesRoutes(
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
    "/api/projects/:project_id/experiments/:id/timeseries_results",
    {
      ...access("experiment:read"),
      schema: {
        tags: ["experiments"],
        summary: "Tell how a metric stood at the end of each day",
        querystring: TimeseriesParameters,
        response: { 200: TimeseriesAnswer },
      },
    },
    async (request) => {
      const project = projectOf(request);
      const view = await experiments.experiment(project.id, pathIdOf(request));
      const uuid = queryText(request.query, "metric_uuid");
      if (!uuid) throw new Refusal("required", "This field is required.", { attr: "metric_uuid" });
      const found = [
        ...primaryMetricsOf(view),
        ...secondaryMetricsOf(view).filter(({ isInsight }) => !isInsight),
      ].find(({ sent }) => ownValue(sent, "uuid") === uuid);
      if (!found) throw new Refusal("not_found", "The experiment has no metric with this uuid.");
      const { startDate, statsConfig } = view.experiment;
      if (startDate === null) throw noResults(NO_DATA);
      const method = methodOf(statsConfig);
      const analysis = await analyseExperiment.analyse({
        project,
        view,
        criteria: exposureOf(view.experiment, project.timeZone),
        refresh: asksToRefresh(request.query),
        metric: anyMetricOf(found.sent, found.attr, project.timeZone),
        method,
        options: { byDay: true, lookbackMs: lookbackOf(statsConfig) },
      });
      const names = { experimentId: view.experiment.id, metricUuid: uuid };
      return wireTimeseries(analysis, { method }, names);
    },
  );
}

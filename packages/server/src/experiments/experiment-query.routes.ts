import type { JsonObject } from "@hedgerow/core/json";
import type { App } from "../http/app.ts";
import { Refusal } from "../http/errors.ts";
import { access, projectOf } from "../http/management-api.ts";
import { wireInstant } from "../http/wire-instant.ts";
import type { AnalyseExperiment } from "./analyse-experiment.ts";
import {
  isRefreshing,
  QueryAnswer,
  QueryBody,
  questionOf,
  wireAnalysis,
  wireExposures,
} from "./experiment-query.schemas.ts";
import type { Experiments } from "./experiments.ts";
import type { Freshness } from "./keep-answers.ts";
import { exposureCriteriaOf, methodOf, metricOf } from "./metric.schemas.ts";

/** Queries about experiments: who was exposed, and what a metric says (posthog-api 5.11). */
export function experimentQueryRoutes(
  app: App,
  {
    experiments,
    analyseExperiment,
  }: {
    experiments: Pick<Experiments, "experiment">;
    analyseExperiment: AnalyseExperiment;
  },
): void {
  app.post(
    "/api/projects/:project_id/query",
    {
      ...access("query:read"),
      schema: {
        tags: ["experiments"],
        summary: "Ask who was exposed to an experiment, or what a metric of it says",
        body: QueryBody,
        response: { 200: QueryAnswer },
      },
    },
    async (request) => {
      const project = projectOf(request);
      const question = questionOf(request.body.query as JsonObject);
      const view = await experimentOf(project.id, question.experimentId);
      const { exposureCriteria, statsConfig } = view.experiment;
      const criteria = exposureCriteriaOf(exposureCriteria, project.timeZone);
      const refresh = isRefreshing(request.body.refresh);
      const asked = { project, view, criteria, refresh };
      const told = ({ isCached, computedAt }: Freshness) => ({
        is_cached: isCached,
        last_refresh: wireInstant(computedAt),
      });
      if (question.kind === "ExperimentExposureQuery") {
        const exposures = await analyseExperiment.exposures(asked);
        return { ...wireExposures(exposures), ...told(exposures) };
      }
      const method = methodOf(statsConfig);
      const metric = metricOf(question.metric, "query__metric", project.timeZone);
      const analysis = await analyseExperiment.analyse({ ...asked, metric, method });
      return { ...wireAnalysis(analysis, question.metric, method), ...told(analysis) };
    },
  );

  async function experimentOf(projectId: number, id: number) {
    try {
      return await experiments.experiment(projectId, id);
    } catch (error) {
      if (!(error instanceof Refusal && error.code === "not_found")) throw error;
      throw new Refusal("invalid_input", `Experiment with id ${id} not found.`, {
        attr: "query__experiment_id",
      });
    }
  }
}

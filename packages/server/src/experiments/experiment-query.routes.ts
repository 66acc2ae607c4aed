import type { JsonObject } from "@hedgerow/core/json";
import type { PosthogMethod } from "@hedgerow/core/statistics/posthog-analysis";
import type { App } from "../http/app.ts";
import { Refusal } from "../http/errors.ts";
import { access, projectOf } from "../http/management-api.ts";
import { wireInstant } from "../http/wire-instant.ts";
import type { AnalyseExperiment, AnalysisRequest } from "./analyse-experiment.ts";
import { classicResultOf, missingData, NO_DATA } from "./classic-result.ts";
import {
  type ClassicQuestion,
  namingExperiment,
  QueryAnswer,
  QueryBody,
  questionOf,
  unknownExperiment,
  wireAnalysis,
  wireClassicQuery,
  wireExposures,
} from "./experiment-query.schemas.ts";
import { noResults } from "./experiment-results.schemas.ts";
import type { Experiments } from "./experiments.ts";
import { exposureOf, exposureOfQuery } from "./exposure.schemas.ts";
import type { Freshness } from "./keep-answers.ts";
import { breakdownOf, metricOf, queryMetricOf } from "./metric.schemas.ts";
import { isRefreshing } from "./refresh.schemas.ts";
import { balancedSettingsOf, lookbackOf, methodOf } from "./stats-config.schemas.ts";

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
  const askExposures = naming(analyseExperiment.exposures);
  const analyse = naming(analyseExperiment.analyse);

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
      const { statsConfig, parameters } = view.experiment;
      const criteria = exposureOf(view.experiment, project.timeZone);
      const refresh = isRefreshing(request.body.refresh);
      const asked = { project, view, criteria, refresh };
      const told = ({ isCached, computedAt }: Freshness) => ({
        is_cached: isCached,
        last_refresh: wireInstant(computedAt),
      });
      if (question.kind === "ExperimentExposureQuery") {
        const exposures = await askExposures(asked);
        return { ...wireExposures(exposures), ...told(exposures) };
      }
      const method = methodOf(statsConfig);
      if (question.kind !== "ExperimentQuery") {
        const { answer, analysis } = await classicAnswer(question, { ...asked, method });
        return { ...answer, ...told(analysis) };
      }
      const sent = question.metric;
      const metric = metricOf(sent, "query__metric", project.timeZone);
      const place = { sent, attr: "query__metric" };
      const balanced = balancedSettingsOf(statsConfig, parameters, place);
      const analysis = await analyse({
        ...asked,
        metric,
        method,
        belief: balanced,
        breakdown: breakdownOf(sent, "query__metric"),
        options: { lookbackMs: lookbackOf(statsConfig) },
      });
      return { ...wireAnalysis(analysis, { sent, metric, method, balanced }), ...told(analysis) };
    },
  );

  /** What an older query is answered: the former statistics, of units that its own event exposes. */
  async function classicAnswer(
    question: ClassicQuestion,
    { method, ...asked }: AnalysisRequest & { readonly method: PosthogMethod },
  ) {
    const { kind, query } = question;
    const { startDate, statsConfig } = asked.view.experiment;
    const { timeZone } = asked.project;
    const metric = queryMetricOf(query, "query", timeZone);
    const marker = exposureOfQuery(query, "query", timeZone) ?? asked.criteria.marker;
    if (startDate === null) throw noResults(NO_DATA);
    const analysis = await analyse({
      ...asked,
      criteria: { ...asked.criteria, marker },
      metric,
      method,
      options: { byDay: kind === "ExperimentTrendsQuery" },
    });
    const arms = [analysis.baseline.arm, ...analysis.variants.map(({ arm }) => arm)];
    const missing = missingData(arms);
    if (missing) throw noResults(missing);
    const version = question.version ?? (statsConfig?.version === 2 ? 2 : 1);
    const classic = classicResultOf(arms, metric, { version, takesSums: true });
    if (!classic) {
      throw new Refusal("invalid_input", "Numbers of events and sums are answered here.", {
        attr: "query__count_query__series__0__math",
      });
    }
    return { analysis, answer: wireClassicQuery(question, classic, metric, analysis.days) };
  }

  async function experimentOf(projectId: number, id: number) {
    try {
      return await experiments.experiment(projectId, id);
    } catch (error) {
      if (!(error instanceof Refusal && error.code === "not_found")) throw error;
      throw unknownExperiment(id);
    }
  }
}

/** The same question, whose refusals of an experiment name the field that it was asked by. */
function naming<Asked, Answer>(
  ask: (asked: Asked) => Promise<Answer>,
): (asked: Asked) => Promise<Answer> {
  return async (asked) => {
    try {
      return await ask(asked);
    } catch (error) {
      throw namingExperiment(error);
    }
  };
}

import type { Metric } from "@hedgerow/core/experiments/metric";
import { isJsonObject, type JsonObject, ownValue } from "@hedgerow/core/json";
import type { FastifyRequest } from "fastify";
import { Type } from "typebox";
import type { AccountStore } from "../accounts/account-store.ts";
import { usersById } from "../accounts/users-by-id.ts";
import type { App } from "../http/app.ts";
import { Refusal } from "../http/errors.ts";
import { access, projectOf } from "../http/management-api.ts";
import { pathIdOf } from "../http/path-id.ts";
import { queryText } from "../http/query-text.ts";
import { wireInstant } from "../http/wire-instant.ts";
import type { AnalyseExperiment, Analysis } from "./analyse-experiment.ts";
import { classicResultOf, missingData, NO_DATA } from "./classic-result.ts";
import { wireAnalysis } from "./experiment-query.schemas.ts";
import {
  ExperimentResults,
  noResults,
  SecondaryResults,
  wireClassicResult,
} from "./experiment-results.schemas.ts";
import { wireExperiment } from "./experiments.schemas.ts";
import type { Experiments, ExperimentView } from "./experiments.ts";
import type { Freshness } from "./keep-answers.ts";
import { exposureCriteriaOf, insightMetricOf, methodOf, metricOf } from "./metric.schemas.ts";

const EXPERIMENT = "/api/projects/:project_id/experiments/:id";

/** Results in the shape that older clients read (posthog-api 5.9, 5.10; decision 6). */
export function experimentResultsRoutes(
  app: App,
  {
    experiments,
    analyseExperiment,
    accounts,
  }: {
    experiments: Pick<Experiments, "experiment">;
    analyseExperiment: AnalyseExperiment;
    accounts: Pick<AccountStore, "user">;
  },
): void {
  const load = async (request: FastifyRequest) => {
    const project = projectOf(request);
    const view = await experiments.experiment(project.id, pathIdOf(request));
    const { exposureCriteria, statsConfig, createdById } = view.experiment;
    const method = methodOf(statsConfig);
    const criteria = exposureCriteriaOf(exposureCriteria, project.timeZone);
    const refresh = queryText(request.query, "refresh") === "true";
    const analyse = (metrics: readonly Metric[]) =>
      analyseExperiment.analyseAll({
        project,
        view,
        criteria,
        method,
        refresh,
        metrics: metrics.map((metric) => ({ metric })),
      });
    const answer = async <Result extends object>(
      analyses: readonly Freshness[],
      result: Result,
    ) => ({
      ...wireExperiment(view, await usersById(accounts, [createdById])),
      last_refresh: wireInstant(oldestOf(analyses)),
      is_cached: analyses.every(({ isCached }) => isCached),
      ...result,
    });
    return { timeZone: project.timeZone, view, method, analyse, answer };
  };

  app.get(
    `${EXPERIMENT}/results`,
    {
      ...access("experiment:read"),
      schema: {
        tags: ["experiments"],
        summary: "Compute the results of an experiment's primary metrics",
        response: { 200: ExperimentResults },
      },
    },
    async (request) => {
      const { timeZone, view, method, analyse, answer } = await load(request);
      const { filters, metrics } = view.experiment;
      const insight = insightMetricOf(filters, "filters", timeZone);
      const parsed = metrics.map((sent, index) => ({
        sent,
        metric: metricOf(sent, `metrics__${index}`, timeZone),
      }));
      const primary = insight ?? parsed[0]?.metric;
      if (!primary)
        throw new Refusal("invalid_input", "Experiment has no target metric", { attr: "filters" });
      refuseDraft(view);
      const sentMetrics = parsed.map(({ metric }) => metric);
      const all = await analyse(insight ? [insight, ...sentMetrics] : sentMetrics);
      const [analysis] = all;
      if (!analysis) throw new Error("no metric was analysed");
      const arms = armsOf(analysis);
      const missing = missingData(arms);
      if (missing) throw noResults(missing);
      const classic = classicResultOf(arms, primary);
      const own = insight ? all.slice(1) : all;
      const analysed = parsed.flatMap(({ sent }, index) => {
        const one = own[index];
        return one ? [wireAnalysis(one, sent, method)] : [];
      });
      return await answer(all, {
        result: classic && wireClassicResult(classic, primary, filters ?? {}),
        metrics: analysed,
      });
    },
  );

  app.get(
    `${EXPERIMENT}/secondary_results`,
    {
      ...access("experiment:read"),
      schema: {
        tags: ["experiments"],
        summary: "Compute the result of one of an experiment's secondary metrics",
        querystring: Type.Object({
          id: Type.Optional(
            Type.String({ description: "Its place in `secondary_metrics`, from 0." }),
          ),
        }),
        response: { 200: SecondaryResults },
      },
    },
    async (request) => {
      const { timeZone, view, analyse, answer } = await load(request);
      const secondary = view.experiment.secondaryMetrics ?? [];
      const id = queryText(request.query, "id");
      if (secondary.length === 0) throw refuse("Experiment has no secondary metrics");
      if (!id) throw refuse("Secondary metric id is required");
      if (!/^-?\d{1,9}$/.test(id)) throw refuse("Secondary metric id must be an integer");
      const sent = secondary[Number(id)];
      if (!isJsonObject(sent)) throw refuse("Invalid metric ID");
      const filters = ownValue(sent, "filters");
      const where = `secondary_metrics__${Number(id)}__filters`;
      const metric = insightMetricOf(isJsonObject(filters) ? filters : null, where, timeZone);
      if (!metric) throw refuse("Invalid metric ID");
      refuseDraft(view);
      const analyses = await analyse([metric]);
      const [analysis] = analyses;
      if (!analysis) throw new Error("no metric was analysed");
      const arms = armsOf(analysis);
      const missing = missingData(arms);
      if (missing) throw noResults(missing);
      const classic = classicResultOf(arms, metric);
      const values = arms
        .filter(({ sums }) => sums.n > 0)
        .map(({ variant, sums }) => [variant, sums.sum / sums.n]);
      return await answer(analyses, {
        result: {
          ...(classic && wireClassicResult(classic, metric, filters as JsonObject)),
          result: Object.fromEntries(values),
        },
      });
    },
  );
}

/** When the first of several answers was computed. */
function oldestOf(answers: readonly Freshness[]): Date {
  return new Date(Math.min(...answers.map(({ computedAt }) => computedAt.getTime())));
}

function armsOf({ baseline, variants }: Analysis) {
  return [baseline.arm, ...variants.map(({ arm }) => arm)];
}

function refuseDraft({ experiment }: ExperimentView): void {
  if (experiment.startDate === null) throw noResults(NO_DATA);
}

function refuse(detail: string): Refusal {
  return new Refusal("invalid_input", detail);
}

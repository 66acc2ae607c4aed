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
import { primaryMetricsOf, secondaryMetricsOf } from "./experiment-metrics.ts";
import { type JudgedMetric, wireAnalysis, wireFamily } from "./experiment-query.schemas.ts";
import {
  ExperimentResults,
  noResults,
  SecondaryResults,
  wireClassicResult,
} from "./experiment-results.schemas.ts";
import type { ExperimentView } from "./experiment-view.ts";
import { authorsOf, wireExperiment } from "./experiments.schemas.ts";
import type { Experiments } from "./experiments.ts";
import { exposureOf } from "./exposure.schemas.ts";
import type { Freshness } from "./keep-answers.ts";
import { anyMetricOf, breakdownOf, insightMetricOf } from "./metric.schemas.ts";
import { asksToRefresh, RefreshQuery } from "./refresh.schemas.ts";
import { balancedSettingsOf, lookbackOf, methodOf } from "./stats-config.schemas.ts";

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
    const { statsConfig, parameters } = view.experiment;
    const method = methodOf(statsConfig);
    const criteria = exposureOf(view.experiment, project.timeZone);
    const judged = (sent: JsonObject, attr: string, metric: Metric): JudgedMetric => ({
      sent,
      metric,
      method,
      balanced: balancedSettingsOf(statsConfig, parameters, { sent, attr }),
      breakdown: breakdownOf(sent, attr),
    });
    const refresh = asksToRefresh(request.query);
    const analyse = async (metrics: readonly JudgedMetric[]) => {
      const analyses = await analyseExperiment.analyseAll({
        project,
        view,
        criteria,
        method,
        refresh,
        metrics: metrics.map(({ metric, balanced, breakdown = null }) => ({
          metric,
          belief: balanced,
          breakdown,
        })),
        options: { lookbackMs: lookbackOf(statsConfig) },
      });
      return metrics.flatMap((judged, index) => {
        const analysis = analyses[index];
        return analysis ? [{ judged, analysis }] : [];
      });
    };
    const answer = async <Result extends object>(
      analysed: readonly { readonly analysis: Freshness }[],
      result: Result,
    ) => ({
      ...wireExperiment(view, await usersById(accounts, authorsOf(view))),
      last_refresh: wireInstant(oldestOf(analysed.map(({ analysis }) => analysis))),
      is_cached: analysed.every(({ analysis }) => analysis.isCached),
      ...result,
    });
    return { timeZone: project.timeZone, view, judged, analyse, answer };
  };

  app.get(
    `${EXPERIMENT}/results`,
    {
      ...access("experiment:read"),
      schema: {
        tags: ["experiments"],
        summary: "Compute the results of an experiment's primary metrics",
        querystring: RefreshQuery,
        response: { 200: ExperimentResults },
      },
    },
    async (request) => {
      const { timeZone, view, judged, analyse, answer } = await load(request);
      const filters = view.experiment.filters ?? {};
      const insight = insightMetricOf(filters, "filters", timeZone);
      const metrics = primaryMetricsOf(view).map(({ sent, attr }) =>
        judged(sent, attr, anyMetricOf(sent, attr, timeZone)),
      );
      const primary = insight ? judged(filters, "filters", insight) : metrics[0];
      if (!primary)
        throw new Refusal("invalid_input", "Experiment has no target metric", { attr: "filters" });
      refuseDraft(view);
      const all = await analyse(insight ? [primary, ...metrics] : metrics);
      const [first] = all;
      if (!first) throw new Error("no metric was analysed");
      const arms = armsOf(first.analysis);
      const missing = missingData(arms);
      if (missing) throw noResults(missing);
      const classic = classicResultOf(arms, primary.metric);
      const analysed = insight ? all.slice(1) : all;
      return await answer(all, {
        result: classic && wireClassicResult(classic, primary.metric, filters),
        metrics: analysed.map((one) => wireAnalysis(one.analysis, one.judged)),
        extended: wireFamily(analysed),
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
          ...RefreshQuery.properties,
          id: Type.Optional(
            Type.String({ description: "Its place in `secondary_metrics`, from 0." }),
          ),
        }),
        response: { 200: SecondaryResults },
      },
    },
    async (request) => {
      const { timeZone, view, judged, analyse, answer } = await load(request);
      const secondary = secondaryMetricsOf(view);
      const id = queryText(request.query, "id");
      if (secondary.length === 0) throw refuse("Experiment has no secondary metrics");
      if (!id) throw refuse("Secondary metric id is required");
      if (!/^-?\d{1,9}$/.test(id)) throw refuse("Secondary metric id must be an integer");
      const asked = secondary[Number(id)];
      if (!asked) throw refuse("Invalid metric ID");
      const { sent, attr, isInsight } = asked;
      const filters = isInsight ? (ownValue(sent, "filters") ?? null) : null;
      const insight = isJsonObject(filters) ? filters : {};
      const metric = isInsight
        ? insightMetricOf(insight, `${attr}__filters`, timeZone)
        : anyMetricOf(sent, attr, timeZone);
      if (!metric) throw refuse("Invalid metric ID");
      refuseDraft(view);
      const one = judged(sent, attr, metric);
      const analysed = await analyse([one]);
      const [first] = analysed;
      if (!first) throw new Error("no metric was analysed");
      const { analysis } = first;
      const arms = armsOf(analysis);
      const missing = missingData(arms);
      if (missing) throw noResults(missing);
      const classic = classicResultOf(arms, metric);
      const values = arms
        .filter(({ sums }) => sums.n > 0)
        .map(({ variant, sums }) => [variant, sums.sum / sums.n]);
      return await answer(analysed, {
        result: {
          ...(classic && wireClassicResult(classic, metric, insight)),
          result: Object.fromEntries(values),
          metric: wireAnalysis(analysis, one),
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

import { createExperimentPartStore } from "../engines/sql/experiment-part-store.ts";
import { createFrozenAnswers } from "../engines/sql/frozen-answers.ts";
import { createAnalyseExperiment } from "../experiments/analyse-experiment.ts";
import { createEligibleFlags } from "../experiments/eligible-flags.ts";
import { experimentExportRoutes } from "../experiments/experiment-export.routes.ts";
import { experimentQueryRoutes } from "../experiments/experiment-query.routes.ts";
import { experimentResultsRoutes } from "../experiments/experiment-results.routes.ts";
import { experimentTimeseriesRoutes } from "../experiments/experiment-timeseries.routes.ts";
import { experimentRoutes } from "../experiments/experiments.routes.ts";
import { createExperiments } from "../experiments/experiments.ts";
import { flagImplementationRoutes } from "../experiments/flag-implementation.routes.ts";
import { createFlagImplementation } from "../experiments/flag-implementation.ts";
import { holdoutRoutes } from "../experiments/holdouts.routes.ts";
import { createHoldouts } from "../experiments/holdouts.ts";
import { createKeepAnswers } from "../experiments/keep-answers.ts";
import { runningTimeRoutes } from "../experiments/running-time.routes.ts";
import { savedMetricRoutes } from "../experiments/saved-metrics.routes.ts";
import { createSavedMetrics } from "../experiments/saved-metrics.ts";
import { createFindTestPersons } from "../experiments/test-accounts.ts";
import type { App } from "../http/app.ts";
import type { ManagedFlags } from "./manage-flags.ts";
import type { Parts } from "./parts.ts";

/** Experiments, their holdouts and shared metrics, and what they measure. */
export function manageExperiments(management: App, parts: Parts, managed: ManagedFlags): void {
  const { database, clock, accounts, activityLog, backtracking, events } = parts;
  const { flagStore, compiledFlags, changeDefinitions, isStored } = parts;
  const { flags, cohorts, tellFlags, audience, experimentStore } = managed;
  const holdoutStore = createExperimentPartStore(database, "holdout");
  const savedMetricStore = createExperimentPartStore(database, "saved-metric");
  const experiments = createExperiments({
    experimentStore,
    holdoutStore,
    savedMetricStore,
    flags,
    flagsById: flagStore.flagsById,
    cohorts,
    definitionsOf: async (projectId) => (await compiledFlags.refresh(projectId)).definitions,
    changeDefinitions,
    clock,
  });
  const analyseExperiment = createAnalyseExperiment({
    measures: events,
    keepAnswers: createKeepAnswers({
      frozenAnswers: createFrozenAnswers(database),
      caughtUp: isStored,
      dataVersion: events.dataVersion,
      clock,
    }),
    findTestPersons: createFindTestPersons({ audience, backtracking, clock }),
    backtracking,
    clock,
  });
  flagImplementationRoutes(management, {
    flagImplementation: createFlagImplementation({
      experiments,
      flagCalls: events,
      events,
      clock,
    }),
    accounts,
  });
  experimentQueryRoutes(management, { experiments, analyseExperiment });
  experimentExportRoutes(management, { experiments, analyseExperiment });
  experimentTimeseriesRoutes(management, { experiments, analyseExperiment });
  experimentResultsRoutes(management, { experiments, analyseExperiment, accounts });
  runningTimeRoutes(management);
  experimentRoutes(management, {
    experiments,
    eligibleFlags: createEligibleFlags(flagStore),
    tellFlags,
    activityLog,
    accounts,
    clock,
  });
  holdoutRoutes(management, {
    parts: createHoldouts({
      holdoutStore,
      experimentStore,
      followHoldout: experiments.followHoldout,
      clock,
    }),
    activityLog,
    accounts,
  });
  savedMetricRoutes(management, {
    parts: createSavedMetrics({ savedMetricStore, clock }),
    activityLog,
    accounts,
  });
}

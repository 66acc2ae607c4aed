import { createEvents } from "../events/events.ts";
import type { App } from "../http/app.ts";
import { transformationConfigRoutes } from "../transformations/transformation-configs.routes.ts";
import { createTransformationTrials } from "../transformations/transformation-trials.ts";
import { transformationRoutes } from "../transformations/transformations.routes.ts";
import { createTryTransformation } from "../transformations/try-transformation.ts";
import type { Parts } from "./parts.ts";

/** Transformations, their configs, and trials of them. */
export function manageTransformations(management: App, parts: Parts): void {
  const { config, clock, newUuid, accounts, activityLog, geoIp, events, log } = parts;
  const { personRecords } = parts;
  const { transformations, transformationConfigs, transformationConfigStore } = parts;
  const { transformationStore, sandbox, siteUrl, limits, transformationRecords } = parts;
  const { transformationJobs } = parts;
  transformationRoutes(management, { transformations, activityLog, accounts });
  transformationConfigRoutes(management, {
    configs: transformationConfigs,
    trials: createTransformationTrials({
      accessLevel: config.pluginsAccess,
      configs: transformationConfigs,
      configStore: transformationConfigStore,
      transformations: transformationStore,
      tryTransformation: createTryTransformation({
        ...{ sandbox, locate: geoIp.locate, siteUrl, limits },
      }),
      events: createEvents({ events, log, persons: personRecords }),
      geoIp,
      siteUrl,
      newUuid,
      clock,
    }),
    records: transformationRecords,
    jobs: transformationJobs,
    activityLog,
    accounts,
    clock,
  });
}

import { createArchiveReader } from "../engines/archives/archive-reader.ts";
import { QuickJsSandbox } from "../engines/quickjs-sandbox/quickjs-sandbox.ts";
import { createTransformationConfigStore } from "../engines/sql/transformation-config-store.ts";
import {
  createTransformationJobs,
  createTransformationRecords,
  createTransformationStorage,
} from "../engines/sql/transformation-records.ts";
import { createTransformationStore } from "../engines/sql/transformation-store.ts";
import type { EventLog } from "../events/event-log.ts";
import type { PersonStore } from "../persons/person-store.ts";
import { addressUrl } from "../platform/address-url.ts";
import { networks } from "../platform/network-address.ts";
import { readCatalogue } from "../transformations/catalogue.ts";
import { countTransformations } from "../transformations/count-transformations.ts";
import {
  createFetchPlugin,
  pluginSourcesOf,
  requestFrom,
} from "../transformations/fetch-plugin.ts";
import { sandboxLimitsOf } from "../transformations/sandbox.ts";
import { createTransformationConfigs } from "../transformations/transformation-configs.ts";
import type { TransformationEffects } from "../transformations/transformation-records.ts";
import { createTransformations } from "../transformations/transformations.ts";
import {
  type AtWorkDeps,
  startTransformations,
} from "../transformations/transformations-at-work.ts";
import type { Base } from "./base.ts";
import type { Foundations } from "./foundations.ts";

/** Transformations: what is installed, what is at work in projects, and what runs. */
export async function composeTransformations(
  { config, metrics, clock, newUuid, reportFault, onClose }: Base,
  { database, accounts, geoIp }: Foundations,
  {
    persons,
    log,
    append,
    warnings,
    effects,
  }: {
    readonly persons: PersonStore;
    readonly log: EventLog;
    readonly append: AtWorkDeps["capture"];
    readonly warnings: AtWorkDeps["warnings"];
    readonly effects: TransformationEffects;
  },
) {
  const siteUrl = addressUrl(config.host, config.port);
  const isNetworkOpen = networks(config.privateNetworks);
  const limits = sandboxLimitsOf(config);
  const sandbox = new QuickJsSandbox({ privateNetworks: config.privateNetworks, limits });
  onClose(() => sandbox.close());
  const pluginSources = pluginSourcesOf(config);
  const requestPlugin = requestFrom(pluginSources, isNetworkOpen);
  const transformationStore = createTransformationStore(database);
  const transformationConfigStore = createTransformationConfigStore(database);
  const transformationRecords = createTransformationRecords(database);
  const transformationJobs = createTransformationJobs(database);
  const transformationConfigs = createTransformationConfigs({
    store: transformationConfigStore,
    transformations: transformationStore,
    accounts,
    accessLevel: config.pluginsAccess,
    onChanged: (projectId) => transformationsAtWork.changed(projectId),
    atWork: {
      tryStart: (projectId, id) => transformationsAtWork.tryStart(projectId, id),
      startProblem: (projectId, id) => transformationsAtWork.startProblem(projectId, id),
    },
    clock,
  });
  const transformations = createTransformations({
    store: transformationStore,
    configs: transformationConfigStore,
    accounts,
    sandbox,
    fetchPlugin: createFetchPlugin({
      request: requestPlugin,
      archives: createArchiveReader(),
      catalogue: readCatalogue,
      sources: pluginSources,
    }),
    catalogue: readCatalogue,
    hosts: pluginSources,
    accessLevel: config.pluginsAccess,
    onChanged: (projectId) => transformationsAtWork.changed(projectId),
    clock,
  });
  const transformationsAtWork = await startTransformations({
    configs: transformationConfigStore,
    sandbox,
    records: transformationRecords,
    storage: createTransformationStorage(database),
    jobs: transformationJobs,
    effects,
    lanes: log.lanes,
    places: geoIp,
    persons,
    capture: append,
    warnings,
    disableFailing: transformationConfigs.disableFailing,
    isAllowed: ({ address }) => isNetworkOpen(address),
    observer: countTransformations(metrics),
    limits,
    siteUrl,
    recordDays: config.receiptDays,
    versions: transformationStore,
    versionsKept: config.versionsKept,
    clock,
    newUuid,
    reportFault,
  });
  onClose(() => transformationsAtWork.close());
  return {
    ...{ siteUrl, limits, sandbox },
    ...{
      transformationStore,
      transformationConfigStore,
      transformationRecords,
      transformationJobs,
    },
    ...{ transformationConfigs, transformations, transformationsAtWork },
  };
}

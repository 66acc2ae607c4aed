import { randomBytes } from "node:crypto";
import { compileFlags } from "@hedgerow/core/flags/compile-flags";
import type { ProjectDefinitions } from "@hedgerow/core/flags/flag";
import type { FlagSet } from "@hedgerow/core/flags/flag-set";
import { keepPatterns } from "@hedgerow/core/flags/pattern";
import type { Logger } from "pino";
import { collectDefaultMetrics, Registry } from "prom-client";
import { v4, v7 } from "uuid";
import { accountRoutes } from "./accounts/accounts.routes.ts";
import { createAuthentication } from "./accounts/authenticate.ts";
import { bootstrap, type FirstBoot } from "./accounts/bootstrap.ts";
import { createProjectsByToken } from "./accounts/projects-by-token.ts";
import { activityRoutes } from "./activity/activity.routes.ts";
import { startCohortCalculations } from "./cohorts/calculations.ts";
import { createCohortPersons } from "./cohorts/cohort-persons.ts";
import { cohortRoutes } from "./cohorts/cohorts.routes.ts";
import { createCohorts } from "./cohorts/cohorts.ts";
import { type Config, dependingOn } from "./config.ts";
import { createArchiveReader } from "./engines/archives/archive-reader.ts";
import { createBacktrackingRegex } from "./engines/backtracking-regex/backtracking-regex.ts";
import { dataFolderPaths, openDataFolder } from "./engines/data-folder/data-folder.ts";
import { openSecretKey } from "./engines/data-folder/secret-key.ts";
import { openDuckDbEvents } from "./engines/duckdb-events/duckdb-events.ts";
import { openEmbeddedLog } from "./engines/embedded-log/embedded-log.ts";
import { openGeoIp } from "./engines/mmdb-geoip/mmdb-geoip.ts";
import { QuickJsSandbox } from "./engines/quickjs-sandbox/quickjs-sandbox.ts";
import { createAccountStore } from "./engines/sql/account-store.ts";
import { createActivityLog } from "./engines/sql/activity-log.ts";
import { createAudience } from "./engines/sql/audience.ts";
import { createCohortStore } from "./engines/sql/cohort-store.ts";
import { createDecisionCounts } from "./engines/sql/decision-counts.ts";
import { createEventDefinitionStore } from "./engines/sql/event-definition-store.ts";
import { createExperimentPartStore } from "./engines/sql/experiment-part-store.ts";
import { createExperimentStore } from "./engines/sql/experiment-store.ts";
import { createFlagStore } from "./engines/sql/flag-store.ts";
import { createFrozenAnswers } from "./engines/sql/frozen-answers.ts";
import { createGroupRecords } from "./engines/sql/group-records.ts";
import { createIngestionWarningStore } from "./engines/sql/ingestion-warning-store.ts";
import { createMembershipStore } from "./engines/sql/membership-store.ts";
import { openMetadata } from "./engines/sql/open-metadata.ts";
import { createPersonRecords } from "./engines/sql/person-records.ts";
import { createPersonStore } from "./engines/sql/person-store.ts";
import { createPropertyDefinitionStore } from "./engines/sql/property-definition-store.ts";
import { createRefusalStore } from "./engines/sql/refusal-store.ts";
import { createSightingStore } from "./engines/sql/sighting-store.ts";
import { createTransformationConfigStore } from "./engines/sql/transformation-config-store.ts";
import {
  createTransformationEffects,
  createTransformationJobs,
  createTransformationRecords,
  createTransformationStorage,
} from "./engines/sql/transformation-records.ts";
import { createTransformationStore } from "./engines/sql/transformation-store.ts";
import { startDefinitionRecorder } from "./event-definitions/definition-recorder.ts";
import { eventDefinitionRoutes } from "./event-definitions/event-definitions.routes.ts";
import { createEventDefinitions } from "./event-definitions/event-definitions.ts";
import { cohortsUsingEvent, flagsUsingEvent } from "./event-definitions/event-uses.ts";
import { propertyDefinitionRoutes } from "./event-definitions/property-definitions.routes.ts";
import { createPropertyDefinitions } from "./event-definitions/property-definitions.ts";
import { createAppendCaptured } from "./events/append-captured.ts";
import { appliedNow } from "./events/applied-now.ts";
import { captureRoutes } from "./events/capture.routes.ts";
import { createCaptureBodies } from "./events/capture-bodies.ts";
import { captureV1Routes } from "./events/capture-v1.routes.ts";
import { deadLetterRoutes } from "./events/dead-letters.routes.ts";
import { createDeadLetters } from "./events/dead-letters.ts";
import { eventRoutes } from "./events/events.routes.ts";
import { createEvents } from "./events/events.ts";
import {
  journalCaptures,
  journalPreparations,
  keepJournal,
  tellCaptures,
  tellPreparations,
} from "./events/ingestion-journal.ts";
import {
  countCaptures,
  countPreparations,
  showLanes,
  showLogBytes,
  showPositions,
} from "./events/ingestion-metrics.ts";
import { ingestionWarningRoutes } from "./events/ingestion-warnings.routes.ts";
import { createIngestionWarnings } from "./events/ingestion-warnings.ts";
import { type Lanes, startLanes } from "./events/lanes.ts";
import { liveEventRoutes } from "./events/live-events.routes.ts";
import { createLiveEvents } from "./events/live-events.ts";
import { createPendingLanes } from "./events/pending-lanes.ts";
import { createPendingPersons } from "./events/pending-persons.ts";
import { propertyValuesRoutes } from "./events/property-values.routes.ts";
import { createPropertyValues } from "./events/property-values.ts";
import { reachNow } from "./events/reach-now.ts";
import { receiptRoutes } from "./events/receipts.routes.ts";
import { createRecentEvents } from "./events/recent-events.ts";
import { createRefusals } from "./events/refusals.ts";
import { rememberUnstored } from "./events/remember-unstored.ts";
import { startWorker } from "./events/worker.ts";
import { createAnalyseExperiment } from "./experiments/analyse-experiment.ts";
import { createEligibleFlags } from "./experiments/eligible-flags.ts";
import { experimentExportRoutes } from "./experiments/experiment-export.routes.ts";
import { experimentQueryRoutes } from "./experiments/experiment-query.routes.ts";
import { experimentResultsRoutes } from "./experiments/experiment-results.routes.ts";
import { experimentTimeseriesRoutes } from "./experiments/experiment-timeseries.routes.ts";
import { experimentRoutes } from "./experiments/experiments.routes.ts";
import { createExperiments } from "./experiments/experiments.ts";
import { experimentsUsingEvent } from "./experiments/experiments-using-event.ts";
import { experimentsUsingFlag } from "./experiments/experiments-using-flag.ts";
import { flagImplementationRoutes } from "./experiments/flag-implementation.routes.ts";
import { createFlagImplementation } from "./experiments/flag-implementation.ts";
import { holdoutRoutes } from "./experiments/holdouts.routes.ts";
import { createHoldouts } from "./experiments/holdouts.ts";
import { createKeepAnswers } from "./experiments/keep-answers.ts";
import { runningTimeRoutes } from "./experiments/running-time.routes.ts";
import { savedMetricRoutes } from "./experiments/saved-metrics.routes.ts";
import { createSavedMetrics } from "./experiments/saved-metrics.ts";
import { createFindTestPersons } from "./experiments/test-accounts.ts";
import { createChangeDefinitions } from "./flags/change-definitions.ts";
import { createCompiledFlags, watchRevisions } from "./flags/compiled-flags.ts";
import { consistencyRoutes } from "./flags/consistency.routes.ts";
import { createCheckConsistency } from "./flags/consistency.ts";
import { copyFlagRoutes } from "./flags/copy-flags.routes.ts";
import { createCopyFlag } from "./flags/copy-flags.ts";
import { startDecisionCounter } from "./flags/count-decisions.ts";
import { decideRoutes } from "./flags/decide.routes.ts";
import { createPayloadSeal } from "./flags/encrypted-payloads.ts";
import { explainRoutes } from "./flags/explain.routes.ts";
import { createExplain } from "./flags/explain.ts";
import { flagChangeRoutes } from "./flags/flag-changes.routes.ts";
import { createFlagChanges } from "./flags/flag-changes.ts";
import { createFlagCohorts } from "./flags/flag-cohorts.ts";
import { flagsDependingOnFlag } from "./flags/flag-dependants.ts";
import { featureOfFlag } from "./flags/flag-enrolment.ts";
import { flagReachRoutes } from "./flags/flag-reach.routes.ts";
import { createFlagReach } from "./flags/flag-reach.ts";
import { flagUsageRoutes } from "./flags/flag-usage.routes.ts";
import { createTellFlags, flagRoutes } from "./flags/flags.routes.ts";
import { createFlags } from "./flags/flags.ts";
import { startLastCalls } from "./flags/last-calls.ts";
import { localEvaluationRoutes } from "./flags/local-evaluation.routes.ts";
import { wireLocalDefinitions } from "./flags/local-evaluation.schemas.ts";
import { createLocalDefinitions } from "./flags/local-evaluation.ts";
import { remoteConfigRoutes } from "./flags/remote-config.routes.ts";
import { healthRoutes } from "./health/health.routes.ts";
import { type App, createApp } from "./http/app.ts";
import { createBodyOpener } from "./http/body-opener.ts";
import { createLargeBodies } from "./http/large-bodies.ts";
import { managementApi } from "./http/management-api.ts";
import { publicApi } from "./http/public-api.ts";
import { followChanges } from "./persons/follow-changes.ts";
import { groupRoutes } from "./persons/groups.routes.ts";
import { createGroups } from "./persons/groups.ts";
import { personRoutes } from "./persons/persons.routes.ts";
import { createPersons } from "./persons/persons.ts";
import { addressUrl } from "./platform/address-url.ts";
import { limitFaults } from "./platform/limit-faults.ts";
import { networks } from "./platform/network-address.ts";
import { earlyAccessFeaturesOf } from "./sdk/early-access.ts";
import { sdkRoutes } from "./sdk/sdk.routes.ts";
import { openSdkScripts } from "./sdk/sdk-scripts.ts";
import { readCatalogue } from "./transformations/catalogue.ts";
import { countTransformations } from "./transformations/count-transformations.ts";
import { createFetchPlugin, pluginSourcesOf, requestFrom } from "./transformations/fetch-plugin.ts";
import { sandboxLimitsOf } from "./transformations/sandbox.ts";
import { transformationConfigRoutes } from "./transformations/transformation-configs.routes.ts";
import { createTransformationConfigs } from "./transformations/transformation-configs.ts";
import { createTransformationTrials } from "./transformations/transformation-trials.ts";
import { transformationRoutes } from "./transformations/transformations.routes.ts";
import { ACCESS_LEVELS, createTransformations } from "./transformations/transformations.ts";
import { startTransformations } from "./transformations/transformations-at-work.ts";
import { createTryTransformation } from "./transformations/try-transformation.ts";

/** A composed service: everything open and running, the socket where {@link ComposeOptions.listen} opens it. */
export interface Service {
  readonly app: App;
  /** The secrets of the first boot; `null` on every later one. */
  readonly firstBoot: FirstBoot | null;
  /** Stops taking requests, finishes those under way, and puts every store away. */
  close(): Promise<void>;
}

export interface ComposeOptions {
  /** Called with the application before it has routes. */
  readonly prepareApp?: (app: App) => void;
  /**
   * Opens the socket and answers the address. Called when all else stands and before the first accounts are made, so that a
   * start that fails leaves none whose secrets nobody was told.
   */
  readonly listen?: (app: App) => Promise<string>;
}

/**
 * Opens every engine, wires use cases to them and routes to the use cases. What was opened is closed
 * again when a later step fails.
 */
export async function composeService(
  config: Config,
  logger: Logger,
  options: ComposeOptions = {},
): Promise<Service> {
  const opened: (() => unknown)[] = [];
  const closeAll = async () => {
    for (const close of opened.splice(0).reverse()) await close();
  };
  try {
    return await compose(config, logger, { opened, closeAll, ...options });
  } catch (error) {
    await closeAll();
    throw error;
  }
}

/** Receipts of refused events that a project keeps. */
const MAX_REFUSALS = 100_000;
/** How long a calculation of cohorts waits for captured events. */
const MAX_CATCHING_UP_MS = 5_000;
/** How long whoever asks for persons waits for the transformations of their project. */
const MAX_LANE_WAIT_MS = 2_000;

async function compose(
  config: Config,
  logger: Logger,
  {
    opened,
    closeAll,
    prepareApp,
    listen,
  }: ComposeOptions & { opened: (() => unknown)[]; closeAll: () => Promise<void> },
): Promise<Service> {
  const now = () => new Date();
  const newUuid = () => v7();
  const faults = limitFaults(logger);
  const reportFault = (error: unknown, context: string) => faults.error({ err: error }, context);

  // Engines
  const paths = dataFolderPaths(config.data);
  const folder = await dependingOn(config, "data", () => openDataFolder(config.data, now()));
  opened.push(() => folder.release());
  const seal = createPayloadSeal(openSecretKey(paths.payloadKey, randomBytes), randomBytes);
  const { databaseUrl, geoIpDatabase } = config;
  const metadataAt = databaseUrl === null ? "data" : "databaseUrl";
  const database = await dependingOn(config, metadataAt, () =>
    openMetadata({ databaseUrl, file: paths.metadata }),
  );
  opened.push(() => database.close());
  const accounts = createAccountStore(database);
  const flagStore = createFlagStore(database);
  const cohortStore = createCohortStore(database);
  const memberships = createMembershipStore(database);
  const activityLog = createActivityLog(database);
  const events = await openDuckDbEvents(paths.events, {
    memoryLimitMiB: config.duckdbMemoryMb,
    maxTemporaryMiB: config.duckdbTempMb,
    receiptDays: config.receiptDays,
  });
  opened.push(() => events.close());
  const geoIp = await dependingOn(config, "geoIpDatabase", () =>
    openGeoIp({ path: geoIpDatabase, reportFault }),
  );
  const backtracking = createBacktrackingRegex();
  const compilePattern = keepPatterns(backtracking);

  // Flags, compiled when they change
  const compile = (definitions: ProjectDefinitions, earlier: FlagSet | undefined) =>
    compileFlags(definitions, { compilePattern }, earlier);
  const flagChanges = createFlagChanges();
  const compiledFlags = createCompiledFlags({
    flagStore,
    compile,
    reportFault,
    onLoaded: flagChanges.publish,
  });
  opened.push(watchRevisions(compiledFlags));
  const changeDefinitions = createChangeDefinitions({ compiledFlags, reportFault });
  const refreshFlags = (projectId: number) =>
    compiledFlags.refresh(projectId).then(
      () => undefined,
      (error: unknown) => reportFault(error, `flags of project ${projectId} could not be read`),
    );
  const persons = createPersonStore(database, {
    continuityFlagKeys: async (projectId) =>
      (await compiledFlags.get(projectId)).flagSet.continuityKeys,
    onGroupTypeAdded: refreshFlags,
    reportFault,
  });

  // Accounts
  const projects = createProjectsByToken({ accounts, now: Date.now });
  const { authenticate, authenticateForDefinitions } = createAuthentication({ accounts, now });

  const metrics = new Registry();
  collectDefaultMetrics({ register: metrics });

  // What is told of events that were not taken as they came
  const warningStore = createIngestionWarningStore(database);
  const refusalStore = createRefusalStore(database);
  const warnings = createIngestionWarnings({ store: warningStore, clock: now, reportFault });
  const refusals = createRefusals({ store: refusalStore, clock: now, reportFault });
  const liveEvents = createLiveEvents();
  opened.push(
    keepJournal(
      { warnings, refusals },
      {
        prune: async () => {
          const before = new Date(Date.now() - config.receiptDays * 86_400_000);
          try {
            await refusalStore.prune(before, MAX_REFUSALS);
            await warningStore.prune(before);
          } catch (error) {
            reportFault(error, "old receipts could not be removed");
          }
        },
      },
    ),
  );

  // From the log to the stores
  const siteUrl = addressUrl(config.host, config.port);
  const transformationEffects = createTransformationEffects(database);
  const log = await openEmbeddedLog(paths.eventLog, {
    after: Math.max(
      await persons.position(),
      await events.position(),
      await transformationEffects.position(),
    ),
    retention: {
      maxBytes: config.logRetentionMb * 1024 * 1024,
      maxAgeMs: config.logRetentionHours * 3_600_000,
    },
  });
  opened.push(() => log.close());
  const { distinctIdsOf } = persons;
  const pendingPersons = createPendingLanes({
    log: createPendingPersons({ distinctIdsOf }),
    createForLane: () => createPendingPersons({ distinctIdsOf, waitsForUnknown: false }),
  });
  let lanes: Lanes | undefined;
  const append = createAppendCaptured({
    log,
    pendingPersons,
    isAtWork: (projectId) => transformationsAtWork.isAtWork(projectId),
    onLane: (projectId) => lanes?.wake(projectId),
  });
  const definitionRecorder = await startDefinitionRecorder({
    sightings: createSightingStore(database, { newUuid }),
    events,
    persons,
    warnings,
    clock: now,
    reportFault,
  });
  opened.push(() => definitionRecorder.close());
  const lastCalls = startLastCalls({
    flagStore,
    flagCalls: events,
    compiledFlags,
    clock: now,
    reportFault,
  });
  opened.push(() => lastCalls.close());

  // Transformations: what is installed, what is at work in projects, and what runs
  const isNetworkOpen = networks(config.privateNetworks);
  const limits = sandboxLimitsOf(config);
  const sandbox = new QuickJsSandbox({ privateNetworks: config.privateNetworks, limits });
  opened.push(() => sandbox.close());
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
    clock: now,
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
    clock: now,
  });
  const transformationsAtWork = await startTransformations({
    configs: transformationConfigStore,
    sandbox,
    records: transformationRecords,
    storage: createTransformationStorage(database),
    jobs: transformationJobs,
    effects: transformationEffects,
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
    clock: now,
    newUuid,
    reportFault,
  });
  opened.push(() => transformationsAtWork.close());

  const worker = await startWorker({
    log,
    persons,
    events,
    geoIp,
    pendingPersons,
    logger,
    observer: tellPreparations(countPreparations(metrics), journalPreparations(warnings)),
    onPrepared: (rows) => {
      definitionRecorder.note(rows);
      lastCalls.note(rows);
    },
    onStored: (rows) => {
      liveEvents.publish(rows);
      transformationsAtWork.note(rows);
    },
  });
  opened.push(() => worker.close());
  lanes = startLanes({
    ...{ log, geoIp, pendingPersons, logger },
    steps: [transformationsAtWork.step],
  });
  opened.push(() => lanes?.close());
  showPositions(metrics, async () => {
    const { persons, store } = worker.progress();
    return { captured: await log.end(), persons, stored: store };
  });
  showLanes(metrics, log.lanes.waiting);
  showLogBytes(metrics, log.bytes);

  const personRecords = createPersonRecords(database, persons);
  const personFollower = followChanges({ records: personRecords, events, reportFault });
  opened.push(() => personFollower.close());
  /** Whether what a project captured by now is applied to its persons, after a while of waiting. */
  const caughtUp = (projectId: number) =>
    appliedNow({ pendingPersons, log }, projectId, MAX_LANE_WAIT_MS);
  /** Whether it is stored. */
  const isStored = (projectId: number) => reachNow({ events, log }, projectId, MAX_CATCHING_UP_MS);

  const recentEvents = createRecentEvents();
  await rememberUnstored({ log, events, recent: recentEvents });
  const bodyOpener = createBodyOpener();
  opened.push(() => bodyOpener.close());
  const largeBodies = createLargeBodies({ opener: bodyOpener });
  const captureDeps = {
    projects,
    append,
    events,
    recent: recentEvents,
    trustedProxies: config.trustedProxies,
    bodies: createCaptureBodies(largeBodies),
    clock: now,
    newUuid,
    observer: tellCaptures(countCaptures(metrics), journalCaptures({ warnings, refusals })),
  };

  const calculations = startCohortCalculations({
    store: memberships,
    performers: events,
    backtracking,
    compiledFlags,
    caughtUp: async (projectId) => {
      await isStored(projectId);
    },
    clock: now,
    reportFault,
    everyMinutes: config.cohortMinutes,
    isAlone: database.capabilities.isExclusive,
  });
  opened.push(() => calculations.close());

  const decisionCounts = createDecisionCounts(database);
  const decisionCounter =
    config.countFlagRequests > 0
      ? startDecisionCounter({
          counts: decisionCounts,
          percent: config.countFlagRequests,
          random: Math.random,
          reportFault,
        })
      : undefined;
  opened.push(() => decisionCounter?.close());

  let hasStarted = false;
  const app = createApp({ logger });
  opened.push(() => app.close());
  prepareApp?.(app);
  publicApi(app, (open) => {
    flagChangeRoutes(open, { projects, compiledFlags, changes: flagChanges });
    decideRoutes(open, {
      projects,
      largeBodies,
      compiledFlags,
      persons,
      pendingPersons,
      geoIp,
      clock: now,
      newUuid: v4,
      reportFault,
      ...(decisionCounter && { onDecided: decisionCounter.note }),
    });
    captureRoutes(open, captureDeps);
    captureV1Routes(open, captureDeps);
    localEvaluationRoutes(open, {
      authenticateForDefinitions,
      compiledFlags,
      localDefinitionsOf: createLocalDefinitions(wireLocalDefinitions),
    });
    remoteConfigRoutes(open, { authenticateForDefinitions, compiledFlags, seal });
    sdkRoutes(open, {
      projects,
      scripts: openSdkScripts(),
      earlyAccessFeatures: async ({ id }) =>
        earlyAccessFeaturesOf((await compiledFlags.get(id)).flagSet),
    });
    healthRoutes(open, {
      // The one store that may be a server elsewhere, and the disk; all else lives and dies with this process.
      unready: async () => {
        const refusing = log.refusing();
        const full = refusing === undefined ? [] : [`events cannot be stored: ${refusing}`];
        return accounts.isEmpty().then(
          () => (hasStarted ? full : ["the service is starting"]),
          () => ["the metadata database does not answer", ...full],
        );
      },
      metrics,
    });
  });
  managementApi(app, authenticate, (management) => {
    accountRoutes(management, {
      accounts,
      now,
      randomBytes,
      onProject: async ({ project }) => {
        projects.forget();
        await refreshFlags(project.id);
      },
      projectsWithEvents: events.hasEvents,
      groupTypes: (projectId) => persons.groupTypes(projectId),
      pluginsAccessLevel: ACCESS_LEVELS[config.pluginsAccess],
    });
    activityRoutes(management, { activityLog, accounts });
    const experimentStore = createExperimentStore(database);
    const flags = createFlags({
      flagStore,
      activityLog,
      accounts,
      dependants: [flagsDependingOnFlag, experimentsUsingFlag(experimentStore), featureOfFlag],
      changeDefinitions,
      seal,
      clock: now,
    });
    const cohorts = createCohorts({
      cohortStore,
      memberships,
      findPersons: createCohortPersons({ memberships, personRecords, compiledFlags, clock: now }),
      changeDefinitions,
      onChanged: calculations.changed,
      clock: now,
    });
    const tellFlags = createTellFlags({
      accounts,
      experimentIdsOf: experimentStore.idsOfFlags,
      clock: now,
    });
    flagRoutes(management, { flags, tellFlags, activityLog, accounts, clock: now });
    const audience = createAudience(database);
    const reach = createFlagReach({
      audience,
      compiledFlags,
      compile,
      caughtUp,
      clock: now,
    });
    const flagCohorts = createFlagCohorts({ reach, flags, cohorts, clock: now, reportFault });
    opened.push(() => flagCohorts.close());
    flagReachRoutes(management, { reach, flagCohorts, accounts });
    consistencyRoutes(management, {
      checkConsistency: createCheckConsistency({
        audience,
        compiledFlags,
        compile: (definitions) => compile(definitions, undefined),
        feedOf: wireLocalDefinitions,
        clock: now,
      }),
    });
    flagUsageRoutes(management, {
      flags,
      flagCalls: events,
      decisionCounts,
      caughtUp: isStored,
      clock: now,
    });
    copyFlagRoutes(management, {
      copyFlag: createCopyFlag({ flags, cohorts, cohortStore, compiledFlags, seal }),
      accounts,
      tellFlags,
    });
    explainRoutes(management, {
      ...createExplain({
        compiledFlags,
        persons,
        pendingPersons,
        geoIp,
        clock: now,
        reportFault,
      }),
      compiledFlags,
    });
    cohortRoutes(management, { cohorts, activityLog, accounts });
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
      clock: now,
    });
    const analyseExperiment = createAnalyseExperiment({
      measures: events,
      keepAnswers: createKeepAnswers({
        frozenAnswers: createFrozenAnswers(database),
        caughtUp: isStored,
        dataVersion: events.dataVersion,
        clock: now,
      }),
      findTestPersons: createFindTestPersons({ audience, backtracking, clock: now }),
      backtracking,
      clock: now,
    });
    flagImplementationRoutes(management, {
      flagImplementation: createFlagImplementation({
        experiments,
        flagCalls: events,
        events,
        clock: now,
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
      clock: now,
    });
    holdoutRoutes(management, {
      parts: createHoldouts({
        holdoutStore,
        experimentStore,
        followHoldout: experiments.followHoldout,
        clock: now,
      }),
      activityLog,
      accounts,
    });
    savedMetricRoutes(management, {
      parts: createSavedMetrics({ savedMetricStore, clock: now }),
      activityLog,
      accounts,
    });
    personRoutes(management, {
      persons: createPersons({
        records: personRecords,
        caughtUp,
        log,
        events,
        follower: personFollower,
        cohortsOf: async (projectId) => (await compiledFlags.get(projectId)).flagSet.cohorts,
        backtracking,
        clock: now,
      }),
      cohortStore,
      activityLog,
      accounts,
    });
    groupRoutes(management, {
      groups: createGroups({
        records: createGroupRecords(database),
        persons: personRecords,
        caughtUp,
        log,
        events,
        backtracking,
        clock: now,
      }),
      activityLog,
      accounts,
    });
    eventRoutes(management, { events, log, persons: personRecords, clock: now, backtracking });
    eventDefinitionRoutes(management, {
      definitions: createEventDefinitions({
        store: createEventDefinitionStore(database, { newUuid }),
        recorder: definitionRecorder,
        accounts,
        events,
        definitionsOf: async (projectId) => (await compiledFlags.get(projectId)).definitions,
        uses: [cohortsUsingEvent, flagsUsingEvent, experimentsUsingEvent(experimentStore)],
        clock: now,
      }),
      accounts,
    });
    propertyDefinitionRoutes(management, {
      definitions: createPropertyDefinitions({
        store: createPropertyDefinitionStore(database),
        recorder: definitionRecorder,
        clock: now,
      }),
      accounts,
    });
    propertyValuesRoutes(management, createPropertyValues({ events, log, clock: now }));
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
        clock: now,
      }),
      records: transformationRecords,
      jobs: transformationJobs,
      activityLog,
      accounts,
      clock: now,
    });
    deadLetterRoutes(management, createDeadLetters({ events, log, append }));
    receiptRoutes(management, { events, log, refusals });
    ingestionWarningRoutes(management, { store: warningStore, warnings });
    liveEventRoutes(management, liveEvents);
  });

  const url = await listen?.(app);
  const firstBoot = await bootstrap({
    accounts,
    given: config,
    now: now(),
    randomBytes,
    notify: (message) => logger.warn(message),
  });
  // Whoever asked in between was told that their key is unknown.
  projects.forget();
  hasStarted = true;
  if (url !== undefined) folder.announce(url);
  return { app, firstBoot, close: closeAll };
}

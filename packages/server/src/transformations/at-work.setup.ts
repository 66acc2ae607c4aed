import type { JsonObject } from "@hedgerow/core/json";
import { v7 } from "uuid";
import { openGeoIp } from "../engines/mmdb-geoip/mmdb-geoip.ts";
import { QuickJsSandbox } from "../engines/quickjs-sandbox/quickjs-sandbox.ts";
import { createAccountStore } from "../engines/sql/account-store.ts";
import { createActivityLog } from "../engines/sql/activity-log.ts";
import { projectsAndUsers } from "../engines/sql/projects-and-users.setup.ts";
import { createTransformationConfigStore } from "../engines/sql/transformation-config-store.ts";
import {
  createTransformationEffects,
  createTransformationJobs,
  createTransformationRecords,
  createTransformationStorage,
} from "../engines/sql/transformation-records.ts";
import { createTransformationStore } from "../engines/sql/transformation-store.ts";
import { temporaryPipeline } from "../events/pipeline.setup.ts";
import { compileSource } from "./compile-source.ts";
import type { SandboxLimits, SourceFiles } from "./sandbox.ts";
import type { ConfigView } from "./transformation-config-store.ts";
import { type ConfigChange, createTransformationConfigs } from "./transformation-configs.ts";
import type {
  TransformationEffects,
  TransformationJobs,
  TransformationStorage,
} from "./transformation-records.ts";
import { type AtWorkDeps, startTransformations } from "./transformations-at-work.ts";

/** A pipeline in which transformations are at work, on real engines. */
export async function transformationsPipeline(
  options: {
    readonly pipeline?: ReturnType<typeof temporaryPipeline>;
    readonly limits?: SandboxLimits;
    readonly isAllowed?: AtWorkDeps["isAllowed"];
    /** Private networks that `fetch` may reach. */
    readonly privateNetworks?: readonly string[];
    readonly clock?: () => Date;
    readonly maxJobs?: number;
    readonly tryStartMs?: number;
    /** Whether events get the place of their address. */
    readonly hasPlaces?: boolean;
    readonly storageOf?: (storage: TransformationStorage) => TransformationStorage;
    readonly jobsOf?: (jobs: TransformationJobs) => TransformationJobs;
    readonly effectsOf?: (effects: TransformationEffects) => TransformationEffects;
    /** What is asked for configs to run, in the place of the store. */
    readonly configsOf?: (store: AtWorkDeps["configs"]) => AtWorkDeps["configs"];
  } = {},
) {
  const pipeline = options.pipeline ?? temporaryPipeline();
  const { database, persons, log } = await pipeline.openStores();
  const sandbox = new QuickJsSandbox({ privateNetworks: options.privateNetworks ?? [] });
  const store = createTransformationStore(database);
  const configStore = createTransformationConfigStore(database);
  const accounts = createAccountStore(database);
  const clock = options.clock ?? (() => new Date());
  const faults: unknown[] = [];
  const warnings: { type: string; detail: string | undefined }[] = [];
  const records = createTransformationRecords(database);
  const storage = createTransformationStorage(database);
  const maxJobs =
    options.maxJobs === undefined
      ? undefined
      : { jobs: options.maxJobs, webhooks: options.maxJobs };
  const jobs = createTransformationJobs(database, maxJobs);
  const effects = createTransformationEffects(database, maxJobs);
  const configs = createTransformationConfigs({
    store: configStore,
    transformations: store,
    accounts,
    accessLevel: "root",
    onChanged: (projectId) => work.changed(projectId),
    atWork: {
      tryStart: (projectId, id) => work.tryStart(projectId, id),
      startProblem: (projectId, id) => work.startProblem(projectId, id),
    },
    clock,
  });
  const observed = { out: 0, dropped: 0, failed: 0, disabled: 0 };
  const geoIp = await openGeoIp({ path: null, reportFault: (error) => faults.push(error) });
  const work = await startTransformations({
    configs: options.configsOf?.(configStore) ?? configStore,
    sandbox,
    records,
    storage: options.storageOf?.(storage) ?? storage,
    jobs: options.jobsOf?.(jobs) ?? jobs,
    effects: options.effectsOf?.(effects) ?? effects,
    lanes: log.lanes,
    places: geoIp,
    persons,
    capture: (events) => run.append(events),
    warnings: {
      note: (_project, { type, sample }) => warnings.push({ type, detail: sample.detail }),
    },
    disableFailing: configs.disableFailing,
    observer: {
      counted: ({ eventsOut, dropped, failed }) => {
        observed.out += eventsOut;
        observed.dropped += dropped;
        observed.failed += failed;
      },
      disabled: () => {
        observed.disabled++;
      },
    },
    ...(options.limits && { limits: options.limits }),
    // Slow machines start things slowly.
    tryStartMs: options.tryStartMs ?? 60_000,
    ...(options.isAllowed && { isAllowed: options.isAllowed }),
    siteUrl: "https://hedgerow.test",
    recordDays: 30,
    versions: store,
    versionsKept: 20,
    clock,
    newUuid: () => v7(),
    reportFault: (error) => faults.push(error),
  });
  const run = await pipeline.start({
    steps: [work.step],
    isAtWork: work.isAtWork,
    ...(options.hasPlaces && { geoIp: () => geoIp }),
    onStored: () => (rows) => work.note(rows),
  });
  const write = { authorId: null, now: new Date(), describe: () => null };

  return {
    ...run,
    work,
    sandbox,
    records,
    jobs,
    storage,
    configs,
    configStore,
    geoIp,
    activityLog: createActivityLog(database),
    faults,
    warnings,
    observed,

    /** Installs a source in a project and enables it; answers the config's id. */
    async enable(
      projectId: number,
      name: string,
      source: string | SourceFiles,
      settings: { config?: JsonObject; order?: number; allowedHosts?: readonly string[] } = {},
    ): Promise<{ id: number; transformationId: number; label: string }> {
      const files = typeof source === "string" ? { "index.js": source } : source;
      const program = await compileSource(sandbox, files, "source");
      const project = await database.reads
        .selectFrom("projects")
        .select("organization_id")
        .where("id", "=", projectId)
        .executeTakeFirstOrThrow();
      const manifest: unknown = JSON.parse(files["plugin.json"] ?? "{}");
      const { config: configSchema = [] } = manifest as { config?: JsonObject };
      const transformation = await store.create(
        project.organization_id,
        {
          ...{ type: "source", name, description: null, url: null, icon: null, configSchema },
          ...{ identity: null, tag: null, latestTag: null, latestTagCheckedAt: null },
          ...{ isGlobal: false, capabilities: {}, metrics: {}, publicJobs: {} },
        },
        { files, program, tag: null, restoredFrom: null },
        write,
      );
      if (typeof transformation === "string") throw new Error(transformation);
      const id = await this.configure(projectId, transformation.id, settings);
      return { id, transformationId: transformation.id, label: `${name} (${id})` };
    },

    /** Makes a config of a transformation in a project and enables it; answers its id. */
    async configure(
      projectId: number,
      transformationId: number,
      settings: Parameters<typeof this.enable>[3] = {},
    ): Promise<number> {
      const view = await configStore.create(
        projectId,
        {
          ...{ transformationId, enabled: true, name: null, description: null },
          order: settings.order ?? transformationId,
          ...{ config: settings.config ?? {}, secretKeys: [] },
          allowedHosts: settings.allowedHosts ?? [],
          ...{ problem: null, deleted: false },
        },
        { put: [], removeKeys: [] },
        { ...write, describe: () => [] },
      );
      if (!view) throw new Error("the transformation is gone");
      await work.changed(projectId);
      return view.config.id;
    },

    /** Changes a config as its owners do. */
    async change(projectId: number, id: number, change: ConfigChange): Promise<ConfigView> {
      const { newUser } = await projectsAndUsers(database);
      const of = { id: projectId } as Parameters<typeof configs.update>[0];
      return configs.update(of, id, change, { put: [], removeKeys: [] }, await newUser());
    },

    /** Gives a transformation another source. */
    async edit(projectId: number, transformationId: number, source: string): Promise<void> {
      const files = { "index.js": source };
      const program = await compileSource(sandbox, files, "source");
      const draft = { files, program, tag: null, restoredFrom: null };
      const current = await database.reads
        .selectFrom("transformations")
        .select("version")
        .where("id", "=", transformationId)
        .executeTakeFirstOrThrow();
      await store.update(
        transformationId,
        () => ({}),
        { ...draft, ifVersion: current.version },
        write,
      );
      await work.changed(projectId);
    },

    /** Stored events of a project, oldest first. */
    async stored(projectId: number) {
      const query = { projectId, limit: 10_000, offset: 0, order: "oldest-first" } as const;
      return (await run.events.events(query)).events;
    },

    /** Lines of a config's log, oldest first. */
    async lines(projectId: number, configId: number): Promise<readonly string[]> {
      await work.flush();
      const { entries } = await records.logs({ projectId, configId, limit: 1_000, offset: 0 });
      return entries.map(({ message }) => message).reverse();
    },

    async counts(projectId: number, configId: number) {
      await work.flush();
      const sum = { eventsIn: 0, eventsOut: 0, dropped: 0, failed: 0 };
      for (const { counts } of await records.hours({ projectId, configId })) {
        sum.eventsIn += counts.eventsIn;
        sum.eventsOut += counts.eventsOut;
        sum.dropped += counts.dropped;
        sum.failed += counts.failed;
      }
      return sum;
    },

    /** Of how many events of a config it is known how long they took, and sums that it counted itself. */
    async alsoCounted(projectId: number, configId: number) {
      await work.flush();
      let durations = 0;
      const own: Record<string, number> = {};
      for (const hour of await records.hours({ projectId, configId })) {
        for (const count of Object.values(hour.durations)) durations += count;
        for (const [name, { value }] of Object.entries(hour.ownMetrics)) {
          own[name] = (own[name] ?? 0) + value;
        }
      }
      return { durations, own };
    },

    /** Stops all that runs; the pipeline can be taken up again. */
    async stop() {
      await pipeline.stopWorker();
      await work.close();
      await sandbox.close();
    },

    async close() {
      await this.stop();
      await pipeline.remove();
    },
  };
}

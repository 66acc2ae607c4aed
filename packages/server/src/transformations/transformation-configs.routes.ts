import { type Json, type JsonObject, ownValue } from "@hedgerow/core/json";
import { addDurations } from "@hedgerow/core/transformations/durations";
import { readJobPayload } from "@hedgerow/core/transformations/public-jobs";
import type { FastifyRequest } from "fastify";
import { type Static, Type } from "typebox";
import type { AccountStore } from "../accounts/account-store.ts";
import { itemActivityRoutes } from "../activity/activity.routes.ts";
import type { ActivityLog } from "../activity/activity-log.ts";
import { instantOf } from "../events/events.schemas.ts";
import type { App } from "../http/app.ts";
import { answersAlso } from "../http/check-accept.ts";
import { Refusal } from "../http/errors.ts";
import { invalidChoiceText } from "../http/invalid-choice.ts";
import { access, callerOf, organizationOf, projectOf, takesForms } from "../http/management-api.ts";
import { ListOf, listAnswer, PageQuery, pageOf } from "../http/pagination.ts";
import { pathIdOf, queryId } from "../http/path-id.ts";
import { queryText } from "../http/query-text.ts";
import { refuseLong } from "./secret-settings.ts";
import type { ConfigView } from "./transformation-config-store.ts";
import {
  attachmentChangeOf,
  bodyOfConfigForm,
  CreatePluginConfigBody,
  configChangeOf,
  JobBody,
  ordersOf,
  PatchPluginConfigBody,
  PluginConfig,
  PluginLog,
  PluginMetrics,
  PutPluginConfigBody,
  RearrangeBody,
  TrialAnswer,
  TrialBody,
  trialRequestOf,
  wireLog,
  wireMetrics,
  wirePluginConfig,
  wireTrial,
} from "./transformation-configs.schemas.ts";
import { refuseOtherPlugin, type TransformationConfigs } from "./transformation-configs.ts";
import {
  type HourTally,
  LOG_TYPES,
  type TransformationJobs,
  type TransformationRecords,
} from "./transformation-records.ts";
import type { TransformationTrials } from "./transformation-trials.ts";

const CONFIGS = "/api/projects/:project_id/pipeline_transformation_configs";
const CONFIG = `${CONFIGS}/:id`;
const tags = ["pipeline transformation configs"];

const reads = access("plugin:read");
const writes = access("plugin:write");
const takesFiles = { config: { ...writes.config, ...takesForms(bodyOfConfigForm) } };

const HOUR_MS = 60 * 60 * 1000;
const METRIC_HOURS = 7 * 24;

/**
 * Configs of transformations in a project (posthog-api 6.7, decision 10). `plugin_configs` in place of
 * `pipeline_transformation_configs` is the same (see `http/app.ts`).
 */
export function transformationConfigRoutes(
  app: App,
  {
    configs,
    trials,
    records,
    jobs,
    activityLog,
    accounts,
    clock,
  }: {
    configs: TransformationConfigs;
    trials: TransformationTrials;
    records: Pick<TransformationRecords, "logs" | "hours">;
    jobs: Pick<TransformationJobs, "add">;
    activityLog: Pick<ActivityLog, "list" | "ofOrganization">;
    accounts: Pick<AccountStore, "user" | "organization">;
    clock: () => Date;
  },
): void {
  itemActivityRoutes(app, {
    activityLog,
    accounts,
    path: CONFIGS,
    tag: tags[0] ?? "",
    scope: "PluginConfig",
    takes: "plugin:read",
    mayRead: configs.mayRead,
    find: (projectId, id) => configs.config({ id: projectId }, id),
  });

  /** Share of events of the last 24 hours that came through without a fault. */
  const deliveryRate = async ({ config }: ConfigView): Promise<number | null> => {
    const from = new Date(clock().getTime() - 24 * HOUR_MS);
    const ref = { projectId: config.projectId, configId: config.id };
    const { counts } = sumOf(await records.hours({ ...ref, from }));
    return counts.eventsIn === 0 ? null : (counts.eventsIn - counts.failed) / counts.eventsIn;
  };

  const wire = async (view: ConfigView) => {
    const { organizationId } = view.transformation;
    return wirePluginConfig(view, {
      deliveryRate: await deliveryRate(view),
      organizationName: (await accounts.organization(organizationId))?.name ?? "",
    });
  };
  const wireInList = async (view: ConfigView) =>
    wirePluginConfig(view, { deliveryRate: await deliveryRate(view) });

  /** For bodies that lack what is required: that there is no such config is said first. */
  const writesKnown = access("plugin:write", "project", (request) =>
    configs.config(projectOf(request), pathIdOf(request)),
  );

  app.get(
    CONFIGS,
    {
      ...reads,
      schema: {
        tags,
        summary: "List configs of transformations in the order in which they run",
        querystring: Type.Object({
          ...PageQuery,
          plugin_id: Type.Optional(Type.String({ description: "Id of a transformation." })),
        }),
        response: { 200: ListOf(PluginConfig) },
      },
    },
    async (request) => {
      const page = pageOf(request);
      const { count, configs: found } = await configs.list(projectOf(request), {
        ...page,
        transformationId: queryId(request, "plugin_id") ?? null,
      });
      const results = await Promise.all(found.map(wireInList));
      return listAnswer(request, page, { count, results });
    },
  );

  app.post(
    CONFIGS,
    {
      ...takesFiles,
      schema: {
        tags,
        summary: "Put a transformation to work in a project",
        body: CreatePluginConfigBody,
        response: { 201: PluginConfig },
      },
    },
    async (request, reply) => {
      const view = await configs.create(
        projectOf(request),
        { ...configChangeOf(request.body), transformationId: request.body.plugin },
        attachmentChangeOf(request.body),
        callerOf(request).user.id,
      );
      return reply.code(201).send(await wire(view));
    },
  );

  app.patch(
    `${CONFIGS}/rearrange`,
    {
      ...writes,
      schema: {
        tags,
        summary: "Change the order in which transformations run",
        body: RearrangeBody,
        response: { 200: Type.Array(PluginConfig) },
      },
    },
    async (request) => {
      const views = await configs.rearrange(
        projectOf(request),
        ordersOf(request.body),
        callerOf(request).user.id,
      );
      return Promise.all(views.map(wireInList));
    },
  );

  app.post(
    `${CONFIGS}/test`,
    {
      ...writes,
      schema: {
        tags,
        summary:
          "Try a source and settings on some events; only hosts that this request grants are asked, and nothing else has an effect",
        body: TrialBody,
        response: { 200: TrialAnswer },
      },
    },
    async (request) =>
      wireTrial(await trials.run(projectOf(request), null, trialRequestOf(request.body))),
  );

  app.get(
    CONFIG,
    {
      ...reads,
      schema: { tags, summary: "Read a config", response: { 200: PluginConfig } },
    },
    async (request) => wire(await configs.config(projectOf(request), pathIdOf(request))),
  );

  const change = async (
    request: FastifyRequest,
    body: Static<typeof PatchPluginConfigBody>,
  ): Promise<Static<typeof PluginConfig>> => {
    if (body.plugin !== undefined) {
      refuseOtherPlugin(await configs.config(projectOf(request), pathIdOf(request)), body.plugin);
    }
    const view = await configs.update(
      projectOf(request),
      pathIdOf(request),
      configChangeOf(body),
      attachmentChangeOf(body),
      callerOf(request).user.id,
    );
    return wire(view);
  };

  app.patch(
    CONFIG,
    {
      ...takesFiles,
      schema: {
        tags,
        summary: "Change a config, enable or disable it",
        body: PatchPluginConfigBody,
        response: { 200: PluginConfig },
      },
    },
    (request) => change(request, request.body),
  );

  app.put(
    CONFIG,
    {
      config: { ...writesKnown.config, ...takesForms(bodyOfConfigForm) },
      schema: {
        tags,
        summary: "Change a config, with what every config has to have",
        body: PutPluginConfigBody,
        response: { 200: PluginConfig },
      },
    },
    (request) => change(request, request.body),
  );

  app.delete(
    CONFIG,
    {
      ...writes,
      schema: {
        tags,
        summary: "Take a transformation out of a project",
        response: { 204: Type.Null() },
      },
    },
    async (request, reply) => {
      await configs.update(
        projectOf(request),
        pathIdOf(request),
        { deleted: true },
        { put: [], removeKeys: [] },
        callerOf(request).user.id,
      );
      return reply.code(204).send(null);
    },
  );

  app.get(
    `${CONFIG}/attachments/:key`,
    {
      config: { ...reads.config, ...answersAlso("application/octet-stream") },
      schema: { tags, summary: "Read an attached file", response: { 200: Type.Unknown() } },
    },
    async (request, reply) => {
      const { key = "" } = request.params as { key?: string };
      const { contents, fileName } = await configs.attachment(
        projectOf(request),
        pathIdOf(request),
        key,
      );
      return (
        reply
          // Never as the type that it came with: a page of a stranger would be shown as one of ours.
          .header("content-type", "application/octet-stream")
          .header(
            "content-disposition",
            `attachment; filename*=UTF-8''${encodeURIComponent(fileName)}`,
          )
          .send(Buffer.from(contents))
      );
    },
  );

  app.get(
    `${CONFIG}/logs`,
    {
      ...reads,
      schema: {
        tags,
        summary: "List what a config wrote to its log, newest first",
        querystring: Type.Object({
          ...PageQuery,
          after: Type.Optional(Type.String({ description: "Only lines after this instant." })),
          before: Type.Optional(Type.String({ description: "Only lines before this instant." })),
          search: Type.Optional(Type.String({ description: "Part of the message." })),
          type_filter: Type.Optional(
            Type.String({ description: `Types of lines, with commas: ${LOG_TYPES.join(", ")}.` }),
          ),
          type: Type.Optional(Type.String({ description: "The same." })),
        }),
        response: { 200: ListOf(PluginLog) },
      },
    },
    async (request) => {
      const { config } = await configs.config(projectOf(request), pathIdOf(request));
      const page = pageOf(request);
      const search = queryText(request.query, "search");
      const types = logTypesOf(request);
      const { count, entries } = await records.logs({
        projectId: config.projectId,
        configId: config.id,
        ...periodOf(request),
        ...(search && { search }),
        ...(types && { types }),
        ...page,
      });
      return listAnswer(request, page, { count, results: entries.map(wireLog) });
    },
  );

  app.get(
    `${CONFIG}/metrics`,
    {
      ...reads,
      schema: {
        tags,
        summary: "Count what a config did with events, by hour: in = out + dropped",
        querystring: Type.Object({
          after: Type.Optional(
            Type.String({
              description: "Only hours from this instant, the last week unless given.",
            }),
          ),
          before: Type.Optional(Type.String({ description: "Only hours before this instant." })),
        }),
        response: { 200: PluginMetrics },
      },
    },
    async (request) => {
      const { config } = await configs.config(projectOf(request), pathIdOf(request));
      const { after, before } = periodOf(request);
      const hours = await records.hours({
        projectId: config.projectId,
        configId: config.id,
        from: after ?? new Date(clock().getTime() - METRIC_HOURS * HOUR_MS),
        ...(before && { before }),
      });
      return wireMetrics(hours, sumOf(hours));
    },
  );

  app.post(
    `${CONFIG}/test`,
    {
      ...writes,
      schema: {
        tags,
        summary:
          "Try a config on some events, with another source or settings; only hosts that this request grants are asked, and nothing else has an effect",
        body: TrialBody,
        response: { 200: TrialAnswer },
      },
    },
    async (request) =>
      wireTrial(
        await trials.run(projectOf(request), pathIdOf(request), trialRequestOf(request.body)),
      ),
  );

  app.post(
    `${CONFIG}/job`,
    {
      ...writesKnown,
      schema: {
        tags,
        summary: "Run one of a transformation's jobs",
        body: JobBody,
        response: { 200: Type.Object({}) },
      },
    },
    async (request) => {
      const { type, payload: given = {} } = request.body.job;
      const { config, transformation } = await configs.config(
        projectOf(request),
        pathIdOf(request),
      );
      if (!jobNamesOf(transformation.capabilities).includes(type)) {
        throw new Refusal("invalid_choice", `The plugin has no job "${type}".`, {
          attr: "job__type",
        });
      }
      if (!config.enabled) {
        throw new Refusal("invalid_input", "Jobs run while the config is enabled.", {
          attr: "enabled",
        });
      }
      refuseLong("A payload has", given as JsonObject, "job__payload");
      const read = readJobPayload(transformation.publicJobs, type, given as JsonObject);
      if (read.kind === "unfit") {
        const code = read.reason === "required" ? "required" : "invalid_input";
        throw new Refusal(code, read.message, { attr: `job__payload__${read.key}` });
      }
      const { payload } = read;
      const added = await jobs.add({
        projectId: config.projectId,
        configId: config.id,
        name: type,
        payload,
        runAt: clock(),
        hops: 0,
      });
      if (added === "gone") throw new Refusal("not_found", "Not found.");
      if (added === "full") throw new Refusal("throttled", "Too many jobs wait already.");
      const job = { name: type, payload };
      await configs.noteJob(projectOf(request), config.id, job, callerOf(request).user.id);
      return {};
    },
  );

  app.get(
    "/api/organizations/:organization_id/pipeline_transformations/exports_unsubscribe_configs",
    {
      ...access("plugin:read", "organization"),
      schema: {
        tags: ["pipeline transformations"],
        summary: "List enabled configs that export events",
        querystring: Type.Object(PageQuery),
        response: { 200: ListOf(PluginConfig) },
      },
    },
    async (request) => {
      const page = pageOf(request);
      const views = await configs.exporting(organizationOf(request).organization.id);
      const results = await Promise.all(
        views.slice(page.offset, page.offset + page.limit).map(wireInList),
      );
      return listAnswer(request, page, { count: views.length, results });
    },
  );
}

function sumOf(hours: readonly HourTally[]): Pick<HourTally, "counts" | "durations"> {
  const none = { eventsIn: 0, eventsOut: 0, dropped: 0, failed: 0 };
  return hours.reduce<Pick<HourTally, "counts" | "durations">>(
    (sum, { counts, durations }) => ({
      counts: {
        eventsIn: sum.counts.eventsIn + counts.eventsIn,
        eventsOut: sum.counts.eventsOut + counts.eventsOut,
        dropped: sum.counts.dropped + counts.dropped,
        failed: sum.counts.failed + counts.failed,
      },
      durations: addDurations(sum.durations, durations),
    }),
    { counts: none, durations: {} },
  );
}

function periodOf(request: FastifyRequest) {
  const read = (name: string) => {
    const text = queryText(request.query, name);
    return instantOf(text || undefined, name);
  };
  const [after, before] = [read("after"), read("before")];
  return { ...(after && { after }), ...(before && { before }) };
}

type LogType = (typeof LOG_TYPES)[number];

/** `type_filter` or `type` once, more than once, or with commas; what is none of the types is refused. */
function logTypesOf(request: FastifyRequest): readonly LogType[] | undefined {
  const query = request.query as Record<string, unknown>;
  const types = ["type_filter", "type"].flatMap((attr) =>
    [query[attr]]
      .flat()
      .flatMap((text) => (typeof text === "string" ? text.split(",") : []))
      .map((name) => name.trim())
      .filter((name) => name !== "")
      .map((name) => {
        const type = LOG_TYPES.find((known) => known === name.toUpperCase());
        if (type) return type;
        throw new Refusal("invalid_choice", invalidChoiceText(name, LOG_TYPES), { attr });
      }),
  );
  return types.length === 0 ? undefined : types;
}

function jobNamesOf(capabilities: JsonObject): readonly Json[] {
  const names = ownValue(capabilities, "jobs");
  return Array.isArray(names) ? names : [];
}

import type { FastifyRequest } from "fastify";
import { type Static, Type } from "typebox";
import type { AccountStore } from "../accounts/account-store.ts";
import { usersById } from "../accounts/users-by-id.ts";
import { activityPageOf, writeActivityPage } from "../activity/activity.routes.ts";
import { ActivityPage, ActivityPageParameters } from "../activity/activity.schemas.ts";
import type { ActivityLog } from "../activity/activity-log.ts";
import type { App } from "../http/app.ts";
import { Refusal } from "../http/errors.ts";
import { access, callerOf, organizationOf } from "../http/management-api.ts";
import { ListOf, listAnswer, PageQuery, pageOf } from "../http/pagination.ts";
import { pathIdOf, queryId, readId } from "../http/path-id.ts";
import type { Asker } from "./transformation-request.ts";
import {
  CheckedPlugin,
  CreatePluginBody,
  PatchPluginBody,
  Plugin,
  PluginDifference,
  PluginVersion,
  PluginVersionWithSource,
  PluginWithSource,
  pluginChangeOf,
  pluginRequestOf,
  RepositoryItem,
  sourcePatchOf,
  UpdateSourceBody,
  UpgradedPlugin,
  wireDifference,
  wireMissingSettings,
  wireNewSettings,
  wirePlugin,
  wireRepositoryItem,
  wireVersion,
  wireVersionWithSource,
} from "./transformations.schemas.ts";
import type { Transformations } from "./transformations.ts";

const PLUGINS = "/api/organizations/:organization_id/pipeline_transformations";
const PLUGIN = `${PLUGINS}/:id`;
const VERSIONS = `${PLUGIN}/versions`;
const tags = ["pipeline transformations"];

const reads = access("plugin:read", "organization");
const writes = access("plugin:write", "organization");

/**
 * Management of transformations by organization (interface 4.2, posthog-api 6, decisions 8 and 9).
 * `plugins` in place of `pipeline_transformations` is the same (see `http/app.ts`).
 */
export function transformationRoutes(
  app: App,
  {
    transformations,
    activityLog,
    accounts,
  }: {
    transformations: Transformations;
    activityLog: Pick<ActivityLog, "ofOrganization">;
    accounts: Pick<AccountStore, "user">;
  },
): void {
  app.get(
    PLUGINS,
    {
      ...reads,
      schema: {
        tags,
        summary: "List transformations: own ones, global ones and those in use",
        querystring: Type.Object(PageQuery),
        response: { 200: ListOf(Plugin) },
      },
    },
    async (request) => {
      const page = pageOf(request);
      const { count, views } = await transformations.list(askerOf(request), page);
      return listAnswer(request, page, { count, results: views.map(wirePlugin) });
    },
  );

  app.post(
    PLUGINS,
    {
      ...writes,
      schema: {
        tags,
        summary: "Install a transformation from an address, or create one to be written here",
        body: CreatePluginBody,
        response: { 201: Plugin },
      },
    },
    async (request, reply) => {
      const view = await transformations.create(askerOf(request), pluginRequestOf(request.body));
      return reply.code(201).send(wirePlugin(view));
    },
  );

  app.get(
    `${PLUGINS}/activity`,
    {
      ...reads,
      schema: {
        tags,
        summary: "List what was changed in transformations and their configs, newest first",
        querystring: Type.Object(ActivityPageParameters),
        response: { 200: ActivityPage },
      },
    },
    async (request) => {
      transformations.mayRead();
      const page = activityPageOf(request);
      const found = await activityLog.ofOrganization(askerOf(request).organizationId, {
        scopes: ["Plugin", "PluginConfig"],
        ...page,
      });
      return writeActivityPage(request, page, found, accounts);
    },
  );

  app.get(
    `${PLUGINS}/repository`,
    {
      ...reads,
      schema: {
        tags,
        summary: "List the transformations that come with the service",
        querystring: Type.Object(PageQuery),
        response: { 200: ListOf(RepositoryItem) },
      },
    },
    async (request) =>
      pageOfAll(
        request,
        (await transformations.repository(askerOf(request))).map(wireRepositoryItem),
      ),
  );

  app.get(
    `${PLUGINS}/unused`,
    {
      ...reads,
      schema: {
        tags,
        summary: "List global transformations that no project has enabled",
        querystring: Type.Object(PageQuery),
        response: { 200: ListOf(Plugin) },
      },
    },
    async (request) =>
      pageOfAll(request, (await transformations.unused(askerOf(request))).map(wirePlugin)),
  );

  app.get(
    PLUGIN,
    {
      ...reads,
      schema: { tags, summary: "Read a transformation", response: { 200: Plugin } },
    },
    async (request) => wirePlugin(await transformations.view(askerOf(request), pathIdOf(request))),
  );

  for (const method of ["PATCH", "PUT"] as const) {
    app.route({
      method,
      url: PLUGIN,
      ...writes,
      schema: {
        tags,
        summary: "Change a transformation, but for its source",
        body: PatchPluginBody,
        response: { 200: Plugin },
      },
      handler: async (request) => {
        const change = pluginChangeOf(request.body as Static<typeof PatchPluginBody>);
        return wirePlugin(
          await transformations.update(askerOf(request), pathIdOf(request), change),
        );
      },
    });
  }

  app.delete(
    PLUGIN,
    {
      ...writes,
      schema: {
        tags,
        summary: "Uninstall a transformation, with its configs",
        response: { 204: Type.Null() },
      },
    },
    async (request, reply) => {
      await transformations.remove(askerOf(request), pathIdOf(request));
      return reply.code(204).send(null);
    },
  );

  app.get(
    `${PLUGIN}/check_for_updates`,
    {
      ...reads,
      schema: {
        tags,
        summary: "Look for a newer commit or version and keep it as latest_tag",
        response: { 200: CheckedPlugin },
      },
    },
    async (request) => {
      const plugin = wirePlugin(
        await transformations.checkForUpdates(askerOf(request), pathIdOf(request)),
      );
      return { ...plugin, plugin };
    },
  );

  app.get(
    `${PLUGIN}/source`,
    {
      ...reads,
      schema: {
        tags,
        summary: "Read the files of a transformation",
        response: { 200: PluginWithSource },
      },
    },
    async (request) => {
      const { files, ...view } = await transformations.source(askerOf(request), pathIdOf(request));
      return { ...wirePlugin(view), source: files };
    },
  );

  app.patch(
    `${PLUGIN}/update_source`,
    {
      ...writes,
      schema: {
        tags,
        summary: "Change files of a transformation, which makes a new version",
        body: UpdateSourceBody,
        response: { 200: PluginWithSource },
      },
    },
    async (request) => {
      const { files, ...view } = await transformations.updateSource(
        askerOf(request),
        pathIdOf(request),
        sourcePatchOf(request.body),
        pluginChangeOf(request.body),
      );
      return { ...wirePlugin(view), source: files };
    },
  );

  app.post(
    `${PLUGIN}/upgrade`,
    {
      ...writes,
      schema: {
        tags,
        summary: "Move to the newest commit or version; configs stay",
        response: { 200: UpgradedPlugin },
      },
    },
    async (request) => {
      const { missing, newSettings, ...view } = await transformations.upgrade(
        askerOf(request),
        pathIdOf(request),
      );
      return {
        ...wirePlugin(view),
        missing_settings: wireMissingSettings(missing),
        new_settings: wireNewSettings(newSettings),
      };
    },
  );

  app.get(
    VERSIONS,
    {
      ...reads,
      schema: {
        tags,
        summary: "List the versions of a source, newest first",
        querystring: Type.Object(PageQuery),
        response: { 200: ListOf(PluginVersion) },
      },
    },
    async (request) => {
      const page = pageOf(request);
      const { count, versions } = await transformations.versions(
        askerOf(request),
        pathIdOf(request),
        page,
      );
      const users = await usersById(
        accounts,
        versions.map(({ createdById }) => createdById),
      );
      const results = versions.map((version) => wireVersion(version, users));
      return listAnswer(request, page, { count, results });
    },
  );

  app.get(
    `${VERSIONS}/:version`,
    {
      ...reads,
      schema: {
        tags,
        summary: "Read a version with its files",
        response: { 200: PluginVersionWithSource },
      },
    },
    async (request) => {
      const version = await transformations.version(
        askerOf(request),
        pathIdOf(request),
        versionOf(request),
      );
      return wireVersionWithSource(version, await usersById(accounts, [version.createdById]));
    },
  );

  app.get(
    `${VERSIONS}/:version/diff`,
    {
      ...reads,
      schema: {
        tags,
        summary: "Compare a version with another, the one before it unless named",
        querystring: Type.Object({
          from: Type.Optional(
            Type.String({ description: "Number of the version to compare with." }),
          ),
        }),
        response: { 200: PluginDifference },
      },
    },
    async (request) => {
      const to = versionOf(request);
      const from = queryId(request, "from") ?? to - 1;
      const files = await transformations.difference(askerOf(request), pathIdOf(request), from, to);
      return wireDifference(from, to, files);
    },
  );

  app.post(
    `${VERSIONS}/:version/roll_back`,
    {
      ...writes,
      schema: {
        tags,
        summary: "Make a new version of the files of an earlier one",
        response: { 200: PluginWithSource },
      },
    },
    async (request) => {
      const { files, ...view } = await transformations.rollBack(
        askerOf(request),
        pathIdOf(request),
        versionOf(request),
      );
      return { ...wirePlugin(view), source: files };
    },
  );
}

function askerOf(request: FastifyRequest): Asker {
  return {
    organizationId: organizationOf(request).organization.id,
    userId: callerOf(request).user.id,
  };
}

/** Short lists are made whole and answered in pages. */
function pageOfAll<Item>(request: FastifyRequest, all: readonly Item[]) {
  const page = pageOf(request);
  const results = all.slice(page.offset, page.offset + page.limit);
  return listAnswer(request, page, { count: all.length, results });
}

function versionOf(request: FastifyRequest): number {
  const version = readId((request.params as { version?: string }).version);
  if (version === undefined) throw new Refusal("not_found", "Not found.");
  return version;
}

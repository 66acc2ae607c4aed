import { Type } from "typebox";
import type { AccountStore } from "../accounts/account-store.ts";
import { usersById } from "../accounts/users-by-id.ts";
import { itemActivityRoutes } from "../activity/activity.routes.ts";
import type { ActivityLog } from "../activity/activity-log.ts";
import type { App } from "../http/app.ts";
import { access, callerOf, projectOf } from "../http/management-api.ts";
import { ListOf, listAnswer, PageQuery, pageOf } from "../http/pagination.ts";
import { pathIdOf } from "../http/path-id.ts";
import {
  CreateSavedMetricBody,
  newQueryOf,
  PatchSavedMetricBody,
  savedMetricChangeOf,
  WireSavedMetric,
  wireSavedMetric,
} from "./saved-metrics.schemas.ts";
import type { SavedMetric, SavedMetrics } from "./saved-metrics.ts";

const SAVED_METRICS = "/api/projects/:project_id/experiment_saved_metrics";
const SAVED_METRIC = `${SAVED_METRICS}/:id`;
const tags = ["experiments"];

/** Management of the metrics that experiments share (posthog-api 5.14). */
export function savedMetricRoutes(
  app: App,
  {
    savedMetrics,
    activityLog,
    accounts,
  }: {
    savedMetrics: SavedMetrics;
    activityLog: Pick<ActivityLog, "list">;
    accounts: Pick<AccountStore, "user">;
  },
): void {
  itemActivityRoutes(app, {
    activityLog,
    accounts,
    path: SAVED_METRICS,
    tag: "experiments",
    scope: "ExperimentSavedMetric",
    find: (projectId, id) => savedMetrics.savedMetric(projectId, id),
  });
  const wire = async (metric: SavedMetric) =>
    wireSavedMetric(metric, await usersById(accounts, [metric.createdById]));

  app.get(
    SAVED_METRICS,
    {
      ...access("experiment:read"),
      schema: {
        tags,
        summary: "List shared metrics, newest first",
        querystring: Type.Object(PageQuery),
        response: { 200: ListOf(WireSavedMetric) },
      },
    },
    async (request) => {
      const page = pageOf(request);
      const { count, savedMetrics: found } = await savedMetrics.list(projectOf(request).id, page);
      const users = await usersById(
        accounts,
        found.map(({ createdById }) => createdById),
      );
      const results = found.map((metric) => wireSavedMetric(metric, users));
      return listAnswer(request, page, { count, results });
    },
  );

  app.post(
    SAVED_METRICS,
    {
      ...access("experiment:write"),
      schema: {
        tags,
        summary: "Create a metric that experiments can share",
        body: CreateSavedMetricBody,
        response: { 201: WireSavedMetric },
      },
    },
    async (request, reply) => {
      const change = savedMetricChangeOf(request.body, projectOf(request).timeZone);
      const draft = { ...change, name: request.body.name, query: newQueryOf(change) };
      const metric = await savedMetrics.create(
        projectOf(request).id,
        draft,
        callerOf(request).user.id,
      );
      return reply.code(201).send(await wire(metric));
    },
  );

  app.get(
    SAVED_METRIC,
    {
      ...access("experiment:read"),
      schema: { tags, summary: "Read a shared metric", response: { 200: WireSavedMetric } },
    },
    async (request) =>
      wire(await savedMetrics.savedMetric(projectOf(request).id, pathIdOf(request))),
  );

  app.patch(
    SAVED_METRIC,
    {
      ...access("experiment:write"),
      schema: {
        tags,
        summary: "Change a shared metric; its experiments measure what it is from then on",
        body: PatchSavedMetricBody,
        response: { 200: WireSavedMetric },
      },
    },
    async (request) =>
      wire(
        await savedMetrics.update(
          projectOf(request).id,
          pathIdOf(request),
          savedMetricChangeOf(request.body, projectOf(request).timeZone),
          callerOf(request).user.id,
        ),
      ),
  );

  app.put(
    SAVED_METRIC,
    {
      ...access("experiment:write"),
      schema: {
        tags,
        summary: "Change a shared metric, naming it",
        body: CreateSavedMetricBody,
        response: { 200: WireSavedMetric },
      },
    },
    async (request) =>
      wire(
        await savedMetrics.update(
          projectOf(request).id,
          pathIdOf(request),
          savedMetricChangeOf(request.body, projectOf(request).timeZone),
          callerOf(request).user.id,
        ),
      ),
  );

  app.delete(
    SAVED_METRIC,
    {
      ...access("experiment:write"),
      schema: {
        tags,
        summary: "Delete a shared metric; no experiment measures it any more",
        response: { 204: Type.Null() },
      },
    },
    async (request, reply) => {
      await savedMetrics.remove(
        projectOf(request).id,
        pathIdOf(request),
        callerOf(request).user.id,
      );
      return reply.code(204).send(null);
    },
  );
}

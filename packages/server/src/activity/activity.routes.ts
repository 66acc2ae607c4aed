import type { FastifyRequest } from "fastify";
import { Type } from "typebox";
import type { AccountStore } from "../accounts/account-store.ts";
import { usersById } from "../accounts/users-by-id.ts";
import type { App } from "../http/app.ts";
import { access, projectOf } from "../http/management-api.ts";
import { pageNumberLinks, pageNumberOf } from "../http/page-number.ts";
import { pathIdOf, readId } from "../http/path-id.ts";
import { queryText } from "../http/query-text.ts";
import { ActivityPage, ActivityPageParameters, wireActivity } from "./activity.schemas.ts";
import {
  ACTIVITY_SCOPES,
  type ActivityLog,
  type ActivityQuery,
  type ActivityScope,
} from "./activity-log.ts";

export interface ActivityRoutesDeps {
  readonly activityLog: Pick<ActivityLog, "list">;
  readonly accounts: Pick<AccountStore, "user">;
}

/** What happened in a project, whatever it happened to. */
export function activityRoutes(app: App, deps: ActivityRoutesDeps): void {
  app.get(
    "/api/projects/:project_id/activity_log",
    {
      ...access("activity_log:read"),
      schema: {
        tags: ["activity"],
        summary: "List what was changed in a project, newest first",
        querystring: Type.Object({
          ...ActivityPageParameters,
          scope: Type.Optional(Type.String({ description: "Kind of item, `FeatureFlag` say." })),
          item_id: Type.Optional(Type.String({ description: "Id of an item." })),
          user: Type.Optional(Type.String({ description: "Id of the user who made the changes." })),
        }),
        response: { 200: ActivityPage },
      },
    },
    async (request) => {
      const { query } = request;
      const scope = queryText(query, "scope");
      return await answerActivityPage(request, deps, {
        scope: ACTIVITY_SCOPES.find((known) => known === scope) ?? null,
        itemId: queryText(query, "item_id") || null,
        authorId: readId(queryText(query, "user")) ?? null,
      });
    },
  );
}

/**
 * The activity of one kind of items: of all of them below `path`, and of one below its id.
 * @param find throws `not_found` for an id that the project has no item of
 */
export function itemActivityRoutes(
  app: App,
  deps: ActivityRoutesDeps & {
    path: string;
    tag: string;
    scope: ActivityScope;
    find: (projectId: number, id: number) => Promise<unknown>;
  },
): void {
  const schema = {
    tags: [deps.tag],
    querystring: Type.Object(ActivityPageParameters),
    response: { 200: ActivityPage },
  };
  app.get(
    `${deps.path}/activity`,
    {
      ...access("activity_log:read"),
      schema: { ...schema, summary: "List what was changed in all of them, newest first" },
    },
    (request) =>
      answerActivityPage(request, deps, { scope: deps.scope, itemId: null, authorId: null }),
  );
  app.get(
    `${deps.path}/:id/activity`,
    {
      ...access("activity_log:read"),
      schema: { ...schema, summary: "List what was changed in one of them, newest first" },
    },
    async (request) => {
      const id = pathIdOf(request);
      await deps.find(projectOf(request).id, id);
      return await answerActivityPage(request, deps, {
        scope: deps.scope,
        itemId: String(id),
        authorId: null,
      });
    },
  );
}

/** A page of the activity of what is named. */
export async function answerActivityPage(
  request: FastifyRequest,
  { activityLog, accounts }: ActivityRoutesDeps,
  which: Pick<ActivityQuery, "scope" | "itemId" | "authorId">,
) {
  const { page, limit } = pageNumberOf(request);
  const query = { ...which, limit, offset: (page - 1) * limit };
  const { count, activities } = await activityLog.list(projectOf(request).id, query);
  const users = await usersById(
    accounts,
    activities.map(({ authorId }) => authorId),
  );
  return {
    results: activities.map((activity) => wireActivity(activity, users)),
    ...pageNumberLinks(request, { page, hasMore: page * limit < count }),
    count,
    total_count: count,
  };
}

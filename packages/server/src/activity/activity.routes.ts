import type { FastifyRequest } from "fastify";
import { Type } from "typebox";
import type { AccountStore } from "../accounts/account-store.ts";
import type { Scope } from "../accounts/scopes.ts";
import { usersById } from "../accounts/users-by-id.ts";
import type { App } from "../http/app.ts";
import { access, projectOf } from "../http/management-api.ts";
import { pageNumberLinks, pageNumberOf } from "../http/page-number.ts";
import { listAnswer, type Page, pageOf } from "../http/pagination.ts";
import { pathIdOf, readId } from "../http/path-id.ts";
import { queryText } from "../http/query-text.ts";
import { ActivityPage, ActivityPageParameters, wireActivity } from "./activity.schemas.ts";
import {
  ACTIVITY_SCOPES,
  type Activity,
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
 * @param deps.find throws `not_found` for an id that the project has no item of
 */
export function itemActivityRoutes(
  app: App,
  deps: ActivityRoutesDeps & {
    path: string;
    tag: string;
    scope: ActivityScope;
    find: (projectId: number, id: number) => Promise<unknown>;
    /** Throws where nobody may read any of it. */
    mayRead?: () => void;
    /** What it takes to read; `activity_log:read` unless given. */
    takes?: Scope;
  },
): void {
  const reads = access(deps.takes ?? "activity_log:read");
  const schema = {
    tags: [deps.tag],
    querystring: Type.Object(ActivityPageParameters),
    response: { 200: ActivityPage },
  };
  app.get(
    `${deps.path}/activity`,
    {
      ...reads,
      schema: { ...schema, summary: "List what was changed in all of them, newest first" },
    },
    async (request) => {
      deps.mayRead?.();
      const which = { scope: deps.scope, itemId: null, authorId: null };
      return await answerActivityPage(request, deps, which);
    },
  );
  app.get(
    `${deps.path}/:id/activity`,
    {
      ...reads,
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
  const page = activityPageOf(request);
  const found = await activityLog.list(projectOf(request).id, { ...which, ...page });
  return writeActivityPage(request, page, found, accounts);
}

/** The page of activities that a request asks for: by `page`, or by `offset` as other lists. */
export function activityPageOf(request: FastifyRequest): Page {
  const { page, limit } = pageNumberOf(request);
  return isByOffset(request)
    ? { ...pageOf(request), limit }
    : { limit, offset: (page - 1) * limit };
}

/** The answer of a page of activities, with links of the kind that it was asked for by. */
export async function writeActivityPage(
  request: FastifyRequest,
  page: Page,
  { count, activities }: { count: number; activities: readonly Activity[] },
  accounts: Pick<AccountStore, "user">,
) {
  const { limit, offset } = page;
  const users = await usersById(
    accounts,
    activities.map(({ authorId }) => authorId),
  );
  const results = activities.map((activity) => wireActivity(activity, users));
  const links = isByOffset(request)
    ? listAnswer(request, page, { count, results })
    : pageNumberLinks(request, { page: offset / limit + 1, hasMore: offset + limit < count });
  const { next, previous } = links;
  return { results, next, previous, count, total_count: count };
}

function isByOffset({ query }: FastifyRequest): boolean {
  return (
    /^\d{1,15}$/.test(queryText(query, "offset") ?? "") && queryText(query, "page") === undefined
  );
}

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
  CreateHoldoutBody,
  holdoutChangeOf,
  newConditionsOf,
  PatchHoldoutBody,
  WireHoldout,
  wireHoldout,
} from "./holdouts.schemas.ts";
import type { Holdout, Holdouts } from "./holdouts.ts";

const HOLDOUTS = "/api/projects/:project_id/experiment_holdouts";
const HOLDOUT = `${HOLDOUTS}/:id`;
const tags = ["experiments"];

/** Management of the people who are kept out of experiments (posthog-api 5.14). */
export function holdoutRoutes(
  app: App,
  {
    holdouts,
    activityLog,
    accounts,
  }: {
    holdouts: Holdouts;
    activityLog: Pick<ActivityLog, "list">;
    accounts: Pick<AccountStore, "user">;
  },
): void {
  itemActivityRoutes(app, {
    activityLog,
    accounts,
    path: HOLDOUTS,
    tag: "experiments",
    scope: "ExperimentHoldout",
    find: (projectId, id) => holdouts.holdout(projectId, id),
  });
  const wire = async (holdout: Holdout) =>
    wireHoldout(holdout, await usersById(accounts, [holdout.createdById]));

  app.get(
    HOLDOUTS,
    {
      ...access("experiment:read"),
      schema: {
        tags,
        summary: "List holdouts, newest first",
        querystring: Type.Object(PageQuery),
        response: { 200: ListOf(WireHoldout) },
      },
    },
    async (request) => {
      const page = pageOf(request);
      const { count, holdouts: found } = await holdouts.list(projectOf(request).id, page);
      const users = await usersById(
        accounts,
        found.map(({ createdById }) => createdById),
      );
      const results = found.map((holdout) => wireHoldout(holdout, users));
      return listAnswer(request, page, { count, results });
    },
  );

  app.post(
    HOLDOUTS,
    {
      ...access("experiment:write"),
      schema: {
        tags,
        summary: "Create a holdout: a share of everyone that is kept out of its experiments",
        body: CreateHoldoutBody,
        response: { 201: WireHoldout },
      },
    },
    async (request, reply) => {
      const change = holdoutChangeOf(request.body);
      const draft = { ...change, name: request.body.name, conditions: newConditionsOf(change) };
      const holdout = await holdouts.create(
        projectOf(request).id,
        draft,
        callerOf(request).user.id,
      );
      return reply.code(201).send(await wire(holdout));
    },
  );

  app.get(
    HOLDOUT,
    {
      ...access("experiment:read"),
      schema: { tags, summary: "Read a holdout", response: { 200: WireHoldout } },
    },
    async (request) => wire(await holdouts.holdout(projectOf(request).id, pathIdOf(request))),
  );

  app.patch(
    HOLDOUT,
    {
      ...access("experiment:write"),
      schema: {
        tags,
        summary: "Change a holdout, and the flags of its experiments with it",
        body: PatchHoldoutBody,
        response: { 200: WireHoldout },
      },
    },
    async (request) =>
      wire(
        await holdouts.update(
          projectOf(request).id,
          pathIdOf(request),
          holdoutChangeOf(request.body),
          callerOf(request).user.id,
        ),
      ),
  );

  app.put(
    HOLDOUT,
    {
      ...access("experiment:write"),
      schema: {
        tags,
        summary: "Change a holdout, naming it",
        body: CreateHoldoutBody,
        response: { 200: WireHoldout },
      },
    },
    async (request) =>
      wire(
        await holdouts.update(
          projectOf(request).id,
          pathIdOf(request),
          holdoutChangeOf(request.body),
          callerOf(request).user.id,
        ),
      ),
  );

  app.delete(
    HOLDOUT,
    {
      ...access("experiment:write"),
      schema: {
        tags,
        summary: "Delete a holdout; its experiments and their flags go on without it",
        response: { 204: Type.Null() },
      },
    },
    async (request, reply) => {
      await holdouts.remove(projectOf(request).id, pathIdOf(request), callerOf(request).user.id);
      return reply.code(204).send(null);
    },
  );
}

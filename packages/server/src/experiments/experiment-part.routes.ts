import type { FastifyRequest } from "fastify";
import { type TSchema, Type } from "typebox";
import type { AccountStore, Project, User } from "../accounts/account-store.ts";
import { usersById } from "../accounts/users-by-id.ts";
import { itemActivityRoutes } from "../activity/activity.routes.ts";
import type { ActivityLog, ActivityScope } from "../activity/activity-log.ts";
import type { App } from "../http/app.ts";
import { access, callerOf, projectOf } from "../http/management-api.ts";
import { ListOf, listAnswer, PageQuery, pageOf } from "../http/pagination.ts";
import { pathIdOf } from "../http/path-id.ts";
import type { ExperimentParts } from "./experiment-parts.ts";

/** What serves the records that experiments share. */
export interface ExperimentPartDeps<Part, Draft, Change> {
  readonly parts: ExperimentParts<Part, Draft, Change>;
  readonly activityLog: Pick<ActivityLog, "list">;
  readonly accounts: Pick<AccountStore, "user">;
}

/** How a kind of record that experiments share looks on the wire. */
export interface WirePart<Part, Draft, Change, Body> {
  readonly path: string;
  readonly scope: ActivityScope;
  /** Bodies by what a record has to have, and what is answered. */
  readonly schemas: { readonly create: TSchema; readonly patch: TSchema; readonly wire: TSchema };
  readonly summaries: Readonly<
    Record<"list" | "create" | "read" | "patch" | "put" | "remove", string>
  >;
  /** What a validated body changes. */
  changeOf(body: Body, project: Project): Change;
  /** What a validated body of a new record makes. */
  draftOf(body: Body & { readonly name: string }, project: Project): Draft;
  wire(part: Part, users: ReadonlyMap<number, User>): unknown;
}

/** List, create, read, change and delete the records of a kind that experiments share (posthog-api 5.14). */
export function experimentPartRoutes<
  Part extends { readonly createdById: number | null },
  Draft,
  Change,
  Body,
>(
  app: App,
  { parts, activityLog, accounts }: ExperimentPartDeps<Part, Draft, Change>,
  kind: WirePart<Part, Draft, Change, Body>,
): void {
  const { path, schemas, summaries } = kind;
  const tags = ["experiments"];
  itemActivityRoutes(app, {
    activityLog,
    accounts,
    path,
    tag: "experiments",
    scope: kind.scope,
    find: (projectId, id) => parts.part(projectId, id),
  });
  const wire = async (part: Part) => kind.wire(part, await usersById(accounts, [part.createdById]));

  app.get(
    path,
    {
      ...access("experiment:read"),
      schema: {
        tags,
        summary: summaries.list,
        querystring: Type.Object(PageQuery),
        response: { 200: ListOf(schemas.wire) },
      },
    },
    async (request) => {
      const page = pageOf(request);
      const { count, parts: found } = await parts.list(projectOf(request).id, page);
      const users = await usersById(
        accounts,
        found.map(({ createdById }) => createdById),
      );
      return listAnswer(request, page, { count, results: found.map((it) => kind.wire(it, users)) });
    },
  );

  app.post(
    path,
    {
      ...access("experiment:write"),
      schema: {
        tags,
        summary: summaries.create,
        body: schemas.create,
        response: { 201: schemas.wire },
      },
    },
    async (request, reply) => {
      const project = projectOf(request);
      // Validated by the schema of the same kind.
      const draft = kind.draftOf(request.body as Body & { readonly name: string }, project);
      const part = await parts.create(project.id, draft, callerOf(request).user.id);
      return reply.code(201).send(await wire(part));
    },
  );

  app.get(
    `${path}/:id`,
    {
      ...access("experiment:read"),
      schema: { tags, summary: summaries.read, response: { 200: schemas.wire } },
    },
    async (request) => wire(await parts.part(projectOf(request).id, pathIdOf(request))),
  );

  const find = (request: FastifyRequest) => parts.part(projectOf(request).id, pathIdOf(request));
  for (const method of ["PATCH", "PUT"] as const) {
    app.route({
      method,
      url: `${path}/:id`,
      ...access("experiment:write", "project", find),
      schema: {
        tags,
        summary: method === "PUT" ? summaries.put : summaries.patch,
        body: method === "PUT" ? schemas.create : schemas.patch,
        response: { 200: schemas.wire },
      },
      handler: async (request) => {
        const project = projectOf(request);
        const change = kind.changeOf(request.body as Body, project);
        const authorId = callerOf(request).user.id;
        return wire(await parts.update(project.id, pathIdOf(request), change, authorId));
      },
    });
  }

  app.delete(
    `${path}/:id`,
    {
      ...access("experiment:write"),
      schema: { tags, summary: summaries.remove, response: { 204: Type.Null() } },
    },
    async (request, reply) => {
      await parts.remove(projectOf(request).id, pathIdOf(request), callerOf(request).user.id);
      return reply.code(204).send(null);
    },
  );
}

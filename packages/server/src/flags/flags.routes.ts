import type { FastifyRequest } from "fastify";
import type { Static } from "typebox";
import type { AccountStore } from "../accounts/account-store.ts";
import { usersById } from "../accounts/users-by-id.ts";
import { itemActivityRoutes } from "../activity/activity.routes.ts";
import type { ActivityLog } from "../activity/activity-log.ts";
import type { App } from "../http/app.ts";
import { Refusal } from "../http/errors.ts";
import { access, callerOf, projectOf } from "../http/management-api.ts";
import { ListOf, listAnswer, pageOf } from "../http/pagination.ts";
import { pathIdOf, readId } from "../http/path-id.ts";
import { flagStatus } from "./flag-status.ts";
import type { FlagRecord } from "./flag-store.ts";
import {
  BulkDeleteBody,
  BulkDeleted,
  CreateFlagBody,
  DashboardAnswer,
  editBaseOf,
  Flag,
  FlagListParameters,
  FlagStatusAnswer,
  flagChangeOf,
  flagListQueryOf,
  PatchFlagBody,
  ReplaceFlagBody,
  wireFlag,
} from "./flags.schemas.ts";
import type { Flags } from "./flags.ts";

const FLAGS = "/api/projects/:project_id/feature_flags";
const FLAG = `${FLAGS}/:id`;
const tags = ["feature_flags"];

/** The wire forms of flags of one project, in order. */
export type TellFlags = (
  projectId: number,
  flags: readonly FlagRecord[],
) => Promise<Static<typeof Flag>[]>;

/** Tells flags with their authors and the experiments that use them. */
export function createTellFlags({
  accounts,
  experimentIdsOf,
  clock,
}: {
  accounts: Pick<AccountStore, "user">;
  /** Ids of the experiments that use flags, ascending. */
  experimentIdsOf: (
    projectId: number,
    flagIds: readonly number[],
  ) => Promise<ReadonlyMap<number, readonly number[]>>;
  clock: () => Date;
}): TellFlags {
  return async (projectId, flags) => {
    const users = await usersById(
      accounts,
      flags.flatMap((flag) => [flag.createdById, flag.lastModifiedById]),
    );
    const experimentIds = await experimentIdsOf(
      projectId,
      flags.map(({ id }) => id),
    );
    return flags.map((flag) =>
      wireFlag(flag, {
        usersById: users,
        experimentIds: experimentIds.get(flag.id) ?? [],
        now: clock(),
      }),
    );
  };
}

/** Management of flags (posthog-api 4). Deleting is `PATCH {"deleted": true}`. */
export function flagRoutes(
  app: App,
  {
    flags,
    tellFlags,
    activityLog,
    accounts,
    clock,
  }: {
    flags: Flags;
    tellFlags: TellFlags;
    activityLog: Pick<ActivityLog, "list">;
    accounts: Pick<AccountStore, "user">;
    clock: () => Date;
  },
): void {
  itemActivityRoutes(app, {
    activityLog,
    accounts,
    path: FLAGS,
    tag: "feature_flags",
    scope: "FeatureFlag",
    find: (projectId, id) => flags.flag(projectId, id),
  });
  const wire = async (flag: FlagRecord) => {
    const [answer] = await tellFlags(flag.projectId, [flag]);
    if (answer === undefined) throw new Error("a flag has an answer");
    return answer;
  };
  const update = (
    request: FastifyRequest,
    body: Parameters<typeof flagChangeOf>[0],
    keepsFiltersWithoutGroups: boolean,
  ) => {
    const base = editBaseOf(body);
    return flags.update(projectOf(request).id, pathIdOf(request), flagChangeOf(body), {
      authorId: callerOf(request).user.id,
      keepsFiltersWithoutGroups,
      ...(base && { base }),
    });
  };

  app.get(
    FLAGS,
    {
      ...access("feature_flag:read"),
      schema: {
        tags,
        summary: "List flags",
        querystring: FlagListParameters,
        response: { 200: ListOf(Flag) },
      },
    },
    async (request) => {
      const page = pageOf(request);
      const query = flagListQueryOf(request.query, page, clock());
      const { id: projectId } = projectOf(request);
      const { count, flags: found } = await flags.list(projectId, query);
      return listAnswer(request, page, { count, results: await tellFlags(projectId, found) });
    },
  );

  app.post(
    FLAGS,
    {
      ...access("feature_flag:write"),
      schema: {
        tags,
        summary: "Create a flag",
        body: CreateFlagBody,
        response: { 201: Flag },
      },
    },
    async (request, reply) => {
      const { key, creation_context } = request.body;
      const flag = await flags.create(
        projectOf(request).id,
        {
          ...flagChangeOf(request.body),
          key,
          ...(creation_context === undefined ? {} : { creationContext: creation_context }),
        },
        callerOf(request).user.id,
      );
      return reply.code(201).send(await wire(flag));
    },
  );

  app.get(
    FLAG,
    {
      ...access("feature_flag:read"),
      schema: { tags, summary: "Read a flag, a deleted one too", response: { 200: Flag } },
    },
    async (request) => wire(await flags.flag(projectOf(request).id, pathIdOf(request))),
  );

  app.get(
    `${FLAG}/status`,
    {
      ...access("feature_flag:read"),
      schema: {
        tags,
        summary: "Tell whether a flag is in use, stale, switched off or deleted",
        response: { 200: FlagStatusAnswer, 404: FlagStatusAnswer },
      },
    },
    async (request, reply) => {
      const id = readId((request.params as { id?: string }).id);
      const flag = id === undefined ? undefined : await flags.find(projectOf(request).id, id);
      const status = flag
        ? flagStatus(flag, clock())
        : ({ status: "UNKNOWN", reason: "Flag could not be found" } as const);
      return reply.code(flag === undefined || flag.deleted ? 404 : 200).send(status);
    },
  );

  for (const action of ["dashboard", "enrich_usage_dashboard"]) {
    app.post(
      `${FLAG}/${action}`,
      {
        ...access("feature_flag:write"),
        schema: {
          tags,
          summary: "Refused: there are no dashboards, the usage of a flag is told by `usage`",
          response: { 400: DashboardAnswer },
        },
      },
      async (request, reply) => {
        await flags.flag(projectOf(request).id, pathIdOf(request));
        const error = "There are no dashboards here. GET …/usage tells the calls of a flag.";
        return reply.code(400).send({ success: false, error });
      },
    );
  }

  app.patch(
    FLAG,
    {
      ...access("feature_flag:write"),
      schema: {
        tags,
        summary: "Change a flag, or delete or restore it by `deleted`",
        body: PatchFlagBody,
        response: { 200: Flag },
      },
    },
    async (request) => wire(await update(request, request.body, true)),
  );

  const find = (request: FastifyRequest) => flags.flag(projectOf(request).id, pathIdOf(request));
  app.put(
    FLAG,
    {
      ...access("feature_flag:write", "project", find),
      schema: {
        tags,
        summary: "Change a flag, naming its key",
        body: ReplaceFlagBody,
        response: { 200: Flag },
      },
    },
    async (request) => wire(await update(request, request.body, false)),
  );

  app.post(
    `${FLAGS}/bulk_delete`,
    {
      ...access("feature_flag:write"),
      schema: {
        tags,
        summary: "Delete several flags, as far as nothing needs them",
        body: BulkDeleteBody,
        response: { 200: BulkDeleted },
      },
    },
    async (request) => {
      const options = { authorId: callerOf(request).user.id, keepsFiltersWithoutGroups: true };
      const deleted: { id: number; key: string }[] = [];
      const errors: { id: number; reason: string }[] = [];
      for (const id of new Set(request.body.ids)) {
        try {
          const { id: projectId } = projectOf(request);
          if ((await flags.flag(projectId, id)).deleted)
            throw new Refusal("not_found", "Not found.");
          const { key } = await flags.update(projectId, id, { deleted: true }, options);
          deleted.push({ id, key });
        } catch (error) {
          if (!(error instanceof Refusal)) throw error;
          errors.push({ id, reason: error.message });
        }
      }
      return { deleted, errors };
    },
  );
}

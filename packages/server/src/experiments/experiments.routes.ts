import type { FastifyRequest } from "fastify";
import { type Static, type TObject, Type } from "typebox";
import type { AccountStore } from "../accounts/account-store.ts";
import { usersById } from "../accounts/users-by-id.ts";
import { itemActivityRoutes } from "../activity/activity.routes.ts";
import type { ActivityLog } from "../activity/activity-log.ts";
import { wireCohort } from "../cohorts/cohorts.schemas.ts";
import type { TellFlags } from "../flags/flags.routes.ts";
import { Flag, flagListQueryOf } from "../flags/flags.schemas.ts";
import type { App } from "../http/app.ts";
import { Refusal } from "../http/errors.ts";
import { access, callerOf, projectOf } from "../http/management-api.ts";
import { ListOf, listAnswer, PageQuery, pageOf } from "../http/pagination.ts";
import { pathIdOf } from "../http/path-id.ts";
import { presentFields } from "../http/present-fields.ts";
import { queryText } from "../http/query-text.ts";
import type { EligibleFlags } from "./eligible-flags.ts";
import type { ExperimentView } from "./experiment-view.ts";
import {
  authorsOf,
  CreateExperimentBody,
  DuplicateExperimentBody,
  EndExperimentBody,
  Experiment,
  ExperimentListParameters,
  ExposureCohortAnswer,
  endingOf,
  experimentChangeOf,
  experimentListQueryOf,
  PatchExperimentBody,
  ReplaceExperimentBody,
  ShipVariantBody,
  wireExperiment,
} from "./experiments.schemas.ts";
import type { Experiments } from "./experiments.ts";
import { exposureOf } from "./exposure.schemas.ts";

const EXPERIMENTS = "/api/projects/:project_id/experiments";
const EXPERIMENT = `${EXPERIMENTS}/:id`;
const tags = ["experiments"];
/** Flags to choose from in one answer (posthog-api 5.14). */
const USUAL_ELIGIBLE = 20;
const MAX_ELIGIBLE = 100;

/** Management of experiments (posthog-api 5). */
export function experimentRoutes(
  app: App,
  {
    experiments,
    eligibleFlags,
    tellFlags,
    activityLog,
    accounts,
    clock,
  }: {
    experiments: Experiments;
    eligibleFlags: EligibleFlags;
    tellFlags: TellFlags;
    activityLog: Pick<ActivityLog, "list">;
    accounts: Pick<AccountStore, "user">;
    clock: () => Date;
  },
): void {
  itemActivityRoutes(app, {
    activityLog,
    accounts,
    path: EXPERIMENTS,
    tag: "experiments",
    scope: "Experiment",
    find: (projectId, id) => experiments.experiment(projectId, id),
  });
  const wire = async (view: ExperimentView) =>
    wireExperiment(view, await usersById(accounts, authorsOf(view)));
  const changeOf = (request: FastifyRequest, body: Parameters<typeof experimentChangeOf>[0]) =>
    experimentChangeOf(body, { timeZone: projectOf(request).timeZone, now: clock() });

  app.get(
    EXPERIMENTS,
    {
      ...access("experiment:read"),
      schema: {
        tags,
        summary: "List experiments",
        querystring: ExperimentListParameters,
        response: { 200: ListOf(Experiment) },
      },
    },
    async (request) => {
      const page = pageOf(request);
      const query = experimentListQueryOf(request.query, page);
      const found = await experiments.list(projectOf(request).id, query);
      const users = await usersById(accounts, found.experiments.flatMap(authorsOf));
      const results = found.experiments.map((view) => wireExperiment(view, users));
      return listAnswer(request, page, { count: found.count, results });
    },
  );

  app.post(
    EXPERIMENTS,
    {
      ...access("experiment:write"),
      schema: {
        tags,
        summary: "Create an experiment on a flag with variants, or on a flag made for it",
        body: CreateExperimentBody,
        response: { 201: Experiment },
      },
    },
    async (request, reply) => {
      const { name, feature_flag_key } = request.body;
      const view = await experiments.create(
        projectOf(request).id,
        { ...changeOf(request, request.body), name, flagKey: feature_flag_key },
        callerOf(request).user.id,
      );
      return reply.code(201).send(await wire(view));
    },
  );

  app.get(
    `${EXPERIMENTS}/eligible_feature_flags`,
    {
      ...access("experiment:read"),
      schema: {
        tags,
        summary: "List flags that an experiment can run on",
        querystring: Type.Object({
          ...PageQuery,
          search: Type.Optional(Type.String({ description: "Part of the key or name." })),
          active: Type.Optional(Type.String({ description: "`true` or `false`." })),
          created_by_id: Type.Optional(Type.String({ description: "Id of the user who made it." })),
          evaluation_runtime: Type.Optional(Type.String({ description: "Where it is evaluated." })),
          order: Type.Optional(
            Type.String({ description: "A field to order by, `-` before it for descending." }),
          ),
        }),
        response: { 200: Type.Object({ results: Type.Array(Flag), count: Type.Integer() }) },
      },
    },
    async (request) => {
      const { limit, offset } = pageOf(request);
      const isLimited = queryText(request.query, "limit") !== undefined;
      const page = { limit: isLimited ? Math.min(limit, MAX_ELIGIBLE) : USUAL_ELIGIBLE, offset };
      const { count, flags } = await eligibleFlags(
        projectOf(request).id,
        flagListQueryOf(request.query, page, clock()),
      );
      return { results: await tellFlags(projectOf(request).id, flags), count };
    },
  );

  app.get(
    EXPERIMENT,
    {
      ...access("experiment:read"),
      schema: { tags, summary: "Read an experiment", response: { 200: Experiment } },
    },
    async (request) => wire(await experiments.experiment(projectOf(request).id, pathIdOf(request))),
  );

  app.post(
    `${EXPERIMENT}/create_exposure_cohort_for_experiment`,
    {
      ...access("experiment:write"),
      schema: {
        tags,
        summary: "Make the cohort of those who were exposed since the start",
        response: { 200: ExposureCohortAnswer },
      },
    },
    async (request) => {
      const { cohort, ...view } = await experiments.createExposureCohort(
        projectOf(request).id,
        pathIdOf(request),
        callerOf(request).user.id,
        (experiment) => exposureOf(experiment, projectOf(request).timeZone).marker,
      );
      const users = await usersById(accounts, [...authorsOf(view), cohort.createdById]);
      return { ...wireExperiment(view, users), cohort: wireCohort(cohort, users) };
    },
  );

  const update = async (
    request: FastifyRequest,
    body: Parameters<typeof experimentChangeOf>[0],
  ) => {
    const projectId = projectOf(request).id;
    const id = pathIdOf(request);
    const authorId = callerOf(request).user.id;
    const view = await experiments.experiment(projectId, id);
    if (body.feature_flag_key !== undefined && body.feature_flag_key !== view.flag.key)
      throw new Refusal("invalid_input", "Can't update keys: get_feature_flag_key on Experiment");
    if (body.deleted === true) {
      await experiments.remove(projectId, id, authorId);
      return wire({ ...view, experiment: { ...view.experiment, deleted: true } });
    }
    return wire(await experiments.update(projectId, id, changeOf(request, body), authorId));
  };

  app.patch(
    EXPERIMENT,
    {
      ...access("experiment:write"),
      schema: {
        tags,
        summary: "Change an experiment: a start date launches it, an end date ends it",
        body: PatchExperimentBody,
        response: { 200: Experiment },
      },
    },
    (request) => update(request, request.body),
  );

  const find = (request: FastifyRequest) =>
    experiments.experiment(projectOf(request).id, pathIdOf(request));
  app.put(
    EXPERIMENT,
    {
      ...access("experiment:write", "project", find),
      schema: {
        tags,
        summary: "Change an experiment, naming it and its flag",
        body: ReplaceExperimentBody,
        response: { 200: Experiment },
      },
    },
    (request) => update(request, request.body),
  );

  app.delete(
    EXPERIMENT,
    {
      ...access("experiment:write"),
      schema: {
        tags,
        summary: "Delete an experiment; its flag stays",
        response: { 204: Type.Null() },
      },
    },
    async (request, reply) => {
      await experiments.remove(projectOf(request).id, pathIdOf(request), callerOf(request).user.id);
      return reply.code(204).send(null);
    },
  );

  app.post(
    `${EXPERIMENT}/duplicate`,
    {
      ...access("experiment:write"),
      schema: {
        tags,
        summary: "Make a draft like an experiment, on the same flag or on another one",
        body: DuplicateExperimentBody,
        response: { 201: Experiment },
      },
    },
    async (request, reply) => {
      const copy = await experiments.duplicate(
        projectOf(request).id,
        pathIdOf(request),
        presentFields({ name: request.body.name, flagKey: request.body.feature_flag_key }),
        callerOf(request).user.id,
      );
      return reply.code(201).send(await wire(copy));
    },
  );

  const action = <Body extends TObject>(
    name: string,
    summary: string,
    body: Body | undefined,
    run: (
      projectId: number,
      id: number,
      authorId: number,
      sent: unknown,
    ) => Promise<ExperimentView>,
  ): void => {
    app.post(
      `${EXPERIMENT}/${name}`,
      {
        ...access("experiment:write", "project", find),
        schema: { tags, summary, ...(body && { body }), response: { 200: Experiment } },
      },
      async (request) =>
        wire(
          await run(
            projectOf(request).id,
            pathIdOf(request),
            callerOf(request).user.id,
            request.body,
          ),
        ),
    );
  };
  action("launch", "Start a draft and switch its flag on", undefined, experiments.launch);
  action("pause", "Switch the flag of a running experiment off", undefined, experiments.pause);
  action("resume", "Switch the flag of a paused experiment on", undefined, experiments.resume);
  action(
    "end",
    "End a running experiment; its flag goes on serving",
    EndExperimentBody,
    (projectId, id, authorId, sent) =>
      experiments.end(projectId, id, endingOf((sent ?? {}) as object), authorId),
  );
  action(
    "ship_variant",
    "Give everyone one variant, and end the experiment",
    ShipVariantBody,
    (projectId, id, authorId, sent) => {
      const body = sent as Static<typeof ShipVariantBody>;
      return experiments.shipVariant(projectId, id, body.variant_key, endingOf(body), authorId);
    },
  );
  action("archive", "Put an ended experiment away", undefined, (projectId, id, authorId) =>
    experiments.archive(projectId, id, true, authorId),
  );
  action(
    "unarchive",
    "Take an experiment out of the archive",
    undefined,
    (projectId, id, authorId) => experiments.archive(projectId, id, false, authorId),
  );
}

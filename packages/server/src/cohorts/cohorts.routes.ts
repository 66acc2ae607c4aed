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
import { pathIdOf } from "../http/path-id.ts";
import type { CohortRecord } from "./cohort-store.ts";
import {
  AddPersonsAnswer,
  AddPersonsBody,
  Cohort,
  CohortListParameters,
  CreateCohortBody,
  CreatedCohort,
  cohortChangeOf,
  cohortListQueryOf,
  namedPersonsOf,
  PatchCohortBody,
  RemovePersonAnswer,
  RemovePersonBody,
  wireCohort,
  wireUnknownNames,
} from "./cohorts.schemas.ts";
import type { Cohorts } from "./cohorts.ts";

const COHORTS = "/api/projects/:project_id/cohorts";
const COHORT = `${COHORTS}/:id`;
const tags = ["cohorts"];

/** Management of cohorts, and of the members of static ones. */
export function cohortRoutes(
  app: App,
  {
    cohorts,
    activityLog,
    accounts,
  }: {
    cohorts: Cohorts;
    activityLog: Pick<ActivityLog, "list">;
    accounts: Pick<AccountStore, "user">;
  },
): void {
  itemActivityRoutes(app, {
    activityLog,
    accounts,
    path: COHORTS,
    tag: "cohorts",
    scope: "Cohort",
    find: (projectId, id) => cohorts.cohort(projectId, id),
  });
  const wire = async (cohort: CohortRecord) =>
    wireCohort(cohort, await usersById(accounts, [cohort.createdById]));

  app.get(
    COHORTS,
    {
      ...access("cohort:read"),
      schema: {
        tags,
        summary: "List cohorts",
        querystring: CohortListParameters,
        response: { 200: ListOf(Cohort) },
      },
    },
    async (request) => {
      const page = pageOf(request);
      const query = cohortListQueryOf(request.query, page);
      const { count, cohorts: found } = await cohorts.list(projectOf(request).id, query);
      const users = await usersById(
        accounts,
        found.map(({ createdById }) => createdById),
      );
      const results = found.map((cohort) => wireCohort(cohort, users));
      return listAnswer(request, page, { count, results });
    },
  );

  app.post(
    COHORTS,
    {
      ...access("cohort:write"),
      schema: {
        tags,
        summary: "Create a cohort: static with its members, or dynamic by filters",
        body: CreateCohortBody,
        response: { 201: CreatedCohort },
      },
    },
    async (request, reply) => {
      const { body } = request;
      const members = namedPersonsOf(
        { attr: "_create_static_person_ids", sent: body._create_static_person_ids },
        { attr: "distinct_ids", sent: body.distinct_ids },
      );
      const { cohort, unknown } = await cohorts.create(
        projectOf(request).id,
        { ...cohortChangeOf(body), members },
        callerOf(request).user.id,
      );
      return reply.code(201).send({ ...(await wire(cohort)), ...wireUnknownNames(unknown) });
    },
  );

  app.get(
    COHORT,
    {
      ...access("cohort:read"),
      schema: { tags, summary: "Read a cohort, a deleted one too", response: { 200: Cohort } },
    },
    async (request) => wire(await cohorts.cohort(projectOf(request).id, pathIdOf(request))),
  );

  const update = async (request: FastifyRequest, body: Static<typeof PatchCohortBody>) =>
    wire(
      await cohorts.update(
        projectOf(request).id,
        pathIdOf(request),
        cohortChangeOf(body),
        callerOf(request).user.id,
      ),
    );
  for (const method of ["PATCH", "PUT"] as const) {
    app.route({
      method,
      url: COHORT,
      ...access("cohort:write"),
      schema: {
        tags,
        summary: "Change a cohort, or delete or restore it by `deleted`",
        body: PatchCohortBody,
        response: { 200: Cohort },
      },
      handler: (request) => update(request, request.body as Static<typeof PatchCohortBody>),
    });
  }

  app.delete(
    COHORT,
    {
      ...access("cohort:write"),
      schema: { tags, summary: "Delete a cohort that nothing uses" },
    },
    async (request, reply) => {
      const cohort = await cohorts.cohort(projectOf(request).id, pathIdOf(request));
      if (cohort.deleted) throw new Refusal("not_found", "Not found.");
      await update(request, { deleted: true });
      return reply.code(204).send();
    },
  );

  app.patch(
    `${COHORT}/add_persons_to_static_cohort`,
    {
      ...access("cohort:write"),
      schema: {
        tags,
        summary: "Add persons to a static cohort",
        body: AddPersonsBody,
        response: { 200: AddPersonsAnswer },
      },
    },
    async (request) => {
      const { person_ids, distinct_ids } = request.body;
      const persons = namedPersonsOf(
        { attr: "person_ids", sent: person_ids },
        { attr: "distinct_ids", sent: distinct_ids },
      );
      if (person_ids === undefined && distinct_ids === undefined) {
        throw new Refusal("required", "This field is required.", { attr: "person_ids" });
      }
      if (persons.uuids.length + persons.distinctIds.length === 0) {
        throw new Refusal("invalid_input", "person_ids cannot be empty", { attr: "person_ids" });
      }
      const { changed, unknown } = await cohorts.addMembers(
        projectOf(request).id,
        pathIdOf(request),
        persons,
      );
      return { success: true, added: changed, ...wireUnknownNames(unknown) };
    },
  );

  app.patch(
    `${COHORT}/remove_person_from_static_cohort`,
    {
      ...access("cohort:write"),
      schema: {
        tags,
        summary: "Remove a person from a static cohort",
        body: RemovePersonBody,
        response: { 200: RemovePersonAnswer },
      },
    },
    async (request) => {
      const { person_id, distinct_id } = request.body;
      if (person_id === undefined && distinct_id === undefined) {
        throw new Refusal("required", "This field is required.", { attr: "person_id" });
      }
      const person = namedPersonsOf(
        { attr: "person_id", sent: person_id === undefined ? undefined : [person_id] },
        { attr: "distinct_id", sent: distinct_id === undefined ? undefined : [distinct_id] },
      );
      await cohorts.removeMember(projectOf(request).id, pathIdOf(request), person);
      return { success: true };
    },
  );
}

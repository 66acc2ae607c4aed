import type { FastifyRequest } from "fastify";
import type { Static } from "typebox";
import type { AccountStore } from "../accounts/account-store.ts";
import { usersById } from "../accounts/users-by-id.ts";
import { itemActivityRoutes } from "../activity/activity.routes.ts";
import type { ActivityLog } from "../activity/activity-log.ts";
import type { App } from "../http/app.ts";
import { Refusal } from "../http/errors.ts";
import { access, callerOf, projectOf, takesFile, takesForms } from "../http/management-api.ts";
import {
  cursorListAnswer,
  cursorOf,
  ListOf,
  listAnswer,
  OpenListOf,
  pageOf,
  writeCursor,
} from "../http/pagination.ts";
import { pathIdOf } from "../http/path-id.ts";
import { WirePerson, wirePerson } from "../persons/persons.schemas.ts";
import type { CohortRecord } from "./cohort-store.ts";
import {
  AddPersonsAnswer,
  AddPersonsBody,
  bodyOfCohortForm,
  ChangedCohort,
  Cohort,
  CohortListParameters,
  CohortPersonsParameters,
  CreateCohortBody,
  CreatedCohort,
  cohortChangeOf,
  cohortListQueryOf,
  DeleteCohortParameters,
  isForced,
  namedPersonsOf,
  PatchCohortBody,
  RemovePersonAnswer,
  RemovePersonBody,
  wireCohort,
  wireUnknownNames,
} from "./cohorts.schemas.ts";
import type { Cohorts, UpdateOptions } from "./cohorts.ts";
import {
  createMemberFileReader,
  type MemberFile,
  type MemberFileReader,
  readMemberFile,
} from "./upload-members.ts";

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
  const find = (request: FastifyRequest) =>
    cohorts.cohort(projectOf(request).id, pathIdOf(request));
  // Files are read while they arrive: what came of them waits for the rest of their form.
  const files = new WeakMap<FastifyRequest, MemberFileReader>();
  const takesCsv = takesFile("csv", (request) => {
    const reader = createMemberFileReader();
    files.set(request, reader);
    return reader.push;
  });
  const hasFile = (request: FastifyRequest, csv: string | undefined) =>
    csv !== undefined || files.has(request);
  const fileOf = async (
    request: FastifyRequest,
    csv: string | undefined,
  ): Promise<MemberFile | undefined> => {
    const streamed = files.get(request);
    if (streamed) return await streamed.end();
    return csv === undefined ? undefined : await readMemberFile(csv);
  };
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
      config: { ...access("cohort:write").config, ...takesForms(bodyOfCohortForm), ...takesCsv },
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
      const projectId = projectOf(request).id;
      if (hasFile(request, body.csv) && body.is_static !== true) {
        throw new Refusal("invalid_input", "Only static cohorts have members of their own.", {
          attr: "is_static",
        });
      }
      const file = await fileOf(request, body.csv);
      const { cohort, unknown } = await cohorts.create(
        projectId,
        { ...cohortChangeOf(body), members },
        callerOf(request).user.id,
      );
      if (file === undefined) {
        return reply.code(201).send({ ...(await wire(cohort)), ...wireUnknownNames(unknown) });
      }
      const upload = await cohorts.uploadMembers(projectId, cohort.id, file);
      const names = {
        uuids: [...unknown.uuids, ...upload.unknown.uuids],
        distinctIds: [...unknown.distinctIds, ...upload.unknown.distinctIds],
      };
      const before = unknown.uuids.length + unknown.distinctIds.length;
      return reply.code(201).send({
        ...(await wire(await cohorts.cohort(projectId, cohort.id))),
        ...wireUnknownNames(names, before + upload.unknownCount),
      });
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

  const update = (
    request: FastifyRequest,
    body: Static<typeof PatchCohortBody>,
    options: UpdateOptions,
  ) =>
    cohorts.update(
      projectOf(request).id,
      pathIdOf(request),
      cohortChangeOf(body),
      callerOf(request).user.id,
      options,
    );
  for (const method of ["PATCH", "PUT"] as const) {
    app.route({
      method,
      url: COHORT,
      config: { ...access("cohort:write").config, ...takesForms(bodyOfCohortForm), ...takesCsv },
      schema: {
        tags,
        summary: "Change a cohort, delete or restore it by `deleted`, add members by `csv`",
        body: PatchCohortBody,
        response: { 200: ChangedCohort },
      },
      handler: async (request) => {
        const body = request.body as Static<typeof PatchCohortBody>;
        const file = await fileOf(request, body.csv);
        const changed = await update(request, body, { addsMembers: file !== undefined });
        if (file === undefined) return wire(changed);
        const upload = await cohorts.uploadMembers(changed.projectId, changed.id, file);
        return {
          ...(await wire(await cohorts.cohort(changed.projectId, changed.id))),
          ...wireUnknownNames(upload.unknown, upload.unknownCount),
        };
      },
    });
  }

  app.delete(
    COHORT,
    {
      ...access("cohort:write"),
      schema: {
        tags,
        summary: "Delete a cohort that nothing uses",
        querystring: DeleteCohortParameters,
      },
    },
    async (request, reply) => {
      const cohort = await cohorts.cohort(projectOf(request).id, pathIdOf(request));
      if (cohort.deleted) throw new Refusal("not_found", "Not found.");
      await update(request, { deleted: true }, { isForced: isForced(request.query) });
      return reply.code(204).send();
    },
  );

  app.get(
    `${COHORT}/persons`,
    {
      ...access("cohort:read"),
      schema: {
        tags,
        summary: "List the persons of a cohort",
        querystring: CohortPersonsParameters,
        response: { 200: OpenListOf(WirePerson) },
      },
    },
    async (request) => {
      const page = pageOf(request);
      const { id } = projectOf(request);
      const place = cursorOf(request);
      const { cohort, persons, next } = await cohorts.persons(
        id,
        pathIdOf(request),
        place
          ? { ...page, offset: 0, after: { createdAtMs: place[0], id: Number(place[1]) } }
          : page,
      );
      return cursorListAnswer(request, page, {
        count: cohort.memberCount,
        cursor: next && writeCursor([next.createdAtMs, next.id]),
        results: persons.map(wirePerson),
      });
    },
  );

  for (const method of ["GET", "POST"] as const) {
    app.route({
      method,
      url: `${COHORT}/duplicate_as_static_cohort`,
      ...access("cohort:write"),
      schema: {
        tags,
        summary: "Make a static cohort of those who are in a cohort now",
        response: { 200: Cohort },
      },
      handler: async (request) => {
        const authorId = callerOf(request).user.id;
        const { id } = projectOf(request);
        return wire(await cohorts.duplicateAsStatic(id, pathIdOf(request), authorId));
      },
    });
  }

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
      await find(request);
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
      await find(request);
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

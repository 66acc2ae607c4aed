import type { JsonObject } from "@hedgerow/core/json";
import type { FastifyRequest } from "fastify";
import { Type } from "typebox";
import type { AccountStore } from "../accounts/account-store.ts";
import { grants } from "../accounts/scopes.ts";
import { usersById } from "../accounts/users-by-id.ts";
import { answerActivityPage } from "../activity/activity.routes.ts";
import { ActivityPage, ActivityPageParameters } from "../activity/activity.schemas.ts";
import type { ActivityLog } from "../activity/activity-log.ts";
import type { CohortStore } from "../cohorts/cohort-store.ts";
import { Cohort, wireCohort } from "../cohorts/cohorts.schemas.ts";
import type { App } from "../http/app.ts";
import { Refusal } from "../http/errors.ts";
import { access, callerOf, projectOf } from "../http/management-api.ts";
import { cursorListAnswer, cursorOf, OpenListOf, pageOf, writeCursor } from "../http/pagination.ts";
import { queryText } from "../http/query-text.ts";
import {
  BulkDeleteAnswer,
  BulkDeleteBody,
  CountedNames,
  CountedValues,
  countsAll,
  DeletePropertyBody,
  deletedNamesOf,
  PersonListParameters,
  personNameOf,
  personSelectionOf,
  SplitBody,
  Success,
  setPropertyOf,
  switchOf,
  UpdatePersonBody,
  UpdatePropertyBody,
  ValueParameters,
  WirePerson,
  wirePerson,
  wireValues,
} from "./persons.schemas.ts";
import type { Persons } from "./persons.ts";

const PERSONS = "/api/projects/:project_id/persons";
const PERSON = `${PERSONS}/:id`;
const tags = ["persons"];

/** Persons: looking at them, and changing, splitting and deleting them by hand. */
export function personRoutes(
  app: App,
  {
    persons,
    cohortStore,
    activityLog,
    accounts,
  }: {
    persons: Persons;
    cohortStore: Pick<CohortStore, "cohort">;
    activityLog: Pick<ActivityLog, "list">;
    accounts: Pick<AccountStore, "user">;
  },
): void {
  const nameOf = (request: FastifyRequest) =>
    personNameOf((request.params as { id?: string }).id ?? "");
  const authorOf = (request: FastifyRequest) => callerOf(request).user.id;

  app.get(
    PERSONS,
    {
      ...access("person:read"),
      schema: {
        tags,
        summary: "List persons, newest first",
        querystring: PersonListParameters,
        response: { 200: OpenListOf(WirePerson) },
      },
    },
    async (request) => {
      const page = pageOf(request);
      const project = projectOf(request);
      const selection = personSelectionOf(request.query, project.timeZone);
      const place = cursorOf(request);
      const {
        count,
        persons: found,
        next,
      } = await persons.find(project, selection, {
        ...page,
        ...(place && { after: { createdAtMs: place[0], id: Number(place[1]) } }),
        countAll: countsAll(request.query),
      });
      return cursorListAnswer(request, page, {
        count,
        cursor: next && writeCursor([next.createdAtMs, next.id]),
        results: found.map(wirePerson),
      });
    },
  );

  app.get(
    `${PERSONS}/values`,
    {
      ...access("person:read"),
      schema: {
        tags,
        summary: "List the values that most persons have of a property",
        querystring: ValueParameters,
        response: { 200: CountedValues },
      },
    },
    async (request) => {
      const key = queryText(request.query, "key");
      if (!key) return [];
      const part = queryText(request.query, "value") || undefined;
      return wireValues(await persons.values(projectOf(request).id, key, part));
    },
  );

  app.get(
    `${PERSONS}/properties`,
    {
      ...access("person:read"),
      schema: {
        tags,
        summary: "List the properties that persons have",
        response: { 200: CountedNames },
      },
    },
    async (request) => [...(await persons.propertyNames(projectOf(request).id))],
  );

  app.get(
    `${PERSONS}/cohorts`,
    {
      ...access("person:read"),
      schema: {
        tags,
        summary: "List the cohorts that a person is in",
        description: "Takes `cohort:read` as well.",
        querystring: Type.Object({
          person_id: Type.Optional(Type.String({ description: "Number or uuid of the person." })),
        }),
        response: { 200: Type.Object({ results: Type.Array(Cohort) }) },
      },
    },
    async (request) => {
      if (!grants(callerOf(request).key.scopes, "cohort:read")) {
        const detail = "API key missing required scope 'cohort:read'";
        throw new Refusal("permission_denied", detail);
      }
      const named = queryText(request.query, "person_id");
      if (!named) throw new Refusal("required", "This field is required.", { attr: "person_id" });
      const projectId = projectOf(request).id;
      const ids = await persons.cohortIds(projectId, personNameOf(named, "person_id"));
      const records = await Promise.all(ids.map((id) => cohortStore.cohort(projectId, id)));
      const found = records.filter((record) => record !== undefined);
      const users = await usersById(
        accounts,
        found.map(({ createdById }) => createdById),
      );
      return { results: found.map((one) => wireCohort(one, users)) };
    },
  );

  app.get(
    `${PERSONS}/activity`,
    {
      ...access("activity_log:read"),
      schema: {
        tags,
        summary: "List what was changed of all persons by hand, newest first",
        querystring: Type.Object(ActivityPageParameters),
        response: { 200: ActivityPage },
      },
    },
    (request) =>
      answerActivityPage(
        request,
        { activityLog, accounts },
        { scope: "Person", itemId: null, authorId: null },
      ),
  );

  app.get(
    `${PERSON}/activity`,
    {
      ...access("activity_log:read"),
      schema: {
        tags,
        summary: "List what was changed of a person by hand, newest first",
        querystring: Type.Object(ActivityPageParameters),
        response: { 200: ActivityPage },
      },
    },
    async (request) => {
      const { id } = await persons.person(projectOf(request).id, nameOf(request));
      return answerActivityPage(
        request,
        { activityLog, accounts },
        { scope: "Person", itemId: String(id), authorId: null },
      );
    },
  );

  app.post(
    `${PERSONS}/bulk_delete`,
    {
      ...access("person:write"),
      schema: {
        tags,
        summary: "Delete persons, with or without their events",
        body: BulkDeleteBody,
        response: { 202: BulkDeleteAnswer },
      },
    },
    async (request, reply) => {
      const { delete_events = false, keep_person = false } = request.body;
      const found = await persons.delete(projectOf(request).id, deletedNamesOf(request.body), {
        events: delete_events,
        keepPersons: keep_person,
        authorId: authorOf(request),
      });
      return reply.code(202).send({
        persons_found: found,
        persons_deleted: keep_person ? 0 : found,
        events_queued_for_deletion: delete_events && found > 0,
        recordings_queued_for_deletion: false,
        deletion_errors: [],
      });
    },
  );

  app.get(
    PERSON,
    {
      ...access("person:read"),
      schema: { tags, summary: "Read a person, by number or uuid", response: { 200: WirePerson } },
    },
    async (request) => wirePerson(await persons.person(projectOf(request).id, nameOf(request))),
  );

  const find = (request: FastifyRequest) => persons.person(projectOf(request).id, nameOf(request));
  const change = (
    request: FastifyRequest,
    changes: { set?: JsonObject; unset?: readonly string[] },
  ) =>
    persons.changeProperties(
      projectOf(request).id,
      nameOf(request),
      { set: changes.set ?? {}, unset: changes.unset ?? [] },
      authorOf(request),
    );

  for (const method of ["PATCH", "PUT"] as const) {
    app.route({
      method,
      url: PERSON,
      ...access("person:write", "project", find),
      schema: {
        tags,
        summary: "Set properties of a person; those that are not named stay",
        body: UpdatePersonBody,
        response: { 202: WirePerson },
      },
      handler: async (request, reply) => {
        // Parsed from JSON, so its values are JSON.
        const { properties } = request.body as { properties: JsonObject };
        return reply.code(202).send(wirePerson(await change(request, { set: properties })));
      },
    });
  }

  app.post(
    `${PERSON}/update_property`,
    {
      ...access("person:write", "project", find),
      schema: {
        tags,
        summary: "Set a property of a person",
        body: UpdatePropertyBody,
        response: { 202: WirePerson },
      },
    },
    async (request, reply) =>
      reply.code(202).send(wirePerson(await change(request, { set: setPropertyOf(request.body) }))),
  );

  app.post(
    `${PERSON}/delete_property`,
    {
      ...access("person:write", "project", find),
      schema: {
        tags,
        summary: "Remove a property of a person",
        body: DeletePropertyBody,
        response: { 201: Success },
      },
    },
    async (request, reply) => {
      await change(request, { unset: [request.body.$unset] });
      return reply.code(201).send({ success: true });
    },
  );

  app.post(
    `${PERSON}/split`,
    {
      ...access("person:write"),
      schema: {
        tags,
        summary: "Make a person of each distinct id of a person but one",
        body: SplitBody,
        response: { 201: Success },
      },
    },
    async (request, reply) => {
      await persons.split(projectOf(request).id, nameOf(request), {
        mainDistinctId: request.body.main_distinct_id ?? null,
        authorId: authorOf(request),
      });
      return reply.code(201).send({ success: true });
    },
  );

  app.delete(
    PERSON,
    {
      ...access("person:write"),
      schema: {
        tags,
        summary: "Delete a person, with `delete_events` together with their events",
        querystring: Type.Object({
          delete_events: Type.Optional(
            Type.String({ description: "Deletes the events of the person as well." }),
          ),
          keep_person: Type.Optional(
            Type.String({ description: "Deletes only the events of the person." }),
          ),
        }),
      },
    },
    async (request, reply) => {
      const projectId = projectOf(request).id;
      const { uuid } = await persons.person(projectId, nameOf(request));
      await persons.delete(
        projectId,
        { uuids: [uuid] },
        {
          events: switchOf(request.query, "delete_events"),
          keepPersons: switchOf(request.query, "keep_person"),
          authorId: authorOf(request),
        },
      );
      return reply.code(202).send();
    },
  );
}

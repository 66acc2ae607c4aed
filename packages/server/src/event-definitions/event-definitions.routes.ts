import type { FastifyRequest } from "fastify";
import type { Static } from "typebox";
import type { AccountStore } from "../accounts/account-store.ts";
import { usersById } from "../accounts/users-by-id.ts";
import type { App } from "../http/app.ts";
import { access, callerOf, projectOf } from "../http/management-api.ts";
import { ListOf, listAnswer, pageOf } from "../http/pagination.ts";
import { pathDefinitionIdOf } from "./definitions.schemas.ts";
import type { EventDefinition } from "./event-definition-store.ts";
import {
  BulkDeleteAnswer,
  BulkDeleteBody,
  BulkPatchAnswer,
  BulkPatchBody,
  ByNameParameters,
  bulkIdsOf,
  CreateEventDefinitionBody,
  EventDefinitionParameters,
  EventMetrics,
  EventUsesAnswer,
  eventDefinitionChangeOf,
  eventDefinitionQueryOf,
  nameOf,
  PatchEventDefinitionBody,
  usersOf,
  WireEventDefinition,
  wireEventDefinition,
  wireEventUses,
} from "./event-definitions.schemas.ts";
import type { EventDefinitions } from "./event-definitions.ts";

const DEFINITIONS = "/api/projects/:project_id/event_definitions";
const DEFINITION = `${DEFINITIONS}/:id`;
const tags = ["event definitions"];

/** Management of event definitions: those that events made, and those declared before them. */
export function eventDefinitionRoutes(
  app: App,
  {
    definitions,
    accounts,
  }: { definitions: EventDefinitions; accounts: Pick<AccountStore, "user"> },
): void {
  const wireAll = async (found: readonly EventDefinition[]) => {
    const users = await usersById(accounts, found.flatMap(usersOf));
    return found.map((definition) => wireEventDefinition(definition, users));
  };
  const wire = async (definition: EventDefinition) =>
    wireEventDefinition(definition, await usersById(accounts, usersOf(definition)));

  app.get(
    DEFINITIONS,
    {
      ...access("event_definition:read"),
      schema: {
        tags,
        summary: "List event definitions",
        querystring: EventDefinitionParameters,
        response: { 200: ListOf(WireEventDefinition) },
      },
    },
    async (request) => {
      const page = pageOf(request);
      const query = eventDefinitionQueryOf(request.query, page);
      const { count, definitions: found } = await definitions.list(projectOf(request).id, query);
      return listAnswer(request, page, { count, results: await wireAll(found) });
    },
  );

  app.post(
    DEFINITIONS,
    {
      ...access("event_definition:write"),
      schema: {
        tags,
        summary: "Declare an event before it comes",
        body: CreateEventDefinitionBody,
        response: { 201: WireEventDefinition },
      },
    },
    async (request, reply) => {
      const declared = await definitions.declare(
        projectOf(request),
        { name: request.body.name, change: eventDefinitionChangeOf(request.body) },
        callerOf(request).user.id,
      );
      return reply.code(201).send(await wire(declared));
    },
  );

  app.patch(
    DEFINITIONS,
    {
      ...access("event_definition:write"),
      schema: {
        tags,
        summary: "Change several event definitions in the same way",
        body: BulkPatchBody,
        response: { 200: BulkPatchAnswer },
      },
    },
    async (request) => {
      const changed = await definitions.updateAll(
        projectOf(request),
        bulkIdsOf(request.body.ids),
        eventDefinitionChangeOf(request.body),
        callerOf(request).user.id,
      );
      return { results: await wireAll(changed) };
    },
  );

  app.delete(
    DEFINITIONS,
    {
      ...access("event_definition:write"),
      schema: {
        tags,
        summary: "Delete several event definitions",
        body: BulkDeleteBody,
        response: { 200: BulkDeleteAnswer },
      },
    },
    async (request) => {
      const ids = bulkIdsOf(request.body.ids);
      await definitions.deleteAll(projectOf(request).id, ids, callerOf(request).user.id);
      return { deleted: ids.length };
    },
  );

  app.get(
    `${DEFINITIONS}/by_name`,
    {
      ...access("event_definition:read"),
      schema: {
        tags,
        summary: "Read an event definition by the event's name",
        querystring: ByNameParameters,
        response: { 200: WireEventDefinition },
      },
    },
    async (request) =>
      wire(await definitions.definitionByName(projectOf(request).id, nameOf(request.query))),
  );

  app.get(
    DEFINITION,
    {
      ...access("event_definition:read"),
      schema: { tags, summary: "Read an event definition", response: { 200: WireEventDefinition } },
    },
    async (request) =>
      wire(await definitions.definition(projectOf(request).id, pathDefinitionIdOf(request.params))),
  );

  const update = async (request: FastifyRequest, body: Static<typeof PatchEventDefinitionBody>) =>
    wire(
      await definitions.update(
        projectOf(request),
        pathDefinitionIdOf(request.params),
        eventDefinitionChangeOf(body),
        callerOf(request).user.id,
      ),
    );
  for (const method of ["PATCH", "PUT"] as const) {
    app.route({
      method,
      url: DEFINITION,
      ...access("event_definition:write"),
      schema: {
        tags,
        summary: "Change an event definition; its name stays",
        body: PatchEventDefinitionBody,
        response: { 200: WireEventDefinition },
      },
      handler: (request) =>
        update(request, request.body as Static<typeof PatchEventDefinitionBody>),
    });
  }

  app.delete(
    DEFINITION,
    {
      ...access("event_definition:write"),
      schema: { tags, summary: "Delete an event definition; the next event makes it anew" },
    },
    async (request, reply) => {
      const id = pathDefinitionIdOf(request.params);
      await definitions.delete(projectOf(request).id, id, callerOf(request).user.id);
      return reply.code(204).send();
    },
  );

  app.get(
    `${DEFINITION}/metrics`,
    {
      ...access("event_definition:read"),
      schema: { tags, summary: "Count recent events", response: { 200: EventMetrics } },
    },
    async (request) => ({
      query_usage_30_day: 0,
      volume_30_day: await definitions.recentCount(
        projectOf(request).id,
        pathDefinitionIdOf(request.params),
      ),
    }),
  );

  app.get(
    `${DEFINITION}/used_by`,
    {
      ...access("event_definition:read"),
      schema: {
        tags,
        summary: "List cohorts and flags that look at the event",
        response: { 200: EventUsesAnswer },
      },
    },
    async (request) =>
      wireEventUses(
        await definitions.uses(projectOf(request).id, pathDefinitionIdOf(request.params)),
      ),
  );
}

import type { AccountStore } from "../accounts/account-store.ts";
import { usersById } from "../accounts/users-by-id.ts";
import type { App } from "../http/app.ts";
import { access, callerOf, projectOf } from "../http/management-api.ts";
import { ListOf, listAnswer, pageOf } from "../http/pagination.ts";
import { pathDefinitionIdOf } from "./definitions.schemas.ts";
import type { PropertyDefinition } from "./property-definition-store.ts";
import {
  PatchPropertyDefinitionBody,
  PropertyDefinitionParameters,
  propertyDefinitionChangeOf,
  propertyDefinitionQueryOf,
  SeenTogetherAnswer,
  SeenTogetherParameters,
  seenTogetherOf,
  usersOf,
  WirePropertyDefinition,
  wirePropertyDefinition,
} from "./property-definitions.schemas.ts";
import type { PropertyDefinitions } from "./property-definitions.ts";

const DEFINITIONS = "/api/projects/:project_id/property_definitions";
const DEFINITION = `${DEFINITIONS}/:id`;
const tags = ["property definitions"];

/** Management of the definitions of properties of events, persons and groups. */
export function propertyDefinitionRoutes(
  app: App,
  {
    definitions,
    accounts,
  }: { definitions: PropertyDefinitions; accounts: Pick<AccountStore, "user"> },
): void {
  const wire = async (definition: PropertyDefinition) =>
    wirePropertyDefinition(
      { definition, isSeenOnEvents: null },
      await usersById(accounts, usersOf(definition)),
    );

  app.get(
    DEFINITIONS,
    {
      ...access("property_definition:read"),
      schema: {
        tags,
        summary: "List property definitions",
        querystring: PropertyDefinitionParameters,
        response: { 200: ListOf(WirePropertyDefinition) },
      },
    },
    async (request) => {
      const page = pageOf(request);
      const query = propertyDefinitionQueryOf(request.query, page);
      const { count, properties } = query
        ? await definitions.list(projectOf(request).id, query)
        : { count: 0, properties: [] };
      const users = await usersById(
        accounts,
        properties.flatMap(({ definition }) => usersOf(definition)),
      );
      const results = properties.map((listed) => wirePropertyDefinition(listed, users));
      return listAnswer(request, page, { count, results });
    },
  );

  app.get(
    `${DEFINITIONS}/seen_together`,
    {
      ...access("property_definition:read"),
      schema: {
        tags,
        summary: "Tell which of some events carry a property",
        querystring: SeenTogetherParameters,
        response: { 200: SeenTogetherAnswer },
      },
    },
    async (request) => {
      const { property, eventNames } = seenTogetherOf(request.query);
      const seen = await definitions.seenTogether(projectOf(request).id, property, eventNames);
      return Object.fromEntries(seen);
    },
  );

  app.get(
    DEFINITION,
    {
      ...access("property_definition:read"),
      schema: {
        tags,
        summary: "Read a property definition",
        response: { 200: WirePropertyDefinition },
      },
    },
    async (request) =>
      wire(await definitions.definition(projectOf(request).id, pathDefinitionIdOf(request.params))),
  );

  app.patch(
    DEFINITION,
    {
      ...access("property_definition:write"),
      schema: {
        tags,
        summary: "Change a property definition; its name stays",
        body: PatchPropertyDefinitionBody,
        response: { 200: WirePropertyDefinition },
      },
    },
    async (request) =>
      wire(
        await definitions.update(
          projectOf(request).id,
          pathDefinitionIdOf(request.params),
          propertyDefinitionChangeOf(request.body),
          callerOf(request).user.id,
        ),
      ),
  );

  app.delete(
    DEFINITION,
    {
      ...access("property_definition:write"),
      schema: { tags, summary: "Delete a property definition; the next event makes it anew" },
    },
    async (request, reply) => {
      const id = pathDefinitionIdOf(request.params);
      await definitions.delete(projectOf(request).id, id, callerOf(request).user.id);
      return reply.code(204).send();
    },
  );
}

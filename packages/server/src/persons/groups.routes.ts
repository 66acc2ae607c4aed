import type { JsonObject } from "@hedgerow/core/json";
import { Type } from "typebox";
import type { AccountStore } from "../accounts/account-store.ts";
import { answerActivityPage } from "../activity/activity.routes.ts";
import { ActivityPage, ActivityPageParameters } from "../activity/activity.schemas.ts";
import type { ActivityLog } from "../activity/activity-log.ts";
import type { App } from "../http/app.ts";
import { access, callerOf, projectOf } from "../http/management-api.ts";
import { cursorListAnswer, cursorOf, OpenListOf, pageOf, writeCursor } from "../http/pagination.ts";
import { queryText } from "../http/query-text.ts";
import {
  CreateGroupBody,
  FoundGroup,
  GroupListParameters,
  GroupNames,
  GroupParameters,
  GroupValueParameters,
  groupNameOf,
  groupSelectionOf,
  groupTypeNamesOf,
  RelatedActor,
  RelatedParameters,
  relatedOf,
  requiredText,
  typeIndexOf,
  WireGroup,
  WireGroupType,
  wireGroup,
  wireGroupType,
  wireRelated,
} from "./groups.schemas.ts";
import { type Groups, groupItemId } from "./groups.ts";
import {
  CountedValues,
  DeletePropertyBody,
  setPropertyOf,
  UpdatePropertyBody,
  wireValues,
} from "./persons.schemas.ts";

const GROUPS = "/api/projects/:project_id/groups";
const TYPES = "/api/projects/:project_id/groups_types";
const tags = ["groups"];

/** Groups and their types: looking at them, and changing them by hand. */
export function groupRoutes(
  app: App,
  {
    groups,
    activityLog,
    accounts,
  }: {
    groups: Groups;
    activityLog: Pick<ActivityLog, "list">;
    accounts: Pick<AccountStore, "user">;
  },
): void {
  app.get(
    TYPES,
    {
      ...access("group:read"),
      schema: { tags, summary: "List group types", response: { 200: Type.Array(WireGroupType) } },
    },
    async (request) => (await groups.types(projectOf(request).id)).map(wireGroupType),
  );

  app.patch(
    `${TYPES}/update_metadata`,
    {
      ...access("group:write"),
      schema: {
        tags,
        summary: "Change how group types are called",
        description:
          "Takes a list of objects with `group_type_index`, `name_singular` and `name_plural`.",
        response: { 200: Type.Array(WireGroupType) },
      },
    },
    async (request) => {
      const projectId = projectOf(request).id;
      await groups.renameTypes(projectId, groupTypeNamesOf(request.body));
      return (await groups.types(projectId)).map(wireGroupType);
    },
  );

  app.get(
    GROUPS,
    {
      ...access("group:read"),
      schema: {
        tags,
        summary: "List the groups of a type, newest first",
        querystring: GroupListParameters,
        response: { 200: OpenListOf(WireGroup) },
      },
    },
    async (request) => {
      const page = pageOf(request);
      const project = projectOf(request);
      const place = cursorOf(request);
      const selection = groupSelectionOf(request.query, project.timeZone);
      const {
        count,
        groups: found,
        next,
      } = await groups.find(project, selection, {
        ...page,
        ...(place && { after: { createdAtMs: place[0], key: String(place[1]) } }),
      });
      return cursorListAnswer(request, page, {
        count,
        cursor: next && writeCursor([next.createdAtMs, next.key]),
        results: found.map(wireGroup),
      });
    },
  );

  app.post(
    GROUPS,
    {
      ...access("group:write"),
      schema: {
        tags,
        summary: "Create a group of a type that is there",
        body: CreateGroupBody,
        response: { 201: WireGroup },
      },
    },
    async (request, reply) => {
      const { group_type_index, group_key, group_properties } = request.body;
      const group = await groups.create(
        projectOf(request).id,
        {
          typeIndex: group_type_index,
          key: group_key,
          // Parsed from JSON, so its values are JSON.
          properties: (group_properties ?? {}) as JsonObject,
        },
        callerOf(request).user.id,
      );
      return reply.code(201).send(wireGroup(group));
    },
  );

  app.delete(
    GROUPS,
    {
      ...access("group:write"),
      schema: {
        tags,
        summary: "Delete a group; its events stay, and the next one of it creates it anew",
        querystring: GroupParameters,
      },
    },
    async (request, reply) => {
      const name = groupNameOf(request.query);
      await groups.delete(projectOf(request).id, name, callerOf(request).user.id);
      return reply.code(204).send();
    },
  );

  app.get(
    `${GROUPS}/find`,
    {
      ...access("group:read"),
      schema: {
        tags,
        summary: "Read a group by type and key",
        querystring: GroupParameters,
        response: { 200: FoundGroup },
      },
    },
    async (request) => ({
      ...wireGroup(await groups.group(projectOf(request).id, groupNameOf(request.query))),
      notebook: null,
    }),
  );

  app.post(
    `${GROUPS}/update_property`,
    {
      ...access("group:write"),
      schema: {
        tags,
        summary: "Set a property of a group",
        querystring: GroupParameters,
        body: UpdatePropertyBody,
        response: { 200: WireGroup },
      },
    },
    async (request) => {
      const [change] = Object.entries(setPropertyOf(request.body));
      const [name = "", value = null] = change ?? [];
      return wireGroup(
        await groups.changeProperty(
          projectOf(request).id,
          groupNameOf(request.query),
          { name, value },
          callerOf(request).user.id,
        ),
      );
    },
  );

  app.post(
    `${GROUPS}/delete_property`,
    {
      ...access("group:write"),
      schema: {
        tags,
        summary: "Remove a property of a group",
        querystring: GroupParameters,
        body: DeletePropertyBody,
        response: { 200: WireGroup },
      },
    },
    async (request) =>
      wireGroup(
        await groups.changeProperty(
          projectOf(request).id,
          groupNameOf(request.query),
          { name: request.body.$unset, value: undefined },
          callerOf(request).user.id,
        ),
      ),
  );

  app.get(
    `${GROUPS}/activity`,
    {
      ...access("activity_log:read"),
      schema: {
        tags,
        summary: "List what was changed of a group by hand, newest first",
        querystring: Type.Object({ ...GroupParameters.properties, ...ActivityPageParameters }),
        response: { 200: ActivityPage },
      },
    },
    async (request) => {
      const group = await groups.group(projectOf(request).id, groupNameOf(request.query));
      return answerActivityPage(
        request,
        { activityLog, accounts },
        { scope: "Group", itemId: groupItemId(group), authorId: null },
      );
    },
  );

  app.get(
    `${GROUPS}/related`,
    {
      ...access("group:read"),
      schema: {
        tags,
        summary: "List persons and groups that share events with a group or person",
        description: "By the newest 10,000 events of the last 90 days.",
        querystring: RelatedParameters,
        response: { 200: Type.Array(RelatedActor) },
      },
    },
    async (request) =>
      wireRelated(await groups.related(projectOf(request).id, relatedOf(request.query))),
  );

  app.get(
    `${GROUPS}/property_definitions`,
    {
      ...access("group:read"),
      schema: {
        tags,
        summary: "List the properties that groups have, by index of the type",
        response: { 200: GroupNames },
      },
    },
    async (request) => {
      const names = await groups.propertyNames(projectOf(request).id);
      return Object.fromEntries([...names].map(([index, counted]) => [index, [...counted]]));
    },
  );

  app.get(
    `${GROUPS}/property_values`,
    {
      ...access("group:read"),
      schema: {
        tags,
        summary: "List the values that most groups of a type have of a property",
        querystring: GroupValueParameters,
        response: { 200: CountedValues },
      },
    },
    async (request) => {
      const part = queryText(request.query, "value") || undefined;
      return wireValues(
        await groups.values(projectOf(request).id, {
          typeIndex: typeIndexOf(request.query),
          name: requiredText(request.query, "key"),
          ...(part !== undefined && { part }),
        }),
      );
    },
  );
}

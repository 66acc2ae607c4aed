import { isJsonObject, type JsonObject, ownValue } from "@hedgerow/core/json";
import { type Static, Type } from "typebox";
import { badFilter, propertyFilterOf, sentFiltersOf } from "../events/property-filters.schemas.ts";
import { Refusal } from "../http/errors.ts";
import { PageQuery } from "../http/pagination.ts";
import { presentFields } from "../http/present-fields.ts";
import { queryText } from "../http/query-text.ts";
import { wireInstant } from "../http/wire-instant.ts";
import { AnyObject, MapOf, maxChars, Nullable } from "../http/wire-schemas.ts";
import { isUuid } from "../http/wire-uuid.ts";
import type { Group, GroupTypeRecord } from "./group-records.ts";
import type { GroupName, GroupSelection, GroupTypeNames } from "./groups.ts";
import { MAX_PROPERTIES_CHARS, WirePerson, wirePerson } from "./persons.schemas.ts";
import type { RelatedActors } from "./related-actors.ts";

/** Longest key of a group, and longest name of a type. */
const MAX_NAME_LENGTH = 400;

const groupFields = {
  group_type_index: Type.Integer(),
  group_key: Type.String(),
  group_properties: AnyObject,
  created_at: Type.String({ format: "date-time" }),
};

/** A group as the management API answers it. */
export const WireGroup = Type.Object(groupFields, { title: "Group" });

/** A single group, with a field that PostHog's clients read. */
export const FoundGroup = Type.Object({ ...groupFields, notebook: Type.Null() });

export const WireGroupType = Type.Object(
  {
    group_type: Type.String(),
    group_type_index: Type.Integer(),
    name_singular: Nullable(Type.String()),
    name_plural: Nullable(Type.String()),
    detail_dashboard: Type.Null(),
    default_columns: Type.Null(),
    created_at: Type.Null(),
  },
  { title: "GroupType" },
);

/** Whoever shares events with a person or group: persons and groups, told apart by `type`. */
export const RelatedActor = Type.Union([
  Type.Object({
    ...WirePerson.properties,
    type: Type.Literal("person"),
    id: Type.String({ description: "The uuid." }),
  }),
  Type.Object({
    ...groupFields,
    type: Type.Literal("group"),
    id: Type.String({ description: "The key." }),
    properties: AnyObject,
  }),
]);

const typeIndex = Type.Optional(
  Type.String({ description: "Index of the group type, from 0 to 4." }),
);
export const GroupParameters = Type.Object({
  group_type_index: typeIndex,
  group_key: Type.Optional(Type.String({ description: "Key of the group." })),
});
export const GroupListParameters = Type.Object({
  ...PageQuery,
  cursor: Type.Optional(Type.String({ description: "Where to go on: from `next` of a page." })),
  group_type_index: typeIndex,
  group_key: Type.Optional(Type.String({ description: "Part of the key, whatever the case." })),
  search: Type.Optional(Type.String({ description: "Part of the key or name." })),
  properties: Type.Optional(
    Type.String({
      description:
        'JSON list of conditions that must all hold, such as `[{"key":"$group_key","type":"group","operator":"exact","value":"acme"}]`; operators are those of flags, `$group_key` is the key.',
    }),
  ),
});
export const RelatedParameters = Type.Object({
  group_type_index: typeIndex,
  id: Type.Optional(
    Type.String({ description: "Key of the group; without a type the uuid of a person." }),
  ),
});
export const GroupValueParameters = Type.Object({
  group_type_index: typeIndex,
  key: Type.Optional(Type.String({ description: "Name of the property." })),
  value: Type.Optional(Type.String({ description: "Text that the values contain." })),
});

export const CreateGroupBody = Type.Object({
  group_type_index: Type.Integer({ minimum: 0, maximum: 4 }),
  group_key: Type.String({ minLength: 1, maxLength: MAX_NAME_LENGTH }),
  group_properties: Type.Optional(Nullable(AnyObject, maxChars(MAX_PROPERTIES_CHARS))),
});

export const GroupNames = MapOf(
  Type.Array(Type.Object({ name: Type.String(), count: Type.Integer() })),
);

/** The wire form of a group. */
export function wireGroup(group: Group): Static<typeof WireGroup> {
  return {
    group_type_index: group.typeIndex,
    group_key: group.key,
    group_properties: group.properties,
    created_at: wireInstant(group.createdAt),
  };
}

export function wireGroupType(type: GroupTypeRecord): Static<typeof WireGroupType> {
  return {
    group_type: type.name,
    group_type_index: type.index,
    name_singular: type.nameSingular,
    name_plural: type.namePlural,
    detail_dashboard: null,
    default_columns: null,
    created_at: null,
  };
}

/** The wire form of related persons and groups, in one list. */
export function wireRelated({ persons, groups }: RelatedActors): Static<typeof RelatedActor>[] {
  return [
    ...persons.map((person) => ({
      ...wirePerson(person),
      type: "person" as const,
      id: person.uuid,
    })),
    ...groups.map((group) => ({
      ...wireGroup(group),
      type: "group" as const,
      id: group.key,
      properties: group.properties,
    })),
  ];
}

/** The index of a group type in a query; refused where it is missing or cannot be one. */
export function typeIndexOf(parameters: unknown): number {
  const index = optionalTypeIndexOf(parameters);
  if (index !== null) return index;
  throw new Refusal(
    "invalid_input",
    "You must pass ?group_type_index= in this URL. To get a list of valid group types, call /api/:project_id/groups_types/.",
    { attr: "group_type_index" },
  );
}

/** {@link typeIndexOf}, or `null` where there is none. */
function optionalTypeIndexOf(parameters: unknown): number | null {
  const text = queryText(parameters, "group_type_index");
  if (!text) return null;
  if (/^[0-4]$/.test(text)) return Number(text);
  throw new Refusal("invalid_input", "A valid index of a group type, from 0 to 4, is required.", {
    attr: "group_type_index",
  });
}

/** The group that a query names. */
export function groupNameOf(parameters: unknown): GroupName {
  return { typeIndex: typeIndexOf(parameters), key: requiredText(parameters, "group_key") };
}

/** A parameter that must be there. */
export function requiredText(parameters: unknown, name: string): string {
  const text = queryText(parameters, name);
  if (!text) throw new Refusal("required", "This field is required.", { attr: name });
  return text;
}

/** Reads the parameters of the list; whatever cannot be understood is refused by name. */
export function groupSelectionOf(parameters: unknown, timeZone: string): GroupSelection {
  const text = (name: string) => queryText(parameters, name) || undefined;
  return presentFields({
    typeIndex: typeIndexOf(parameters),
    search: text("search"),
    keyContains: text("group_key"),
    properties: sentFiltersOf(text("properties")).map((sent) => {
      if ((ownValue(sent.filter, "type") ?? "group") !== "group") {
        throw badFilter(`${sent.where}groups can be filtered by their properties only.`);
      }
      return propertyFilterOf(sent, timeZone);
    }),
  });
}

/** Whom to find relations of: a group by type and key, or a person by uuid. */
export function relatedOf(parameters: unknown): { typeIndex: number | null; id: string } {
  const typeIndex = optionalTypeIndexOf(parameters);
  const id = requiredText(parameters, "id");
  if (typeIndex === null && !isUuid(id)) {
    throw new Refusal("invalid_input", "Must be a valid UUID.", { attr: "id" });
  }
  return { typeIndex, id: typeIndex === null ? id.toLowerCase() : id };
}

/** A list of names of types, as `update_metadata` takes it; unknown fields are ignored. */
export function groupTypeNamesOf(body: unknown): readonly GroupTypeNames[] {
  if (!Array.isArray(body)) {
    throw new Refusal("invalid_input", "Expected a list of group types.");
  }
  return (body as readonly unknown[]).map((row, at) => {
    if (!isJsonObject(row)) {
      throw new Refusal("invalid_input", "Expected an object.", { attr: String(at) });
    }
    const index = ownValue(row, "group_type_index");
    if (typeof index !== "number" || !Number.isInteger(index)) {
      const code = index === undefined ? "required" : "invalid_input";
      const detail =
        index === undefined ? "This field is required." : "A valid integer is required.";
      throw new Refusal(code, detail, { attr: `${at}__group_type_index` });
    }
    return presentFields({
      index,
      nameSingular: typeNameOf(row, "name_singular", at),
      namePlural: typeNameOf(row, "name_plural", at),
    });
  });
}

function typeNameOf(row: JsonObject, field: string, at: number): string | null | undefined {
  const name = ownValue(row, field);
  if (name === undefined || name === null) return name;
  const attr = `${at}__${field}`;
  if (typeof name !== "string") throw new Refusal("invalid_input", "Not a valid string.", { attr });
  if (name.length > MAX_NAME_LENGTH) {
    const detail = `Ensure this field has no more than ${MAX_NAME_LENGTH} characters.`;
    throw new Refusal("max_length", detail, { attr });
  }
  // An empty name is none.
  return name.trim() === "" ? null : name;
}

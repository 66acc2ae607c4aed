import { PROPERTY_TYPES } from "@hedgerow/core/events/property-type";
import { type Static, Type } from "typebox";
import type { User } from "../accounts/account-store.ts";
import { Refusal } from "../http/errors.ts";
import { invalidChoiceText } from "../http/invalid-choice.ts";
import { type Page, PageQuery } from "../http/pagination.ts";
import { booleanOf, jsonTextsOf, textsOf } from "../http/query-lists.ts";
import { queryText } from "../http/query-text.ts";
import { MapOf, Nullable } from "../http/wire-schemas.ts";
import {
  sharedChangeOf,
  sharedFields,
  sharedParameters,
  wireShared,
  wordsOf,
  writableFields,
} from "./definitions.schemas.ts";
import { tagsOf } from "./event-definitions.schemas.ts";
import type {
  ListedProperty,
  PropertyDefinition,
  PropertyDefinitionQuery,
} from "./property-definition-store.ts";
import type { PropertyDefinitionChange } from "./property-definitions.ts";
import type { PropertySubject } from "./sighting-store.ts";

const PropertyType = Type.Enum([...PROPERTY_TYPES]);

export const PatchPropertyDefinitionBody = Type.Object({
  ...writableFields,
  property_type: Type.Optional(Type.Union([PropertyType, Type.Null()])),
  is_numerical: Type.Optional(Type.Boolean()),
});

/** A property definition as the management API answers it (posthog-api 7.4). */
export const WirePropertyDefinition = Type.Object(
  {
    ...sharedFields,
    is_numerical: Type.Boolean(),
    property_type: Nullable(PropertyType),
    is_seen_on_filtered_events: Nullable(
      Type.Boolean({ description: "Whether one of `event_names` carries it; `null` without." }),
    ),
  },
  { title: "PropertyDefinition" },
);

/** Query parameters of the list (posthog-api 7.4). */
export const PropertyDefinitionParameters = Type.Object({
  ...PageQuery,
  ...sharedParameters,
  type: Type.Optional(
    Type.String({ description: "`event` (the default), `person`, `group` or `session`." }),
  ),
  group_type_index: Type.Optional(
    Type.String({ description: "Which type of groups; required for `group`." }),
  ),
  properties: Type.Optional(Type.String({ description: "Names with commas between: only these." })),
  event_names: Type.Optional(Type.String({ description: "JSON list of events to ask about." })),
  filter_by_event_names: Type.Optional(
    Type.String({ description: "`true` leaves out what none of `event_names` carries." }),
  ),
  is_feature_flag: Type.Optional(
    Type.String({ description: "`true` for values of flags only, `false` for all others." }),
  ),
  is_numerical: Type.Optional(Type.String({ description: "`true` or `false`: only those." })),
  exclude_core_properties: Type.Optional(
    Type.String({ description: "`true` leaves out what SDKs send by themselves." }),
  ),
});

export const SeenTogetherParameters = Type.Object({
  property_name: Type.Optional(Type.String({ description: "Name of an event property." })),
  event_names: Type.Optional(Type.String({ description: "JSON list of events." })),
});

export const SeenTogetherAnswer = MapOf(Type.Boolean(), {
  description: "Whether each of the events carries the property.",
});

/**
 * Reads the parameters of the list; what cannot be understood is refused by name. `undefined` for a
 * kind of property that never comes: sessions are not kept.
 */
export function propertyDefinitionQueryOf(
  parameters: unknown,
  { limit, offset }: Page,
): PropertyDefinitionQuery | undefined {
  const subject = subjectOf(parameters);
  const query = {
    words: wordsOf(parameters),
    names: textsOf(parameters, "properties") ?? null,
    excludedNames: jsonTextsOf(parameters, "excluded_properties") ?? [],
    eventNames: jsonTextsOf(parameters, "event_names") ?? null,
    onlySeenOnEvents: booleanOf(parameters, "filter_by_event_names") ?? false,
    isFlagValue: booleanOf(parameters, "is_feature_flag") ?? null,
    isNumerical: booleanOf(parameters, "is_numerical") ?? null,
    excludeOfficial: booleanOf(parameters, "exclude_core_properties") ?? false,
    excludeHidden: booleanOf(parameters, "exclude_hidden") ?? false,
    verified: booleanOf(parameters, "verified") ?? null,
    tags: tagsOf(parameters),
    limit,
    offset,
  };
  return subject && { subject, ...query };
}

const KINDS = ["event", "person", "group", "session"];

function subjectOf(parameters: unknown): PropertySubject | undefined {
  const kind = queryText(parameters, "type") || "event";
  const index = queryText(parameters, "group_type_index") || undefined;
  const attr = "group_type_index";
  if (index !== undefined && !/^[0-4]$/.test(index)) {
    throw new Refusal("invalid_input", "Must be the index of a group type, 0 to 4.", { attr });
  }
  if (kind !== "group" && index !== undefined) {
    throw new Refusal("invalid_input", "Only properties of groups have a group type.", { attr });
  }
  switch (kind) {
    case "event":
    case "person":
      return { kind };
    case "session":
      return undefined;
    case "group":
      if (index !== undefined) return { kind, groupTypeIndex: Number(index) };
      throw new Refusal("required", "This field is required for properties of groups.", { attr });
    default:
      throw new Refusal("invalid_choice", invalidChoiceText(kind, KINDS), { attr: "type" });
  }
}

/** What `seen_together` asks about; what is missing is refused by name. */
export function seenTogetherOf(parameters: unknown): {
  readonly property: string;
  readonly eventNames: readonly string[];
} {
  const missing = (attr: string) => new Refusal("required", "This field is required.", { attr });
  const property = queryText(parameters, "property_name");
  const eventNames = jsonTextsOf(parameters, "event_names");
  if (!property) throw missing("property_name");
  if (!eventNames) throw missing("event_names");
  return { property, eventNames: [...new Set(eventNames)] };
}

/** What a validated body changes. */
export function propertyDefinitionChangeOf(
  body: Static<typeof PatchPropertyDefinitionBody>,
): PropertyDefinitionChange {
  const { property_type: type, is_numerical: isNumerical } = body;
  return {
    ...sharedChangeOf(body),
    ...(type === undefined ? {} : { type }),
    ...(isNumerical === undefined ? {} : { isNumerical }),
  };
}

/** The users that a definition names. */
export function usersOf(definition: PropertyDefinition): readonly (number | null)[] {
  return [definition.updatedById, definition.verifiedById];
}

/** The wire form of a definition; `users` holds those it names if they still exist. */
export function wirePropertyDefinition(
  { definition, isSeenOnEvents }: ListedProperty,
  users: ReadonlyMap<number, User>,
): Static<typeof WirePropertyDefinition> {
  return {
    ...wireShared(definition, users),
    is_numerical: definition.isNumerical,
    property_type: definition.type,
    is_seen_on_filtered_events: isSeenOnEvents,
  };
}

import { type Json, type JsonObject, ownValue } from "@hedgerow/core/json";
import { chosenIdsFirst, personName } from "@hedgerow/core/persons/person-name";
import { type Static, Type } from "typebox";
import {
  badFilter,
  propertyFilterOf,
  type SentFilter,
  sentFiltersOf,
} from "../events/property-filters.schemas.ts";
import type { PropertyFilter } from "../events/property-search.ts";
import { Refusal } from "../http/errors.ts";
import { PageQuery } from "../http/pagination.ts";
import { readId } from "../http/path-id.ts";
import { presentFields } from "../http/present-fields.ts";
import { queryText } from "../http/query-text.ts";
import { wireInstant } from "../http/wire-instant.ts";
import { AnyObject, MapOf, maxChars } from "../http/wire-schemas.ts";
import { isUuid } from "../http/wire-uuid.ts";
import type { CountedValue } from "./count-values.ts";
import type { ListedPerson, PersonName } from "./person-records.ts";
import type { PersonSelection } from "./persons.ts";

/** A person as the management API answers it. */
export const WirePerson = Type.Object(
  {
    id: Type.Integer(),
    name: Type.String({ description: "What the person is called." }),
    distinct_ids: Type.Array(Type.String(), {
      description: "Chosen ids first; of a person in a list the first 100, else 10,000.",
    }),
    properties: AnyObject,
    created_at: Type.String({ format: "date-time" }),
    uuid: Type.String(),
    is_identified: Type.Boolean(),
  },
  { title: "Person" },
);

export const PersonListParameters = Type.Object({
  ...PageQuery,
  cursor: Type.Optional(Type.String({ description: "Where to go on: from `next` of a page." })),
  search: Type.Optional(
    Type.String({
      description: "A uuid or distinct id as a whole, or part of a mail address or name.",
    }),
  ),
  distinct_id: Type.Optional(Type.String({ description: "Only who has this distinct id." })),
  email: Type.Optional(Type.String({ description: "Only who has exactly this mail address." })),
  cohort: Type.Optional(Type.String({ description: "Id of a cohort they are in." })),
  properties: Type.Optional(
    Type.String({
      description:
        'JSON list of conditions that must all hold, such as `[{"key":"plan","type":"person","operator":"exact","value":"pro"}]` or `[{"key":"id","type":"cohort","value":3,"operator":"in"}]`; operators are those of flags.',
    }),
  ),
  include_total: Type.Optional(
    Type.String({ description: "Counts a selection too, where that does not take too long." }),
  ),
});

/** What they may have as JSON, 640 KiB, is measured where it is stored. */
export const MAX_PROPERTIES_CHARS = 2_000_000;
/** A thousand persons, by the longest of names. */
const MAX_NAMES_CHARS = 500_000;

export const UpdatePersonBody = Type.Object({
  properties: MapOf(Type.Unknown(), {
    description: "Properties to set; others stay as they are.",
    ...maxChars(MAX_PROPERTIES_CHARS),
  }),
});
export const UpdatePropertyBody = Type.Object({
  key: Type.String({ minLength: 1 }),
  value: Type.Unknown({ description: "Anything but null.", ...maxChars(MAX_PROPERTIES_CHARS) }),
});
export const DeletePropertyBody = Type.Object({
  $unset: Type.String({ minLength: 1, description: "Name of the property." }),
});
export const SplitBody = Type.Object({
  main_distinct_id: Type.Optional(
    Type.Union([Type.String(), Type.Null()], {
      description:
        "The id that stays, with the properties. Without it the first id stays, without them.",
    }),
  ),
});
export const BulkDeleteBody = Type.Object({
  ids: Type.Optional(
    Type.Array(Type.String(), {
      description: "UUIDs, at most 1,000.",
      ...maxChars(MAX_NAMES_CHARS),
    }),
  ),
  distinct_ids: Type.Optional(
    Type.Array(Type.String(), { description: "At most 1,000.", ...maxChars(MAX_NAMES_CHARS) }),
  ),
  delete_events: Type.Optional(Type.Boolean({ description: "Deletes their events as well." })),
  keep_person: Type.Optional(Type.Boolean({ description: "Deletes only their events." })),
});
export const BulkDeleteAnswer = Type.Object({
  persons_found: Type.Integer(),
  persons_deleted: Type.Integer(),
  events_queued_for_deletion: Type.Boolean(),
  recordings_queued_for_deletion: Type.Boolean(),
  deletion_errors: Type.Array(AnyObject),
});
export const Success = Type.Object({ success: Type.Boolean() });
export const ValueParameters = Type.Object({
  key: Type.Optional(Type.String({ description: "Name of the property." })),
  value: Type.Optional(Type.String({ description: "Text that the values contain." })),
});
export const CountedValues = Type.Array(
  Type.Object({ name: Type.Unknown(), count: Type.Integer() }),
);
export const CountedNames = Type.Array(Type.Object({ name: Type.String(), count: Type.Integer() }));

/** The wire form of a person. */
export function wirePerson(person: ListedPerson): Static<typeof WirePerson> {
  return {
    id: person.id,
    name: personName(person),
    distinct_ids: [...chosenIdsFirst(person.distinctIds)],
    properties: person.properties,
    created_at: wireInstant(person.createdAt),
    uuid: person.uuid,
    is_identified: person.isIdentified,
  };
}

/** The wire form of values and how many have them. */
export function wireValues(values: readonly CountedValue[]): Static<typeof CountedValues> {
  return values.map(({ value, count }) => ({
    // PostHog writes booleans as text here.
    name: typeof value === "boolean" ? String(value) : value,
    count,
  }));
}

/** Reads the parameters of the list; whatever cannot be understood is refused by name. */
export function personSelectionOf(parameters: unknown, timeZone: string): PersonSelection {
  const text = (name: string) => queryText(parameters, name) || undefined;
  const cohorts: PersonSelection["cohorts"][number][] = [];
  const properties: PropertyFilter[] = [];
  const cohort = text("cohort");
  if (cohort !== undefined) {
    const id = readId(cohort);
    if (id === undefined) {
      throw new Refusal("invalid_input", "A valid integer is required.", { attr: "cohort" });
    }
    cohorts.push({ id, wanted: true, attr: "cohort" });
  }
  for (const sent of sentFiltersOf(text("properties"))) {
    switch (ownValue(sent.filter, "type") ?? "person") {
      case "person":
        properties.push(propertyFilterOf(sent, timeZone));
        break;
      case "cohort":
      case "static-cohort":
        cohorts.push(cohortFilterOf(sent));
        break;
      default:
        throw badFilter(`${sent.where}persons can be filtered by person and cohort only.`);
    }
  }
  return presentFields({
    search: text("search"),
    distinctId: text("distinct_id"),
    email: text("email"),
    cohorts,
    properties,
  });
}

/** Whether `include_total` is asked for: PostHog takes any value of it. */
export function countsAll(parameters: unknown): boolean {
  return queryText(parameters, "include_total") !== undefined;
}

function cohortFilterOf({ filter, where }: SentFilter): PersonSelection["cohorts"][number] {
  const value = ownValue(filter, "value");
  const id = typeof value === "number" ? readId(String(value)) : readId(textOf(value));
  if (id === undefined) throw badFilter(`${where}a cohort is named by its id.`);
  const operator = ownValue(filter, "operator") ?? "in";
  if (operator !== "in" && operator !== "not_in" && operator !== "exact") {
    throw badFilter(`${where}cohorts are asked for by in and not_in.`);
  }
  const isNegated = operator === "not_in" || ownValue(filter, "negation") === true;
  return { id, wanted: !isNegated, attr: "properties" };
}

function textOf(value: Json | undefined): string | undefined {
  return typeof value === "string" ? value : undefined;
}

/** The person that a path or parameter names, by number or uuid, as PostHog refuses others. */
export function personNameOf(text: string, attr: string | null = null): PersonName {
  const id = readId(text);
  if (id !== undefined) return { id };
  if (isUuid(text)) return { uuid: text.toLowerCase() };
  throw new Refusal(
    "invalid_input",
    `The ID provided does not look like a personID. If you are using a distinctId, please use /persons?distinct_id=${text} instead.`,
    { attr },
  );
}

const MAX_DELETED = 1000;

/** Whom a body wants deleted; throws a {@link Refusal} for what cannot be a name. */
export function deletedNamesOf({
  ids,
  distinct_ids,
}: Static<typeof BulkDeleteBody>):
  | { readonly uuids: readonly string[] }
  | { readonly distinctIds: readonly string[] } {
  for (const [attr, sent] of Object.entries({ distinct_ids, ids })) {
    if (sent === undefined || sent.length <= MAX_DELETED) continue;
    const detail = `You can only pass ${MAX_DELETED} ${attr} in one call`;
    throw new Refusal("invalid_input", detail, { attr });
  }
  if (distinct_ids && distinct_ids.length > 0) return { distinctIds: distinct_ids };
  if (!ids || ids.length === 0) {
    throw new Refusal("invalid_input", "You need to specify either distinct_ids or ids");
  }
  const malformed = ids.findIndex((id) => !isUuid(id));
  if (malformed >= 0) {
    throw new Refusal("invalid_input", "Must be a valid UUID.", { attr: `ids__${malformed}` });
  }
  return { uuids: ids.map((id) => id.toLowerCase()) };
}

/** A switch in a query string: `true`, `1` or nothing at all after the name turn it on. */
export function switchOf(parameters: unknown, name: string): boolean {
  switch (queryText(parameters, name)?.toLowerCase()) {
    case "true":
    case "1":
    case "":
      return true;
    case undefined:
    case "false":
    case "0":
      return false;
    default:
      throw new Refusal("invalid_input", "Must be a valid boolean.", { attr: name });
  }
}

/** A property and its value to set; PostHog takes no `null` here. */
export function setPropertyOf({ key, value }: Static<typeof UpdatePropertyBody>): JsonObject {
  if (value === null || value === undefined) {
    throw new Refusal("required", "This field is required.", { attr: "value" });
  }
  // Parsed from JSON, so it is JSON.
  return Object.fromEntries([[key, value as Json]]);
}

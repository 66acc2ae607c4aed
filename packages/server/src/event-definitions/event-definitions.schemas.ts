import { type Static, Type } from "typebox";
import type { User } from "../accounts/account-store.ts";
import { UserBasic, wireAuthor } from "../accounts/accounts.schemas.ts";
import { Refusal } from "../http/errors.ts";
import { invalidChoiceText } from "../http/invalid-choice.ts";
import { type Page, PageQuery } from "../http/pagination.ts";
import { booleanOf, jsonTextsOf, textsOf } from "../http/query-lists.ts";
import { queryText } from "../http/query-text.ts";
import { tidyTags } from "../http/tidy-tags.ts";
import { wireInstant, wireInstantOrNull } from "../http/wire-instant.ts";
import { Nullable } from "../http/wire-schemas.ts";
import { isUuid } from "../http/wire-uuid.ts";
import {
  sharedChangeOf,
  sharedFields,
  sharedParameters,
  wireShared,
  wordsOf,
  writableFields,
} from "./definitions.schemas.ts";
import type {
  EventDefinition,
  EventDefinitionOrder,
  EventDefinitionQuery,
} from "./event-definition-store.ts";
import type { EventDefinitionChange } from "./event-definitions.ts";
import type { EventUse } from "./event-uses.ts";
import { MAX_DEFINITION_NAME_LENGTH } from "./sighting-store.ts";

const writable = {
  ...writableFields,
  owner: Type.Optional(Nullable(Type.Integer({ description: "Id of a member." }))),
  default_columns: Type.Optional(Nullable(Type.Array(Type.String({ maxLength: 400 })))),
  post_to_slack: Type.Optional(Type.Boolean()),
};

export const PatchEventDefinitionBody = Type.Object(writable);
export const CreateEventDefinitionBody = Type.Object({
  name: Type.String({ minLength: 1, maxLength: MAX_DEFINITION_NAME_LENGTH }),
  ...writable,
});

const ids = Type.Array(Type.String({ format: "uuid" }), { minItems: 1, maxItems: 500 });
export const BulkPatchBody = Type.Object({ ids, ...writable });
export const BulkDeleteBody = Type.Object({ ids });

/** An event definition as the management API answers it (posthog-api 7.1). */
export const WireEventDefinition = Type.Object(
  {
    ...sharedFields,
    owner: Nullable(UserBasic),
    created_at: Type.String({ format: "date-time" }),
    last_seen_at: Nullable(
      Type.String({
        format: "date-time",
        description: "Some minutes coarse; `null` for an event that was declared and has not come.",
      }),
    ),
    last_updated_at: Nullable(Type.String({ format: "date-time" })),
    default_columns: Type.Array(Type.String()),
    post_to_slack: Type.Boolean(),
    is_action: Type.Boolean(),
    action_id: Type.Null(),
    is_calculating: Type.Boolean(),
    last_calculated_at: Type.Null(),
    created_by: Type.Null(),
  },
  { title: "EventDefinition" },
);

export const BulkPatchAnswer = Type.Object({ results: Type.Array(WireEventDefinition) });
export const BulkDeleteAnswer = Type.Object({ deleted: Type.Integer() });

export const EventMetrics = Type.Object({
  query_usage_30_day: Type.Integer({ description: "Saved queries do not exist here: always 0." }),
  volume_30_day: Type.Integer({ description: "Events of the last 30 days." }),
});

export const EventUsesAnswer = Type.Object({
  results: Type.Array(
    Type.Object({
      type: Type.Enum(["cohort", "flag", "experiment"]),
      id: Type.Integer(),
      name: Type.String(),
    }),
  ),
});

export const ByNameParameters = Type.Object({
  name: Type.Optional(Type.String({ description: "Name of the event." })),
});

/** Query parameters of the list (posthog-api 7.2). */
export const EventDefinitionParameters = Type.Object({
  ...PageQuery,
  ...sharedParameters,
  event_type: Type.Optional(
    Type.String({
      description:
        "`event_custom`, `event_posthog` (names that SDKs give), or `event`, `all` and `action_event` for all.",
    }),
  ),
  ordering: Type.Optional(
    Type.String({
      description:
        "`name`, `created_at`, `last_seen_at` or `last_seen_at::date`, `-` before it for descending order; may be repeated. `-last_seen_at` unless given.",
    }),
  ),
});

const ORIGINS: Readonly<Record<string, EventDefinitionQuery["origin"]>> = {
  event: null,
  all: null,
  action_event: null,
  event_custom: "custom",
  event_posthog: "official",
};

const ORDERS: Readonly<Record<string, EventDefinitionOrder["by"]>> = {
  name: "name",
  created_at: "createdAt",
  last_seen_at: "lastSeenAt",
  "last_seen_at::date": "lastSeenDay",
};

/** Reads the parameters of the list; what cannot be understood is refused by name. */
export function eventDefinitionQueryOf(
  parameters: unknown,
  { limit, offset }: Page,
): EventDefinitionQuery {
  return {
    words: wordsOf(parameters),
    origin: oneOf(ORIGINS, queryText(parameters, "event_type") || "event", "event_type"),
    excludeHidden: booleanOf(parameters, "exclude_hidden") ?? false,
    verified: booleanOf(parameters, "verified") ?? null,
    tags: tagsOf(parameters),
    excludedNames: jsonTextsOf(parameters, "excluded_properties") ?? [],
    order: ordersOf((parameters as { ordering?: unknown }).ordering),
    limit,
    offset,
  };
}

/** The tags of a list request, as tags are kept; `null` where it asks for none. */
export function tagsOf(parameters: unknown): readonly string[] | null {
  const tags = textsOf(parameters, "tags");
  return tags ? tidyTags(tags) : null;
}

function ordersOf(given: unknown): readonly EventDefinitionOrder[] {
  const written = [given]
    .flat()
    .flatMap((one) => (typeof one === "string" ? one.split(",") : []))
    .map((one) => one.trim())
    .filter((one) => one !== "");
  if (written.length === 0) return [{ by: "lastSeenAt", descending: true }];
  return written.slice(0, MAX_ORDERS).map((text) => {
    const descending = text.startsWith("-");
    return { by: oneOf(ORDERS, descending ? text.slice(1) : text, "ordering"), descending };
  });
}

const MAX_ORDERS = 10;

function oneOf<Value>(choices: Readonly<Record<string, Value>>, text: string, attr: string): Value {
  if (Object.hasOwn(choices, text)) return choices[text] as Value;
  throw new Refusal("invalid_choice", invalidChoiceText(text, Object.keys(choices)), { attr });
}

/** The name of `by_name`; refused where it is missing. */
export function nameOf(parameters: unknown): string {
  const name = queryText(parameters, "name");
  if (!name) throw new Refusal("required", "This field is required.", { attr: "name" });
  return name;
}

/** What a validated body changes. */
export function eventDefinitionChangeOf(
  body: Static<typeof PatchEventDefinitionBody>,
): EventDefinitionChange {
  const { owner, default_columns: columns, post_to_slack: postToSlack } = body;
  return {
    ...sharedChangeOf(body),
    ...(owner === undefined ? {} : { ownerId: owner }),
    ...(columns === undefined ? {} : { defaultColumns: columns ?? [] }),
    ...(postToSlack === undefined ? {} : { postToSlack }),
  };
}

/** The ids of a bulk request, each once; refused by index where one cannot be an id. */
export function bulkIdsOf(ids: readonly string[]): readonly string[] {
  const malformed = ids.findIndex((id) => !isUuid(id));
  if (malformed >= 0) {
    throw new Refusal("invalid_input", "Must be a valid UUID.", { attr: `ids__${malformed}` });
  }
  return [...new Set(ids.map((id) => id.toLowerCase()))];
}

/** The users that a definition names. */
export function usersOf(definition: EventDefinition): readonly (number | null)[] {
  return [definition.ownerId, definition.updatedById, definition.verifiedById];
}

/** The wire form of a definition; `users` holds those it names if they still exist. */
export function wireEventDefinition(
  definition: EventDefinition,
  users: ReadonlyMap<number, User>,
): Static<typeof WireEventDefinition> {
  return {
    ...wireShared(definition, users),
    owner: wireAuthor(definition.ownerId, users),
    created_at: wireInstant(definition.createdAt),
    last_seen_at: wireInstantOrNull(definition.lastSeenAt),
    last_updated_at: wireInstantOrNull(definition.updatedAt),
    default_columns: [...definition.defaultColumns],
    post_to_slack: definition.postToSlack,
    is_action: false,
    action_id: null,
    is_calculating: false,
    last_calculated_at: null,
    created_by: null,
  };
}

/** The wire form of what uses an event. */
export function wireEventUses(uses: readonly EventUse[]): Static<typeof EventUsesAnswer> {
  return { results: uses.map(({ kind, id, name }) => ({ type: kind, id, name })) };
}

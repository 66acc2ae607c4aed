import { isUtf8 } from "node:buffer";
import { isJsonObject, type Json, type JsonObject, ownValue } from "@hedgerow/core/json";
import { type Static, Type } from "typebox";
import type { User } from "../accounts/account-store.ts";
import { UserBasic, wireAuthor } from "../accounts/accounts.schemas.ts";
import { MAX_BODY_BYTES } from "../http/app.ts";
import { bodyOfForm } from "../http/body-of-form.ts";
import { Refusal } from "../http/errors.ts";
import { type Page, PageQuery } from "../http/pagination.ts";
import { readId } from "../http/path-id.ts";
import { queryText } from "../http/query-text.ts";
import type { JsonReader } from "../http/read-json-in-turn.ts";
import { wireInstant, wireInstantOrNull } from "../http/wire-instant.ts";
import { AnyObject, MapOf, maxChars, Nullable } from "../http/wire-schemas.ts";
import { isUuid } from "../http/wire-uuid.ts";
import type {
  CohortListQuery,
  CohortRecord,
  MembershipChange,
  NamedPersons,
} from "./cohort-store.ts";
import type { CohortChange } from "./cohorts.ts";

/** A rule names thousands of values. */
const MAX_RULE_CHARS = 4_000_000;
/** Ten thousand persons, by the longest of names. */
const MAX_NAMES_CHARS = 5_000_000;

/** What a caller may write of a cohort; unknown fields are ignored. */
const writableFields = {
  name: Type.Optional(Nullable(Type.String({ maxLength: 400 }))),
  description: Type.Optional(Nullable(Type.String({ maxLength: 1000 }))),
  deleted: Type.Optional(Type.Boolean({ description: "True deletes the cohort." })),
  filters: Type.Optional(
    Nullable(
      MapOf(Type.Unknown(), {
        description: "Rule of a dynamic cohort: `{ properties: { type, values } }`.",
      }),
      maxChars(MAX_RULE_CHARS),
    ),
  ),
  groups: Type.Optional(
    Nullable(
      Type.Array(AnyObject, {
        description: "The older form of `filters`: any one of the groups, each with `properties`.",
      }),
      maxChars(MAX_RULE_CHARS),
    ),
  ),
  is_static: Type.Optional(Type.Boolean()),
};

/** The members of a static cohort as a file: a field of a form, or the text itself. */
const membersFile = {
  csv: Type.Optional(
    Type.String({
      description:
        "CSV with a first line that names `distinct_id` or `person_id`, or with distinct ids alone.",
      ...maxChars(MAX_BODY_BYTES),
    }),
  ),
};

export const CreateCohortBody = Type.Object({
  ...writableFields,
  ...membersFile,
  _create_static_person_ids: Type.Optional(
    Type.Array(Type.String(), {
      description: "UUIDs of the first members of a static cohort.",
      ...maxChars(MAX_NAMES_CHARS),
    }),
  ),
  distinct_ids: Type.Optional(
    Type.Array(Type.String(), {
      description: "Distinct ids of the first members of a static cohort.",
      ...maxChars(MAX_NAMES_CHARS),
    }),
  ),
});
export const PatchCohortBody = Type.Object({ ...writableFields, ...membersFile });

/** A cohort as the management API answers it. */
const cohortFields = {
  id: Type.Integer(),
  team_id: Type.Integer(),
  name: Type.String(),
  description: Type.String(),
  groups: Type.Array(AnyObject),
  deleted: Type.Boolean(),
  filters: AnyObject,
  query: Nullable(AnyObject),
  is_calculating: Type.Boolean(),
  created_by: Nullable(UserBasic),
  created_at: Type.String({ format: "date-time" }),
  last_calculation: Nullable(Type.String({ format: "date-time" })),
  errors_calculating: Type.Integer(),
  last_error_message: Nullable(Type.String()),
  count: Nullable(Type.Integer()),
  is_static: Type.Boolean(),
  cohort_type: Type.String(),
  experiment_set: Type.Array(Type.Integer()),
};

/** Names given by the caller that belong to no person of the project: of a file, the first 1,000. */
const unknownNames = {
  unknown_person_ids: Type.Array(Type.String()),
  unknown_distinct_ids: Type.Array(Type.String()),
  unknown_count: Type.Integer(),
};

export const Cohort = Type.Object(cohortFields, { title: "Cohort" });
export const CreatedCohort = Type.Object(
  { ...cohortFields, ...unknownNames },
  { title: "CreatedCohort" },
);

/** A changed cohort, with what became of a file of members where one came. */
export const ChangedCohort = Type.Object(
  {
    ...cohortFields,
    unknown_person_ids: Type.Optional(unknownNames.unknown_person_ids),
    unknown_distinct_ids: Type.Optional(unknownNames.unknown_distinct_ids),
    unknown_count: Type.Optional(unknownNames.unknown_count),
  },
  { title: "ChangedCohort" },
);

export const DeleteCohortParameters = Type.Object({
  force: Type.Optional(
    Type.String({
      description: "`true` deletes a cohort that is in use; flags that use it fail then.",
    }),
  ),
});

/** True when a deletion is to happen whatever uses the cohort. */
export function isForced(parameters: unknown): boolean {
  return queryText(parameters, "force")?.toLowerCase() === "true";
}

/** The body of a form with the fields of a cohort, and its members as a file. */
export async function bodyOfCohortForm(
  fields: ReadonlyMap<string, Buffer>,
  _: unknown,
  reader: JsonReader,
): Promise<JsonObject> {
  for (const [name, bytes] of fields) {
    if (isUtf8(bytes)) continue;
    throw new Refusal("invalid_input", "The text is not valid UTF-8.", { attr: name });
  }
  return await bodyOfForm(fields, CreateCohortBody, reader);
}

export const AddPersonsBody = Type.Object({
  person_ids: Type.Optional(
    Type.Array(Type.String(), { description: "UUIDs of persons.", ...maxChars(MAX_NAMES_CHARS) }),
  ),
  distinct_ids: Type.Optional(Type.Array(Type.String(), maxChars(MAX_NAMES_CHARS))),
});
export const AddPersonsAnswer = Type.Object({
  success: Type.Boolean(),
  added: Type.Integer(),
  ...unknownNames,
});

export const RemovePersonBody = Type.Object({
  person_id: Type.Optional(Type.String({ description: "UUID of a person." })),
  distinct_id: Type.Optional(Type.String()),
});
export const RemovePersonAnswer = Type.Object({ success: Type.Boolean() });

export const CohortPersonsParameters = Type.Object({
  ...PageQuery,
  cursor: Type.Optional(Type.String({ description: "Where to go on: from `next` of a page." })),
});

/** Query parameters of the list of cohorts; values that mean nothing are ignored. */
export const CohortListParameters = Type.Object({
  ...PageQuery,
  type: Type.Optional(Type.String({ description: "`static` or `dynamic`." })),
  search: Type.Optional(Type.String({ description: "Part of the name, whatever its case." })),
  created_by_id: Type.Optional(Type.String()),
});

/** Reads the parameters of the list; what means nothing is ignored. */
export function cohortListQueryOf(parameters: unknown, { limit, offset }: Page): CohortListQuery {
  const text = (name: string) => queryText(parameters, name) || null;
  const type = text("type");
  return {
    isStatic: type === "static" ? true : type === "dynamic" ? false : null,
    search: text("search"),
    createdById: readId(text("created_by_id")) ?? null,
    limit,
    offset,
  };
}

/** What a validated body changes. */
export function cohortChangeOf(body: Static<typeof PatchCohortBody>): CohortChange {
  // Parsed from JSON, so their values are JSON.
  const groups = (body.groups ?? []) as JsonObject[];
  const filters = body.filters as JsonObject | null | undefined;
  return {
    ...(body.name === undefined ? {} : { name: body.name ?? "" }),
    ...(body.description === undefined ? {} : { description: body.description ?? "" }),
    ...(body.deleted === undefined ? {} : { deleted: body.deleted }),
    ...(body.is_static === undefined ? {} : { isStatic: body.is_static }),
    ...(filters
      ? { filters }
      : groups.length > 0
        ? { filters: filtersOfGroups(groups) }
        : filters === null
          ? { filters: {} }
          : {}),
  };
}

/** The older form of a rule, any of several groups of properties that must all hold, as `filters`. */
function filtersOfGroups(groups: readonly JsonObject[]): JsonObject {
  return {
    properties: {
      type: "OR",
      values: groups.map((group) => ({
        type: "AND",
        values: ownValue(group, "properties") ?? [],
      })),
    },
  };
}

/** Most persons named in one request; more come as a file. */
const MAX_PERSONS = 10_000;

/** Persons named by UUID and by distinct id; throws a {@link Refusal} for what cannot be a name. */
export function namedPersonsOf(
  uuids: { attr: string; sent: readonly string[] | undefined },
  distinctIds: { attr: string; sent: readonly string[] | undefined },
): NamedPersons {
  for (const { attr, sent } of [uuids, distinctIds]) {
    if (sent && sent.length > MAX_PERSONS) {
      throw new Refusal("invalid_input", "List size exceeds limit", { attr });
    }
  }
  const malformed = uuids.sent?.findIndex((uuid) => !isUuid(uuid)) ?? -1;
  if (malformed >= 0) {
    throw new Refusal("invalid_input", "Must be a valid UUID.", {
      attr: `${uuids.attr}__${malformed}`,
    });
  }
  return {
    uuids: [...new Set(uuids.sent)],
    distinctIds: [...new Set(distinctIds.sent)],
  };
}

/** The wire form of a cohort; `usersById` holds its author if that user still exists. */
export function wireCohort(
  cohort: CohortRecord,
  usersById: ReadonlyMap<number, User>,
): Static<typeof Cohort> {
  // What is stored meanwhile is what holds if that is broken off.
  const isBeingFilled = cohort.isStatic && cohort.isCalculating;
  return {
    id: cohort.id,
    team_id: cohort.projectId,
    name: cohort.name,
    description: cohort.description,
    groups: [],
    deleted: cohort.deleted,
    filters: wireFilters(cohort.filters),
    query: null,
    is_calculating: cohort.isCalculating,
    created_by: wireAuthor(cohort.createdById, usersById),
    created_at: wireInstant(cohort.createdAt),
    // Who was added to a list is in it at once, as if it had been calculated.
    last_calculation: wireInstantOrNull(
      cohort.isStatic ? cohort.membersChangedAt : cohort.calculatedAt,
    ),
    errors_calculating: isBeingFilled ? 0 : cohort.errorsCalculating,
    last_error_message: isBeingFilled ? null : cohort.calculationError,
    count: cohort.memberCount,
    is_static: cohort.isStatic,
    cohort_type: cohort.isStatic
      ? "static"
      : testsBehavior(cohort.filters)
        ? "behavioral"
        : "person_property",
    experiment_set: [],
  };
}

/** Names that belong to nobody, as the wire lists them. */
export function wireUnknownNames(
  { uuids, distinctIds }: MembershipChange["unknown"],
  count = uuids.length + distinctIds.length,
) {
  return {
    unknown_person_ids: [...uuids],
    unknown_distinct_ids: [...distinctIds],
    unknown_count: count,
  };
}

/** Readers expect a group even where a cohort has no rule. */
function wireFilters(filters: JsonObject): JsonObject {
  const properties = ownValue(filters, "properties");
  return isJsonObject(properties) && ownValue(properties, "values") !== undefined
    ? filters
    : { properties: { type: "OR", values: [] } };
}

function testsBehavior(filters: JsonObject): boolean {
  const visit = (value: Json | undefined): boolean => {
    if (!isJsonObject(value)) return false;
    if (ownValue(value, "type") === "behavioral") return true;
    const values = ownValue(value, "values");
    return Array.isArray(values) && (values as Json[]).some(visit);
  };
  return visit(ownValue(filters, "properties"));
}

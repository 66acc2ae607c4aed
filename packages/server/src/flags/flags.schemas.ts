import { isJsonObject, type Json, type JsonObject, ownValue } from "@hedgerow/core/json";
import { type Static, Type } from "typebox";
import { Value } from "typebox/value";
import type { User } from "../accounts/account-store.ts";
import { UserBasic, wireAuthor } from "../accounts/accounts.schemas.ts";
import { Refusal } from "../http/errors.ts";
import { type Page, PageQuery } from "../http/pagination.ts";
import { readId } from "../http/path-id.ts";
import { presentFields } from "../http/present-fields.ts";
import { queryText } from "../http/query-text.ts";
import { tidyTags } from "../http/tidy-tags.ts";
import { readInstant, wireInstant, wireInstantOrNull } from "../http/wire-instant.ts";
import { AnyObject, MapOf, maxChars, Nullable } from "../http/wire-schemas.ts";
import { type FlagChange, shownFlag } from "./encrypted-payloads.ts";
import { earlyAccessEntry, enrolsPersons } from "./flag-enrolment.ts";
import { flagStatus, staleSince } from "./flag-status.ts";
import type { FlagListQuery, FlagOrder, FlagRecord, LiveFlag } from "./flag-store.ts";
import type { EditBase } from "./merge-flag-change.ts";

const CREATION_CONTEXTS = [
  "feature_flags",
  "experiments",
  "surveys",
  "early_access_features",
  "web_experiments",
  "product_tours",
] as const;

/** Payloads are part of them: several of a megabyte. */
const MAX_FILTERS_CHARS = 4_000_000;

/** What a caller may write, all of it optional (posthog-api 4.1). Unknown fields are ignored. */
const writableFields = {
  name: Type.Optional(
    Type.String({ maxLength: 50_000, description: "What the flag is for, in words." }),
  ),
  filters: Type.Optional(
    MapOf(Type.Unknown(), {
      description:
        "Release conditions, variants and payloads: `{ groups, multivariate, payloads }`.",
      ...maxChars(MAX_FILTERS_CHARS),
    }),
  ),
  deleted: Type.Optional(
    Type.Boolean({ description: "True deletes the flag, false restores it." }),
  ),
  active: Type.Optional(Type.Boolean()),
  created_at: Type.Optional(Type.String({ format: "date-time" })),
  ensure_experience_continuity: Type.Optional(Nullable(Type.Boolean())),
  rollback_conditions: Type.Optional(Type.Unknown()),
  performed_rollback: Type.Optional(Nullable(Type.Boolean())),
  tags: Type.Optional(Type.Array(Type.String())),
  evaluation_tags: Type.Optional(Type.Array(Type.String())),
  evaluation_contexts: Type.Optional(Type.Array(Type.String())),
  has_enriched_analytics: Type.Optional(Nullable(Type.Boolean())),
  is_remote_configuration: Type.Optional(Nullable(Type.Boolean())),
  has_encrypted_payloads: Type.Optional(Nullable(Type.Boolean())),
  evaluation_runtime: Type.Optional(Nullable(Type.Enum(["server", "client", "all"]))),
  bucketing_identifier: Type.Optional(Nullable(Type.Enum(["distinct_id", "device_id"]))),
  last_called_at: Type.Optional(Nullable(Type.String({ format: "date-time" }))),
};

const key = Type.String({
  minLength: 1,
  maxLength: 400,
  description: "Letters, digits, hyphens and underscores; unique among the project's flags.",
});

export const CreateFlagBody = Type.Object({
  key,
  ...writableFields,
  creation_context: Type.Optional(Type.Enum([...CREATION_CONTEXTS])),
});
/** What an edit started from, so that nothing others changed meanwhile is lost (posthog-api 4.4). */
const editBase = {
  version: Type.Optional(
    Type.Integer({ description: "The version that the edit started from; checks for conflicts." }),
  ),
  original_flag: Type.Optional(
    Nullable(
      MapOf(Type.Unknown(), {
        description: "The flag as it was read before the edit.",
      }),
      // Besides its filters, a flag has the other fields.
      maxChars(MAX_FILTERS_CHARS + 1_000_000),
    ),
  ),
};

export const ReplaceFlagBody = Type.Object({ key, ...writableFields, ...editBase });
export const PatchFlagBody = Type.Object({
  key: Type.Optional(key),
  ...writableFields,
  ...editBase,
});

type FlagBody = Static<typeof PatchFlagBody>;

/** What a validated body changes; throws a {@link Refusal} for what its schema cannot tell. */
export function flagChangeOf(body: FlagBody): FlagChange {
  const contexts = body.evaluation_contexts ?? body.evaluation_tags;
  return presentFields({
    key: body.key,
    name: body.name,
    // Parsed from JSON, so its values are JSON.
    filters: body.filters as JsonObject | undefined,
    deleted: body.deleted,
    active: body.active,
    createdAt: readInstant(body.created_at, "created_at"),
    ensureExperienceContinuity: orDefault(body.ensure_experience_continuity, false),
    rollbackConditions: body.rollback_conditions as Json | undefined,
    performedRollback: orDefault(body.performed_rollback, false),
    tags: body.tags && tidyTags(body.tags),
    evaluationContexts: contexts && tidyTags(contexts),
    hasEnrichedAnalytics: orDefault(body.has_enriched_analytics, false),
    isRemoteConfiguration: orDefault(body.is_remote_configuration, false),
    hasEncryptedPayloads: orDefault(body.has_encrypted_payloads, false),
    evaluationRuntime: orDefault(body.evaluation_runtime, "all"),
    bucketingIdentifier: orDefault(body.bucketing_identifier, "distinct_id"),
    lastCalledAt: readInstant(body.last_called_at, "last_called_at"),
  });
}

/** The writable fields of `original_flag` that have the form of an answer; others say nothing. */
export function editBaseOf({ version, original_flag: original }: FlagBody): EditBase | undefined {
  if (version === undefined) return undefined;
  const known = Object.entries(original ?? {}).filter(([field, value]) => {
    const schema = Object.hasOwn(PatchFlagBody.properties, field)
      ? PatchFlagBody.properties[field as keyof FlagBody]
      : undefined;
    return schema !== undefined && field !== "created_at" && Value.Check(schema, value);
  });
  return { version, original: flagChangeOf(Object.fromEntries(known)) };
}

/** A field that may be sent as `null` to mean its default. */
function orDefault<Value>(sent: Value | null | undefined, value: Value): Value | undefined {
  return sent === null ? value : sent;
}

/** Query parameters of the list of flags (posthog-api 4.4); values that mean nothing are ignored. */
export const FlagListParameters = Type.Object({
  ...PageQuery,
  active: Type.Optional(Type.String({ description: "`true`, `false` or `STALE`." })),
  search: Type.Optional(
    Type.String({ description: "Part of the key or name, whatever its case." }),
  ),
  type: Type.Optional(
    Type.String({ description: "`boolean`, `multivariant`, `experiment` or `remote_config`." }),
  ),
  created_by_id: Type.Optional(Type.String({ description: "Id of the user who made the flag." })),
  evaluation_runtime: Type.Optional(Type.String({ description: "`server`, `client` or `all`." })),
  tags: Type.Optional(
    Type.String({ description: "JSON list of tags: flags that have one of them." }),
  ),
  excluded_properties: Type.Optional(
    Type.String({ description: "JSON list of keys of flags to leave out." }),
  ),
  has_payload: Type.Optional(Type.String({ description: "`true` or `false`." })),
  order: Type.Optional(
    Type.String({ description: "A field to order by, `-` before it for descending order." }),
  ),
  ordering: Type.Optional(Type.String({ description: "Another name of `order`." })),
});

const ORDERS: Readonly<Record<string, FlagOrder>> = {
  id: "id",
  key: "key",
  name: "name",
  active: "active",
  version: "version",
  created_at: "createdAt",
  updated_at: "updatedAt",
  created_by: "createdBy",
  last_called_at: "lastCalledAt",
};

const TYPES = ["boolean", "multivariant", "experiment", "remote_config"] as const;
const RUNTIMES = ["server", "client", "all"] as const;

/** Reads the parameters of the list; what means nothing is ignored. */
export function flagListQueryOf(
  parameters: unknown,
  { limit, offset }: Page,
  now: Date,
): FlagListQuery {
  const text = (name: string) => queryText(parameters, name) || null;
  const oneOf = <Choice extends string>(choices: readonly Choice[], name: string) =>
    choices.find((choice) => choice === text(name)) ?? null;
  const choice = (name: string) => {
    const chosen = oneOf(["true", "false"], name);
    return chosen === null ? null : chosen === "true";
  };
  const [, minus, column = ""] = /^(-?)(.*)$/.exec(text("order") ?? text("ordering") ?? "") ?? [];
  const by = Object.hasOwn(ORDERS, column) ? ORDERS[column] : undefined;
  return {
    active: choice("active"),
    notCalledSince: oneOf(["STALE"], "active") && staleSince(now),
    hasPayload: choice("has_payload"),
    search: text("search"),
    type: oneOf(TYPES, "type"),
    createdById: readId(text("created_by_id")) ?? null,
    evaluationRuntime: oneOf(RUNTIMES, "evaluation_runtime"),
    tags: tidyTags(textList(text("tags"))),
    excludedKeys: textList(text("excluded_properties")),
    order: by ? { by, descending: minus === "-" } : { by: "createdAt", descending: true },
    limit,
    offset,
  };
}

/** Most texts of a list in a query string. */
const MAX_TEXTS = 500;

/** The texts of a JSON list; none where it is none. */
function textList(json: string | null): readonly string[] {
  try {
    const list: unknown = JSON.parse(json ?? "[]");
    if (!Array.isArray(list)) return [];
    return list.filter((item) => typeof item === "string").slice(0, MAX_TEXTS);
  } catch {
    return [];
  }
}

/** A flag as the management API answers it (posthog-api 4.1). */
export const Flag = Type.Object(
  {
    id: Type.Integer(),
    team_id: Type.Integer(),
    name: Type.String(),
    key: Type.String(),
    filters: AnyObject,
    deleted: Type.Boolean(),
    active: Type.Boolean(),
    created_by: Nullable(UserBasic),
    created_at: Type.String({ format: "date-time" }),
    updated_at: Type.String({ format: "date-time" }),
    version: Type.Integer(),
    last_modified_by: Nullable(UserBasic),
    is_simple_flag: Type.Boolean(),
    rollout_percentage: Nullable(Type.Number()),
    ensure_experience_continuity: Type.Boolean(),
    experiment_set: Type.Array(Type.Integer()),
    surveys: Type.Array(Type.Unknown()),
    features: Type.Array(Type.Unknown()),
    rollback_conditions: Type.Unknown(),
    performed_rollback: Type.Boolean(),
    can_edit: Type.Boolean(),
    tags: Type.Array(Type.String()),
    evaluation_tags: Type.Array(Type.String()),
    evaluation_contexts: Type.Array(Type.String()),
    usage_dashboard: Nullable(Type.Integer()),
    analytics_dashboards: Type.Array(Type.Integer()),
    has_enriched_analytics: Type.Boolean(),
    user_access_level: Nullable(Type.String()),
    is_remote_configuration: Type.Boolean(),
    has_encrypted_payloads: Type.Boolean(),
    status: Type.Enum(["ACTIVE", "INACTIVE", "STALE", "DELETED", "UNKNOWN"]),
    evaluation_runtime: Type.String(),
    bucketing_identifier: Type.String(),
    last_called_at: Nullable(Type.String({ format: "date-time" })),
  },
  { title: "FeatureFlag" },
);

/** What the answer of a flag tells beside its record. */
interface FlagSurroundings {
  /** Its author and last editor where they still exist. */
  readonly usersById: ReadonlyMap<number, User>;
  /** Experiments that use it. */
  readonly experimentIds: readonly number[];
  readonly now: Date;
}

/** The payload of a flag's answer `true`. */
function payloadOf(filters: JsonObject): unknown {
  const payloads = ownValue(filters, "payloads");
  return isJsonObject(payloads) ? ownValue(payloads, "true") : undefined;
}

/** The wire form of a flag. */
export function wireFlag(
  stored: FlagRecord,
  { usersById, experimentIds, now }: FlagSurroundings,
): Static<typeof Flag> {
  const flag = shownFlag(stored);
  const simple = simpleRollout(flag.filters);
  return {
    id: flag.id,
    team_id: flag.projectId,
    name: flag.name,
    key: flag.key,
    filters: flag.filters,
    deleted: flag.deleted,
    active: flag.active,
    created_by: wireAuthor(flag.createdById, usersById),
    created_at: wireInstant(flag.createdAt),
    updated_at: wireInstant(flag.updatedAt),
    version: flag.version,
    last_modified_by: wireAuthor(flag.lastModifiedById, usersById),
    is_simple_flag: simple !== undefined,
    rollout_percentage: simple ?? null,
    ensure_experience_continuity: flag.ensureExperienceContinuity,
    experiment_set: [...experimentIds],
    // Surveys and dashboards would be named here; clients expect the lists.
    surveys: [],
    features: enrolsPersons(flag.filters) ? [earlyAccessEntry(flag, payloadOf(flag.filters))] : [],
    rollback_conditions: flag.rollbackConditions,
    performed_rollback: flag.performedRollback,
    can_edit: true,
    tags: [...flag.tags],
    evaluation_tags: [...flag.evaluationContexts],
    evaluation_contexts: [...flag.evaluationContexts],
    usage_dashboard: null,
    analytics_dashboards: [],
    has_enriched_analytics: flag.hasEnrichedAnalytics,
    user_access_level: "editor",
    is_remote_configuration: flag.isRemoteConfiguration,
    has_encrypted_payloads: flag.hasEncryptedPayloads,
    status: flagStatus(flag, now).status,
    evaluation_runtime: flag.evaluationRuntime,
    bucketing_identifier: flag.bucketingIdentifier,
    last_called_at: wireInstantOrNull(flag.lastCalledAt),
  };
}

/**
 * The rollout (`null` for everyone) of a flag that is nothing but one: a single condition on persons
 * without filters or variants. `undefined` for all others.
 */
function simpleRollout(filters: JsonObject): number | null | undefined {
  const groups = ownValue(filters, "groups");
  const [condition] = Array.isArray(groups) && groups.length === 1 ? (groups as Json[]) : [];
  if (!isJsonObject(condition) || !isEmptyList(ownValue(condition, "properties"))) return undefined;
  const multivariate = ownValue(filters, "multivariate");
  if (isJsonObject(multivariate) && !isEmptyList(ownValue(multivariate, "variants"))) {
    return undefined;
  }
  const aggregation =
    ownValue(condition, "aggregation_group_type_index") ??
    ownValue(filters, "aggregation_group_type_index");
  if (typeof aggregation === "number") return undefined;
  if (!isEmptyList(ownValue(filters, "super_groups"))) return undefined;
  const rollout = ownValue(condition, "rollout_percentage");
  return typeof rollout === "number" ? rollout : null;
}

function isEmptyList(value: Json | undefined): boolean {
  return value === undefined || value === null || (Array.isArray(value) && value.length === 0);
}

/** The form of a flag where another record or list names it (posthog-api 4.1). */
export const MinimalFlag = Type.Object({
  id: Type.Integer(),
  team_id: Type.Integer(),
  name: Type.String(),
  key: Type.String(),
  filters: AnyObject,
  deleted: Type.Boolean(),
  active: Type.Boolean(),
  ensure_experience_continuity: Type.Boolean(),
  has_encrypted_payloads: Type.Boolean(),
  version: Type.Integer(),
  evaluation_runtime: Type.String(),
  evaluation_tags: Type.Array(Type.String()),
  bucketing_identifier: Type.String(),
});

/** The minimal form of a live flag; encrypted payloads are left out. */
export function wireMinimalFlag(projectId: number, flag: LiveFlag): Static<typeof MinimalFlag> {
  return {
    id: flag.id,
    team_id: projectId,
    name: flag.name,
    key: flag.key,
    filters: flag.filters,
    deleted: false,
    active: flag.active,
    ensure_experience_continuity: flag.ensureExperienceContinuity,
    has_encrypted_payloads: flag.sealedPayloads !== null,
    version: flag.version,
    evaluation_runtime: flag.evaluationRuntime,
    evaluation_tags: [...flag.evaluationContexts],
    bucketing_identifier: flag.bucketingIdentifier,
  };
}

/** What became of a flag, and why that is said (posthog-api 4.5). */
export const FlagStatusAnswer = Type.Object({
  status: Type.Enum(["ACTIVE", "INACTIVE", "STALE", "DELETED", "UNKNOWN"]),
  reason: Type.String(),
});

/** There are no dashboards here; clients of PostHog's read this form (posthog-api 4.5). */
export const DashboardAnswer = Type.Object({ success: Type.Boolean(), error: Type.String() });

export const BulkDeleteBody = Type.Object({
  ids: Type.Array(Type.Integer(), { minItems: 1, maxItems: 100 }),
});

/** What was deleted, and what was not and why. */
export const BulkDeleted = Type.Object({
  deleted: Type.Array(Type.Object({ id: Type.Integer(), key: Type.String() })),
  errors: Type.Array(Type.Object({ id: Type.Integer(), reason: Type.String() })),
});

import type {
  ConditionExplanation,
  FilterExplanation,
  FlagExplanation,
} from "@hedgerow/core/flags/explain-flag";
import type { FlagDefinition, FlagEvaluation } from "@hedgerow/core/flags/flag";
import { isJsonObject, type Json, type JsonObject } from "@hedgerow/core/json";
import { type Static, Type } from "typebox";
import { Refusal } from "../http/errors.ts";
import { parseStrictJson } from "../http/parse-json.ts";
import { readId } from "../http/path-id.ts";
import { queryText } from "../http/query-text.ts";
import { AnyObject, MapOf, maxChars, Nullable } from "../http/wire-schemas.ts";
import type { ExplainedPerson } from "./explain.ts";
import { typesIn } from "./flag-request.schemas.ts";
import type { LiveFlag } from "./flag-store.ts";
import { MinimalFlag, wireMinimalFlag } from "./flags.schemas.ts";

/** As many as an event may carry. */
const MAX_PROPERTIES_CHARS = 2_000_000;

export const ExplainParameters = Type.Object({
  distinct_id: Type.Optional(Type.String({ description: "Whose value is explained; required." })),
  groups: Type.Optional(
    Type.String({ description: 'JSON of group keys by group type, `{"company": "acme"}`.' }),
  ),
});

export const ExplainBody = Type.Object({
  distinct_id: Type.String({ minLength: 1, description: "Whose value is explained." }),
  groups: Type.Optional(MapOf(Type.Union([Type.String(), Type.Number()]))),
  person_properties: Type.Optional(MapOf(Type.Unknown(), maxChars(MAX_PROPERTIES_CHARS))),
  group_properties: Type.Optional(MapOf(AnyObject, maxChars(MAX_PROPERTIES_CHARS))),
  device_id: Type.Optional(Nullable(Type.String())),
  anon_distinct_id: Type.Optional(Nullable(Type.String())),
  ip: Type.Optional(Nullable(Type.String({ description: "Address whose place counts." }))),
});

/** An explanation as JSON: the answer, its steps, and one readable paragraph. */
export const Explanation = Type.Object(
  {
    flag: Type.Object({ id: Type.Integer(), key: Type.String(), version: Type.Integer() }),
    active: Type.Boolean(),
    value: Type.Union([Type.Boolean(), Type.String()]),
    payload: Type.Unknown(),
    reason: Type.Object({
      code: Type.String(),
      condition_index: Nullable(Type.Integer()),
      description: Type.String(),
    }),
    failed: Type.Boolean(),
    enrollment: Nullable(AnyObject),
    holdout: Nullable(AnyObject),
    conditions: Type.Array(AnyObject),
    variant: Nullable(AnyObject),
    dependencies: Type.Array(Type.Unknown()),
    explanation: Type.Optional(Type.String()),
  },
  { title: "FlagExplanation" },
);

/** The person of a query string; throws a refusal that names the parameter. */
export function explainedPersonOfQuery(query: unknown): ExplainedPerson {
  const distinctId = queryText(query, "distinct_id");
  if (!distinctId) {
    throw new Refusal("required", "This field is required.", { attr: "distinct_id" });
  }
  const sent = parseGroups(queryText(query, "groups") || "{}");
  return explainedPersonOf({ distinct_id: distinctId, groups: sent });
}

/** The person behind a key, with the groups of a query string. */
export function explainedCaller(distinctId: string, query: unknown): ExplainedPerson {
  const groups = parseGroups(queryText(query, "groups") || "{}");
  return explainedPersonOf({ distinct_id: distinctId, groups });
}

function parseGroups(text: string): Record<string, string | number> {
  const refusal = new Refusal("invalid_input", "Expected a JSON object of group keys.", {
    attr: "groups",
  });
  let groups: unknown;
  try {
    groups = parseStrictJson(text);
  } catch {
    throw refusal;
  }
  if (!isJsonObject(groups)) throw refusal;
  const isKey = (key: Json) => typeof key === "string" || typeof key === "number";
  if (!Object.values(groups).every(isKey)) throw refusal;
  return groups as Record<string, string | number>;
}

/** The person of a body. */
export function explainedPersonOf(body: Static<typeof ExplainBody>): ExplainedPerson {
  const groups = Object.create(null) as Record<string, string>;
  const sent = body.groups ?? {};
  for (const type of typesIn(sent, "groups")) groups[type] = String(sent[type]);
  typesIn(body.group_properties ?? {}, "group_properties");
  return {
    distinctId: body.distinct_id,
    deviceId: body.device_id ?? null,
    anonDistinctId: body.anon_distinct_id || null,
    groups,
    // Parsed from JSON, so their values are JSON.
    personProperties: (body.person_properties ?? {}) as JsonObject,
    groupProperties: (body.group_properties ?? {}) as Record<string, JsonObject>,
    ip: body.ip || null,
  };
}

/** The wire form of an explanation and of those of its dependencies. */
export function wireExplanation(told: FlagExplanation): Static<typeof Explanation> {
  const { reason } = told;
  return {
    flag: { id: told.flag.id, key: told.flag.key, version: told.flag.version },
    active: told.active,
    value: told.value,
    payload: told.payload,
    reason: {
      code: reason.code,
      condition_index: reason.conditionIndex,
      description: reason.description,
    },
    failed: told.failed,
    enrollment: told.enrollment && { ...told.enrollment },
    holdout: told.holdout && wireBound(told.holdout),
    conditions: told.conditions.map(wireCondition),
    variant: told.variant && { ...told.variant },
    dependencies: told.dependencies.map(wireExplanation),
  };
}

function wireCondition(condition: ConditionExplanation) {
  return {
    index: condition.index,
    reached: condition.isReached,
    outcome: condition.outcome,
    group: condition.group,
    filters: condition.filters.map(wireFilter),
    rollout: wireBound(condition.rollout),
    variant_override: condition.variantOverride,
  };
}

function wireFilter({ kind, ...filter }: FilterExplanation) {
  return { type: kind, ...filter };
}

function wireBound({ isInside, ...bound }: ConditionExplanation["rollout"]) {
  return { ...bound, inside: isInside };
}

/** Value and reason of each flag by key (posthog-api 4.5). */
export const EvaluationReasons = MapOf(
  Type.Object({
    value: Type.Union([Type.Boolean(), Type.String()]),
    evaluation: Type.Object({
      reason: Type.String(),
      condition_index: Nullable(Type.Integer()),
    }),
  }),
);

/** Flags that are switched off have the reason `disabled`; those on a cycle are left out. */
export function wireReasons(
  flags: readonly FlagDefinition[],
  evaluations: ReadonlyMap<string, FlagEvaluation>,
): Static<typeof EvaluationReasons> {
  type Entry = readonly [string, Static<typeof EvaluationReasons>[string]];
  const entries = flags.flatMap(({ key, active }): readonly Entry[] => {
    if (!active) {
      const evaluation = { reason: "disabled", condition_index: null };
      return [[key, { value: false, evaluation }]];
    }
    const found = evaluations.get(key);
    if (found === undefined) return [];
    const { code, conditionIndex } = found.reason;
    const evaluation = { reason: code, condition_index: conditionIndex };
    return [[key, { value: found.value, evaluation }]];
  });
  return Object.fromEntries(entries);
}

/** Every live flag and its value for the caller, newest first (posthog-api 4.5). */
export const MyFlags = Type.Array(
  Type.Object({
    feature_flag: MinimalFlag,
    value: Type.Union([Type.Boolean(), Type.String()]),
  }),
);

/** Flags that are switched off, or could not be computed, are false. */
export function wireMyFlags(
  projectId: number,
  flags: readonly LiveFlag[],
  evaluations: ReadonlyMap<string, FlagEvaluation>,
): Static<typeof MyFlags> {
  return flags.toReversed().map((flag) => ({
    feature_flag: wireMinimalFlag(projectId, flag),
    value: evaluations.get(flag.key)?.value ?? false,
  }));
}

export const BulkKeysBody = Type.Object({
  ids: Type.Optional(Type.Array(Type.Unknown(), { maxItems: 10_000, ...maxChars(1_000_000) })),
});

export const BulkKeys = Type.Object({
  keys: MapOf(Type.String()),
  warning: Type.Optional(Type.String()),
});

/** A refusal with the field that PostHog answers in place of the envelope (posthog-api 4.5). */
export const BulkKeysRefusal = Type.Object({
  type: Type.String(),
  code: Type.String(),
  detail: Type.String(),
  attr: Nullable(Type.String()),
  error: Type.String(),
});

/** Keys of live flags by id; a refusal when none of the ids can be one (posthog-api 4.5). */
export function wireBulkKeys(
  ids: readonly unknown[],
  flags: readonly FlagDefinition[],
): Static<typeof BulkKeys> | Static<typeof BulkKeysRefusal> {
  const isId = (id: unknown) => readId(String(id)) !== undefined;
  const invalid = ids.filter((id) => !isId(id));
  if (ids.length > 0 && invalid.length === ids.length) {
    const refusal = new Refusal("invalid_input", "Invalid flag IDs provided", { attr: "ids" });
    return { ...refusal.body, error: refusal.message };
  }
  const wanted = new Set(ids.filter(isId).map(Number));
  const keys = flags.filter(({ id }) => wanted.has(id)).map(({ id, key }) => [String(id), key]);
  return {
    keys: Object.fromEntries(keys),
    ...(invalid.length > 0 && {
      warning: `Invalid flag IDs ignored: ${JSON.stringify(invalid).slice(0, 1000)}`,
    }),
  };
}

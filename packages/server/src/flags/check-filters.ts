import { createFindFlag } from "@hedgerow/core/flags/dependency-cycle";
import {
  type FilterContext,
  validateFilters,
  validateSpelling,
} from "@hedgerow/core/flags/validate-filters";
import { isJsonObject, type Json, type JsonObject, ownValue } from "@hedgerow/core/json";
import { refuseProblem } from "./refuse-problem.ts";

/**
 * The filters of a flag as they are stored: always with `groups`, dependencies named by id, and
 * without empty payloads. Throws a refusal for what could not be evaluated (posthog-api 4.3).
 */
export function checkFilters(sent: JsonObject, context: FilterContext): JsonObject {
  const filters = withGroups(sent);
  refuseProblem(validateFilters(filters, context));
  return withDependenciesById(withoutEmptyPayloads(filters), context);
}

/** Throws a refusal where filters without `groups`, which change nothing, were meant to have them. */
export function checkSpelling(sent: JsonObject): void {
  refuseProblem(validateSpelling(sent));
}

/** The oldest form of filters is one bare condition (posthog-api 4.2). */
function withGroups(filters: JsonObject): JsonObject {
  if ((ownValue(filters, "groups") ?? null) !== null) return filters;
  const { properties, rollout_percentage, ...others } = filters;
  const isBare = properties !== undefined || rollout_percentage !== undefined;
  const condition = {
    properties: properties ?? [],
    rollout_percentage: rollout_percentage ?? null,
  };
  return { ...others, groups: isBare ? [condition] : [] };
}

/** An empty text is what forms send for "no payload". */
function withoutEmptyPayloads(filters: JsonObject): JsonObject {
  const payloads = ownValue(filters, "payloads");
  if (!isJsonObject(payloads)) return filters;
  const kept = Object.entries(payloads).filter(([, payload]) => payload !== "");
  return { ...filters, payloads: Object.fromEntries(kept) };
}

/** Dependencies may be sent by key; stored by id they outlive a renaming. */
function withDependenciesById(
  filters: JsonObject,
  { definitions: { flags } }: FilterContext,
): JsonObject {
  const findFlag = createFindFlag(flags);
  const restate = (filter: Json): Json => {
    if (!isJsonObject(filter) || ownValue(filter, "type") !== "flag") return filter;
    const target = findFlag(String(ownValue(filter, "key")));
    return target ? { ...filter, key: String(target.id) } : filter;
  };
  const restateAll = (conditions: Json | undefined): Json =>
    ((conditions ?? []) as readonly Json[]).map((condition) => {
      const properties = isJsonObject(condition) ? ownValue(condition, "properties") : undefined;
      return isJsonObject(condition) && Array.isArray(properties)
        ? { ...condition, properties: (properties as readonly Json[]).map(restate) }
        : condition;
    });
  return { ...filters, groups: restateAll(ownValue(filters, "groups")) };
}

import { isJsonObject, type Json, type JsonObject, ownValue } from "../json.ts";

/** What decides otherwise than by conditions: where one is present, answers differ. */
const OTHER_DECIDERS = ["super_groups", "holdout", "holdout_groups", "feature_enrollment"];

/**
 * The value that a rolled-out flag has for everyone: `true`, or a variant. `null` for all flags whose
 * answer depends on who asks, and for those that are off.
 */
export function constantValue(filters: JsonObject): true | string | null {
  if (OTHER_DECIDERS.some((key) => isPresent(ownValue(filters, key)))) return null;
  const conditions = objectsOf(ownValue(filters, "groups"));
  const opensAt = conditions.findIndex((condition) => isOpen(condition, filters));
  if (opensAt < 0) return null;
  // A condition before it may end the evaluation without an answer.
  if (ownValue(filters, "early_exit") === true && opensAt > 0) return null;
  const values = new Set(conditions.map((condition) => fixedValueOf(condition, filters)));
  const [value = null] = values;
  return values.size === 1 ? value : null;
}

function isPresent(value: Json | undefined): boolean {
  if (Array.isArray(value)) return value.length > 0;
  return value !== undefined && value !== null && value !== false;
}

function objectsOf(list: Json | undefined): readonly JsonObject[] {
  return Array.isArray(list) ? (list as readonly Json[]).filter(isJsonObject) : [];
}

/** Whether a condition takes everyone: persons, with no filter and a full rollout. */
function isOpen(condition: JsonObject, filters: JsonObject): boolean {
  const own = ownValue(condition, "aggregation_group_type_index");
  const aggregation = own === undefined ? ownValue(filters, "aggregation_group_type_index") : own;
  if (typeof aggregation === "number") return false;
  if (objectsOf(ownValue(condition, "properties")).length > 0) return false;
  const percentage = ownValue(condition, "rollout_percentage") ?? 100;
  return typeof percentage === "number" && percentage >= 100;
}

/** The one value that a match of the condition gives; `null` where the hash chooses. */
function fixedValueOf(condition: JsonObject, filters: JsonObject): true | string | null {
  const multivariate = ownValue(filters, "multivariate");
  const variants = isJsonObject(multivariate) ? objectsOf(ownValue(multivariate, "variants")) : [];
  if (variants.length === 0) return true;
  const pinned = ownValue(condition, "variant");
  const chosen =
    variants.find((variant) => ownValue(variant, "key") === pinned) ??
    variants.find((variant) => ownValue(variant, "rollout_percentage") === 100);
  const key = chosen && ownValue(chosen, "key");
  return typeof key === "string" ? key : null;
}

import { isJsonObject, type Json, type JsonObject, ownValue } from "@hedgerow/core/json";

/** What a definition names, by id. */
export interface References {
  readonly flagIds: ReadonlySet<number>;
  readonly cohortIds: ReadonlySet<number>;
}

/**
 * The flags and cohorts that the filters of a flag or cohort name, whether they exist or not.
 * Reads any stored JSON: what has no meaning names nothing. Nesting is bounded by the JSON parser.
 */
export function referencesOf(filters: JsonObject): References {
  const flagIds = new Set<number>();
  const cohortIds = new Set<number>();
  const visit = (value: Json | undefined): void => {
    if (Array.isArray(value)) {
      for (const item of value as readonly Json[]) visit(item);
      return;
    }
    if (!isJsonObject(value)) return;
    switch (ownValue(value, "type")) {
      case "flag":
        addId(flagIds, ownValue(value, "key"));
        break;
      case "cohort":
      case "static-cohort":
      case "dynamic-cohort":
        addId(cohortIds, ownValue(value, "value"));
        break;
      default:
        visit(ownValue(value, "properties"));
        visit(ownValue(value, "values"));
    }
  };
  visit(ownValue(filters, "groups"));
  visit(ownValue(filters, "super_groups"));
  visit(ownValue(filters, "properties"));
  return { flagIds, cohortIds };
}

function addId(ids: Set<number>, value: Json | undefined): void {
  if (typeof value === "string" && !/^\d{1,15}$/.test(value)) return;
  const id = Number(value);
  if ((typeof value === "string" || typeof value === "number") && Number.isSafeInteger(id)) {
    ids.add(id);
  }
}

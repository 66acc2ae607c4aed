import { readCohortId } from "@hedgerow/core/cohorts/read-cohort-filters";
import { isJsonObject, type Json, type JsonObject, ownValue } from "@hedgerow/core/json";

/** What a definition names. */
export interface References {
  /** Flags by id as text; evaluation also understands keys. */
  readonly flagNames: ReadonlySet<string>;
  readonly cohortIds: ReadonlySet<number>;
}

/**
 * The flags and cohorts that the filters of a flag or cohort name, whether they exist or not.
 * Reads any stored JSON: what has no meaning names nothing. Nesting is bounded by the JSON parser.
 */
export function referencesOf(filters: JsonObject): References {
  const flagNames = new Set<string>();
  const cohortIds = new Set<number>();
  const visit = (value: Json | undefined): void => {
    if (Array.isArray(value)) {
      for (const item of value as readonly Json[]) visit(item);
      return;
    }
    if (!isJsonObject(value)) return;
    switch (ownValue(value, "type")) {
      case "flag":
        flagNames.add(String(ownValue(value, "key")));
        break;
      case "cohort":
      case "static-cohort":
      case "dynamic-cohort": {
        const id = readCohortId(ownValue(value, "value"));
        if (id !== null) cohortIds.add(id);
        break;
      }
      default:
        visit(ownValue(value, "properties"));
        visit(ownValue(value, "values"));
    }
  };
  visit(ownValue(filters, "groups"));
  visit(ownValue(filters, "super_groups"));
  visit(ownValue(filters, "properties"));
  return { flagNames, cohortIds };
}

/** Whether the filters make a flag or cohort depend on the flag. */
export function namesFlag(filters: JsonObject, flag: { id: number; key: string }): boolean {
  const { flagNames } = referencesOf(filters);
  return flagNames.has(String(flag.id)) || flagNames.has(flag.key);
}

/** Most names in a refusal; the rest is only counted. */
const MAX_NAMED = 5;

/** The first names of a list as one text, for the refusal of a change that they stand against. */
export function listNames(names: readonly string[]): string {
  const more = names.length - MAX_NAMED;
  return [...names.slice(0, MAX_NAMED), ...(more > 0 ? [`and ${more} more`] : [])].join(", ");
}

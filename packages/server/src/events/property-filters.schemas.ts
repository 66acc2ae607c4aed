import type { Operator } from "@hedgerow/core/flags/match-property";
import { validateComparison } from "@hedgerow/core/flags/validate-comparison";
import { isJsonObject, type Json, type JsonObject, ownValue } from "@hedgerow/core/json";
import { Refusal } from "../http/errors.ts";
import { parseStrictJson } from "../http/parse-json.ts";
import type { PropertyFilter } from "./property-search.ts";

/** A property filter as it was sent, and where it stands, for refusals. */
export interface SentFilter {
  readonly filter: JsonObject;
  readonly where: string;
}

const MAX_FILTERS = 100;

/** The filters of a `properties` parameter: a JSON list of objects; none where it is absent. */
export function sentFiltersOf(text: string | undefined): readonly SentFilter[] {
  if (text === undefined) return [];
  const list = readJsonParameter(text, "properties");
  if (!Array.isArray(list)) throw badFilter("Expected a list of property filters.");
  if (list.length > MAX_FILTERS) throw badFilter(`More than ${MAX_FILTERS} property filters.`);
  return (list as readonly Json[]).map((filter, index) => {
    const where = `Filter ${index}: `;
    if (!isJsonObject(filter)) throw badFilter(`${where}expected an object.`);
    return { filter, where };
  });
}

/** What a filter compares, by the operators of flags; whatever it cannot is refused. */
export function propertyFilterOf({ filter, where }: SentFilter, timeZone: string): PropertyFilter {
  const key = ownValue(filter, "key");
  if (typeof key !== "string" || key === "") throw badFilter(`${where}a key is required.`);
  const operator = ownValue(filter, "operator") ?? "exact";
  const value = ownValue(filter, "value");
  const problem = validateComparison(operator, value, timeZone);
  if (problem) throw badFilter(`${where}${problem.detail}`);
  return { key, operator: operator as Operator, value };
}

/** Parses a parameter that holds JSON; refused by its name where it does not. */
export function readJsonParameter(text: string, attr: string): Json {
  try {
    return parseStrictJson(text);
  } catch (error) {
    const reason = error instanceof Error ? error.message : "unreadable";
    throw new Refusal("invalid_input", `Not valid JSON: ${reason}`, { attr });
  }
}

/** The refusal of a property filter. */
export function badFilter(detail: string): Refusal {
  return new Refusal("invalid_input", detail, { attr: "properties" });
}

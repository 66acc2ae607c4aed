import type { Operator } from "@hedgerow/core/flags/match-property";
import { validateComparison } from "@hedgerow/core/flags/validate-comparison";
import { isJsonObject, type Json, type JsonObject, ownValue } from "@hedgerow/core/json";
import { Refusal } from "../http/errors.ts";
import type { TestAccountFilter } from "./account-store.ts";

const ATTR = "test_account_filters";
const MAX_FILTERS = 50;

/** Reads a project's `test_account_filters`; throws a {@link Refusal} that names the filter. */
export function testAccountFiltersOf(sent: readonly unknown[]): readonly TestAccountFilter[] {
  if (sent.length > MAX_FILTERS)
    throw new Refusal("invalid_input", `More than ${MAX_FILTERS} filters.`, { attr: ATTR });
  return (sent as readonly Json[]).map((filter, index): TestAccountFilter => {
    const attr = `${ATTR}__${index}`;
    if (!isJsonObject(filter)) throw new Refusal("invalid_input", "Expected an object.", { attr });
    const type = ownValue(filter, "type") ?? "event";
    if (type !== "event" && type !== "person")
      throw new Refusal("invalid_choice", "Possible is event, person.", { attr: `${attr}__type` });
    const key = ownValue(filter, "key");
    if (typeof key !== "string" || key === "")
      throw new Refusal("required", "This field is required.", { attr: `${attr}__key` });
    const operator = ownValue(filter, "operator") ?? "exact";
    const value = ownValue(filter, "value");
    const problem = validateComparison(operator, value, "UTC");
    if (problem) throw new Refusal("invalid_input", problem.detail, { attr });
    return { on: type, key, operator: operator as Operator, value };
  });
}

/** Filters as they are sent. */
export function wireTestAccountFilters(filters: readonly TestAccountFilter[]): JsonObject[] {
  return filters.map(({ on, key, operator, value }) => ({
    key,
    type: on,
    operator,
    ...(value !== undefined && { value }),
  }));
}

import type { Json } from "../json.ts";
import { isOperator, type Operator, readBounds, toNumber, toText } from "./match-property.ts";
import { isValidPattern, weighPattern } from "./pattern.ts";
import { parseVersion, parseVersionRange } from "./semantic-version.ts";
import { createTimeZone, readDateExpression } from "./zoned-date.ts";

/** What a filter value must be for an operator to ever match. */
type Need =
  | "nothing"
  | "value"
  | "text"
  | "texts"
  | "pattern"
  | "number"
  | "bounds"
  | "date"
  | "version"
  | "range";

const NEEDS: Readonly<Record<Operator, Need | null>> = {
  exact: "value",
  is_not: "value",
  is_set: "nothing",
  is_not_set: "nothing",
  icontains: "text",
  not_icontains: "text",
  starts_with: "text",
  not_starts_with: "text",
  ends_with: "text",
  not_ends_with: "text",
  icontains_multi: "texts",
  not_icontains_multi: "texts",
  regex: "pattern",
  not_regex: "pattern",
  gt: "number",
  gte: "number",
  lt: "number",
  lte: "number",
  between: "bounds",
  not_between: "bounds",
  is_date_exact: "date",
  is_date_before: "date",
  is_date_after: "date",
  semver_eq: "version",
  semver_neq: "version",
  semver_gt: "version",
  semver_gte: "version",
  semver_lt: "version",
  semver_lte: "version",
  semver_tilde: "range",
  semver_caret: "range",
  semver_wildcard: "range",
  // These compare cohorts and flags, never a property.
  in: null,
  not_in: null,
  flag_evaluates_to: null,
};

/** Checks operator and value of a property filter; `null` when they can be evaluated. */
export function validateComparison(
  operator: Json,
  value: Json | undefined,
  timeZone: string,
): { readonly code: string; readonly detail: string } | null {
  const name = operator ?? "exact";
  const need = isOperator(name) ? NEEDS[name] : null;
  if (need === null) return { code: "invalid_operator", detail: `Invalid operator: ${show(name)}` };
  if (need === "nothing") return null;
  if (value !== undefined && value !== null && meets(need, String(name), value, timeZone))
    return null;
  return need === "date"
    ? { code: "invalid_date", detail: `Invalid date value: ${show(value ?? null)}` }
    : {
        code: "invalid_value",
        detail: `Invalid value for operator ${show(name)}: ${show(value ?? null)}`,
      };
}

/** What the pattern of a comparison weighs, see {@link weighPattern}; 0 for one without a pattern. */
export function weighComparison(operator: Json, value: Json | undefined): number {
  const isPattern = isOperator(operator) && NEEDS[operator] === "pattern";
  return isPattern && typeof value === "string" ? weighPattern(value) : 0;
}

function meets(need: Need, operator: string, value: Json, timeZone: string): boolean {
  switch (need) {
    case "nothing":
    case "value":
      return true;
    case "text":
      return typeof value === "string";
    case "texts":
      return typeof value === "string" || (Array.isArray(value) && value.every(isScalar));
    case "pattern":
      return typeof value === "string" && isValidPattern(value);
    case "number": {
      const number = toNumber(value);
      return number !== null && !Number.isNaN(number);
    }
    case "bounds":
      return readBounds(value) !== null;
    case "date":
      return (
        typeof value === "string" && readDateExpression(value, createTimeZone(timeZone)) !== null
      );
    case "version":
      return isScalar(value) && parseVersion(toText(value)) !== null;
    case "range":
      return (
        isScalar(value) &&
        parseVersionRange(
          toText(value),
          operator === "semver_tilde"
            ? "tilde"
            : operator === "semver_caret"
              ? "caret"
              : "wildcard",
        ) !== null
      );
  }
}

function isScalar(value: Json): boolean {
  return typeof value === "string" || typeof value === "number" || typeof value === "bigint";
}

function show(value: Json): string {
  const text = toText(value);
  return text.length > 100 ? `${text.slice(0, 100)}…` : text;
}

import type { Json } from "../json.ts";
import { isOperator, type Operator, readBounds, toNumber, toText } from "./match-property.ts";
import { isValidPattern, MAX_STORED_WEIGHT, weighPattern } from "./pattern.ts";
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

/** Most characters that all patterns of one flag, or of one cohort, may have: reading them takes time. */
const MAX_STORED_PATTERN_CHARS = 250_000;

/** What the patterns of one flag, or of one cohort, are in sum; none of them is compiled for it. */
export class StoredPatterns {
  readonly #owner: string;
  #weight = 0;
  #chars = 0;

  /** @param owner whose they are, in words */
  constructor(owner: "flag" | "cohort") {
    this.#owner = owner;
  }

  /** What to say of the comparison with which they become too large; `null` while they are not. */
  add(operator: Json, value: Json | undefined): string | null {
    const isPattern = isOperator(operator) && NEEDS[operator] === "pattern";
    if (!isPattern || typeof value !== "string") return null;
    this.#chars += value.length;
    if (this.#chars > MAX_STORED_PATTERN_CHARS) {
      return `the regular expressions of a ${this.#owner} cannot have more than ${MAX_STORED_PATTERN_CHARS} characters in sum.`;
    }
    this.#weight += weighPattern(value);
    return this.#weight <= MAX_STORED_WEIGHT
      ? null
      : `the regular expressions of a ${this.#owner} cannot be larger in sum (up to here ${this.#weight}, at most ${MAX_STORED_WEIGHT}; repetitions such as {1,50} count as often as they may repeat).`;
  }
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

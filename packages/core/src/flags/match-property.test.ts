import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Json } from "../json.ts";
import { TRUSTING_PATTERNS } from "./golden-cases.setup.ts";
import { compare, compileComparison, isOperator, type Operator } from "./match-property.ts";
import { createPatternBudget } from "./pattern.ts";
import { createTimeZone } from "./zoned-date.ts";

const context = {
  nowMs: new Date("2025-06-01T12:00:00Z").getTime(),
  patternBudget: createPatternBudget(),
};
const tools = { timeZone: createTimeZone("UTC"), backtracking: TRUSTING_PATTERNS };

function outcome(operator: Operator, filterValue: Json | undefined, value: Json | undefined) {
  return compare(compileComparison(operator, filterValue, tools), value, context);
}

const OPPOSITES: readonly (readonly [Operator, Operator])[] = [
  ["exact", "is_not"],
  ["icontains", "not_icontains"],
  ["starts_with", "not_starts_with"],
  ["ends_with", "not_ends_with"],
  ["icontains_multi", "not_icontains_multi"],
  ["is_set", "is_not_set"],
];

describe("operators", () => {
  it("[FE-51] compiles a pattern when it is first run, and only then", () => {
    const compiled: string[] = [];
    const comparison = compileComparison("regex", "a(?=b)", {
      ...tools,
      backtracking: {
        compile(source, flags) {
          compiled.push(source);
          return TRUSTING_PATTERNS.compile(source, flags);
        },
      },
    });
    expect(compare(comparison, undefined, context)).toBe(false);
    expect(compiled).toEqual([]);
    expect(compare(comparison, "ab", context)).toBe(true);
    expect(compare(comparison, "ac", context)).toBe(false);
    expect(compiled).toEqual(["a(?=b)"]);
  });

  it("[FE-51] runs patterns of one request up to a weight, and compiles none beyond it", () => {
    const patternBudget = createPatternBudget();
    let compiledCount = 0;
    const counting = {
      ...tools,
      compilePattern: () => {
        compiledCount += 1;
        return { test: () => true };
      },
    };
    const outcomes = Array.from({ length: 1_000 }, (_, at) =>
      compare(compileComparison("not_regex", `(a{50}|b){40}${at}`, counting), "x", {
        ...context,
        patternBudget,
      }),
    );
    expect(outcomes[0]).toBe(false);
    expect(outcomes.at(-1)).toBe("error");
    expect(compiledCount).toBe(outcomes.indexOf("error"));
    expect(compiledCount).toBeGreaterThan(200);
    expect(outcomes.slice(compiledCount)).toEqual(
      Array.from({ length: 1_000 - compiledCount }, () => "error"),
    );
    const simple = compileComparison("regex", "plain", counting);
    expect(compare(simple, "x", { ...context, patternBudget })).toBe(true);
  });

  it("[FE-10] compares numbers given as text as numbers", () => {
    expect(outcome("gt", "9", "10")).toBe(true);
    expect(outcome("lt", "100000000", 3426)).toBe(true);
    expect(outcome("gt", "9", "ten")).toBe("error");
    expect(outcome("gt", 0, true)).toBe("error");
  });

  it("[FE-10] finds presence, null included", () => {
    expect(outcome("is_not_set", "is_not_set", undefined)).toBe(true);
    expect(outcome("is_not_set", undefined, "pro")).toBe(false);
    expect(outcome("is_set", undefined, null)).toBe(true);
    expect(outcome("is_set", null, undefined)).toBe(false);
  });

  it("[FE-10] compares booleans and numbers with their text", () => {
    expect(outcome("exact", ["true"], true)).toBe(true);
    expect(outcome("exact", "TRUE", true)).toBe(true);
    expect(outcome("exact", ["5"], 5)).toBe(true);
    expect(outcome("exact", 5, "5")).toBe(true);
    expect(outcome("exact", ["5"], 5.5)).toBe(false);
  });

  it("[FE-10] compares truthiness where the filter is boolean", () => {
    for (const value of ["banana", 0, null, false, "False", {}]) {
      expect(outcome("exact", "false", value)).toBe(true);
      expect(outcome("is_not", false, value)).toBe(false);
    }
    for (const value of [true, "true", "TRUE", [], [true, "True"]]) {
      expect(outcome("exact", [], value)).toBe(true);
      expect(outcome("exact", ["true"], value)).toBe(true);
    }
  });

  it("[FE-10] lower-cases fully for equality and only A to Z for parts", () => {
    expect(outcome("exact", "ÉCOLE", "école")).toBe(true);
    expect(outcome("exact", "Kelvin", "\u212aelvin")).toBe(true);
    expect(outcome("icontains", "É", "école")).toBe(false);
    expect(outcome("icontains", "COLE", "école")).toBe(true);
    expect(outcome("starts_with", "AB", "abé")).toBe(true);
    expect(outcome("exact", "", "")).toBe(true);
    expect(outcome("exact", "", "x")).toBe(false);
  });

  it("[FE-10] orders versions as versions", () => {
    expect(outcome("semver_lt", "1.10.0", "1.9.3")).toBe(true);
    expect(outcome("semver_lt", "1.0.0", "1.0.0-rc.1")).toBe(true);
    expect(outcome("semver_gt", "1.0.0-rc.2", "1.0.0-rc.10")).toBe(true);
    expect(outcome("semver_eq", "1.0.0", "1.0.0+build")).toBe(false);
    expect(outcome("semver_neq", "1.0.0", "junk")).toBe(false);
    expect(outcome("semver_neq", "junk", "1.0.0")).toBe("error");
    expect(outcome("semver_tilde", "1", "1.0.9")).toBe(true);
    expect(outcome("semver_tilde", "1", "1.1.0")).toBe(false);
    expect(outcome("semver_caret", "0.0.3", "0.0.4")).toBe(false);
    expect(outcome("semver_wildcard", "*", "1.0.0-rc.1")).toBe(false);
    expect(outcome("semver_wildcard", "1.2", "1.9.0")).toBe(true);
    expect(outcome("semver_wildcard", "0.2", "0.3.0")).toBe(false);
    expect(outcome("semver_caret", "1.2.3-beta.1", "1.2.3-beta.2")).toBe(true);
    expect(outcome("semver_caret", "1.2.3-beta.1", "1.2.4-beta.2")).toBe(false);
    // Longer than a binary64 is exact.
    expect(outcome("semver_gt", "1.0.9007199254740992", "1.0.9007199254740993")).toBe(true);
    expect(outcome("semver_eq", "1.0.99999999999999999999999", "1.0.0")).toBe("error");
  });

  it("[FE-10] holds what is no number outside every range", () => {
    expect(outcome("between", [1, 3], "x")).toBe(false);
    expect(outcome("not_between", [1, 3], "x")).toBe(true);
    expect(outcome("not_between", [1, 3], null)).toBe(true);
    expect(outcome("not_between", [1, 3], "NaN")).toBe(false);
    expect(outcome("not_between", [3, 1], undefined)).toBe("error");
  });

  it("[FE-11] is false without a filter value, negative operators included", () => {
    for (const operator of ["exact", "is_not", "not_icontains", "not_regex", "gt"] as const) {
      for (const value of ["x", undefined]) {
        expect(outcome(operator, null, value)).toBe(false);
        expect(outcome(operator, undefined, value)).toBe(false);
      }
    }
  });

  it("[FE-11] matches an invalid pattern neither way", () => {
    expect(outcome("regex", "?*", "x")).toBe(false);
    expect(outcome("not_regex", "?*", "x")).toBe(false);
    expect(outcome("not_regex", "x", undefined)).toBe(true);
  });

  it("[FE-11] means nothing where an operator of cohorts or flags stands on a property", () => {
    for (const operator of ["in", "not_in", "flag_evaluates_to"] as const) {
      expect(outcome(operator, "x", "x")).toBe("error");
      expect(outcome(operator, "x", undefined)).toBe(
        compileComparison(operator, "x", tools).whenMissing,
      );
    }
  });

  it("knows operators by their own names only", () => {
    expect(isOperator("exact")).toBe(true);
    expect(isOperator("constructor")).toBe(false);
    expect(isOperator("__proto__")).toBe(false);
  });

  it("[FE-10] makes each negative operator the exact opposite", () => {
    fc.assert(
      fc.property(
        fc.constantFrom(...OPPOSITES),
        fc.jsonValue(),
        fc.option(fc.jsonValue(), { nil: undefined }),
        ([positive, negative], filterValue, value) => {
          const given = filterValue as Json;
          fc.pre(given !== null);
          expect(outcome(negative, given, value as Json | undefined)).toBe(
            !outcome(positive, given, value as Json | undefined),
          );
        },
      ),
    );
  });
});

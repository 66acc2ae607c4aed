import { compare, compileComparison, type Operator } from "@hedgerow/core/flags/match-property";
import {
  type BacktrackingPatterns,
  createPatternBudget,
  keepPatterns,
} from "@hedgerow/core/flags/pattern";
import { createTimeZone } from "@hedgerow/core/flags/zoned-date";
import type { Json, JsonObject } from "@hedgerow/core/json";
import { ownValue } from "@hedgerow/core/json";
import { type PropertyCondition, QueryTooLong } from "./event-store.ts";

/** One condition on a property of events; its operator and value were checked. */
export interface PropertyFilter {
  readonly key: string;
  readonly operator: Operator;
  readonly value: Json | undefined;
}

export interface SearchTools {
  readonly now: Date;
  /** IANA name: dates without an offset are read in it. */
  readonly timeZone: string;
  readonly backtracking: BacktrackingPatterns;
  /** What all patterns of the search may cost, as multiples of what one flag request may. */
  readonly patternBudgets?: number;
}

/** For a search that somebody waits for. */
const PATTERN_BUDGETS = 50;

/**
 * The filters as one condition that holds when all of them do, by the flags' own operators; a
 * comparison that cannot be made is no match (flag-evaluation 7.1). One search, one condition: it
 * ends the search by {@link QueryTooLong} when its patterns take too long.
 */
export function compilePropertySearch(
  filters: readonly PropertyFilter[],
  { now, timeZone, backtracking, patternBudgets = PATTERN_BUDGETS }: SearchTools,
): PropertyCondition {
  const tools = {
    timeZone: createTimeZone(timeZone),
    backtracking,
    compilePattern: keepPatterns(backtracking),
  };
  const comparisons = filters.map(({ key, operator, value }) => ({
    key,
    comparison: compileComparison(operator, value, tools),
  }));
  const left = createPatternBudget();
  left.steps *= patternBudgets;
  left.backtrackingSteps *= patternBudgets;

  function matches(properties: JsonObject): boolean {
    const patternBudget = createPatternBudget();
    const { steps, backtrackingSteps } = patternBudget;
    const context = { nowMs: now.getTime(), patternBudget };
    const isMatch = comparisons.every(
      ({ key, comparison }) => compare(comparison, ownValue(properties, key), context) === true,
    );
    left.steps -= steps - patternBudget.steps;
    left.backtrackingSteps -= backtrackingSteps - patternBudget.backtrackingSteps;
    if (left.steps < 0 || left.backtrackingSteps < 0) throw new QueryTooLong();
    return isMatch;
  }

  return {
    requiredNames: comparisons
      .filter(({ comparison }) => comparison.whenMissing !== true)
      .map(({ key }) => key),
    matches,
  };
}

import { compare, compileComparison, type Operator } from "@hedgerow/core/flags/match-property";
import { type BacktrackingPatterns, createPatternBudget } from "@hedgerow/core/flags/pattern";
import { createTimeZone } from "@hedgerow/core/flags/zoned-date";
import type { Json, JsonObject } from "@hedgerow/core/json";
import { ownValue } from "@hedgerow/core/json";
import { Refusal } from "../http/errors.ts";
import type { PropertyCondition } from "./event-store.ts";

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
}

/** A search that has looked at events for this long is given up. */
const MAX_SEARCH_MS = 10_000;
/** What all patterns of one search may cost, as multiples of what one flag request may. */
const PATTERN_BUDGETS = 50;

/**
 * The filters as one condition that holds when all of them do, by the flags' own operators; a
 * comparison that cannot be made is no match (flag-evaluation 7.1). One search, one condition: it
 * refuses to go on when the search takes too long.
 */
export function compilePropertySearch(
  filters: readonly PropertyFilter[],
  { now, timeZone, backtracking }: SearchTools,
): PropertyCondition {
  const tools = { timeZone: createTimeZone(timeZone), backtracking };
  const comparisons = filters.map(({ key, operator, value }) => ({
    key,
    comparison: compileComparison(operator, value, tools),
  }));
  const startedMs = performance.now();
  const left = createPatternBudget();
  left.steps *= PATTERN_BUDGETS;
  left.backtrackingSteps *= PATTERN_BUDGETS;

  function matches(properties: JsonObject): boolean {
    const patternBudget = createPatternBudget();
    const { steps, backtrackingSteps } = patternBudget;
    const context = { nowMs: now.getTime(), patternBudget };
    const isMatch = comparisons.every(
      ({ key, comparison }) => compare(comparison, ownValue(properties, key), context) === true,
    );
    left.steps -= steps - patternBudget.steps;
    left.backtrackingSteps -= backtrackingSteps - patternBudget.backtrackingSteps;
    const isTooSlow = performance.now() - startedMs > MAX_SEARCH_MS;
    if (isTooSlow || left.steps < 0 || left.backtrackingSteps < 0) {
      throw new Refusal(
        "invalid_input",
        "The search takes too long. Narrow it by event, distinct_id, after or before.",
        { attr: "properties" },
      );
    }
    return isMatch;
  }

  return {
    requiredNames: comparisons
      .filter(({ comparison }) => comparison.whenMissing !== true)
      .map(({ key }) => key),
    matches,
  };
}

import type { CompiledCohort } from "@hedgerow/core/cohorts/cohort";
import { matchCohort } from "@hedgerow/core/cohorts/match-cohort";
import { createPatternBudget } from "@hedgerow/core/flags/pattern";
import { PersonView } from "@hedgerow/core/flags/person-view";
import type { JsonObject } from "@hedgerow/core/json";
import { QueryTooLong } from "../events/event-store.ts";
import {
  compilePropertySearch,
  type PropertyFilter,
  type SearchTools,
} from "../events/property-search.ts";
import type { PersonCondition, PersonFacts } from "./person-records.ts";

/** Cohorts of a project, by id, as flags read them. */
export type CompiledCohorts = ReadonlyMap<number, CompiledCohort>;

/** What patterns of the cohorts of one search may cost, as multiples of what one flag request may. */
const PATTERN_BUDGETS = 50;
const NOTHING: JsonObject = {};

/** Properties that satisfy every filter, by the operators of flags. */
export function havingProperties(
  filters: readonly PropertyFilter[],
  tools: SearchTools,
): PersonCondition {
  const { requiredNames, matches } = compilePropertySearch(filters, tools);
  return {
    requiredNames,
    needsStaticCohorts: false,
    matches: ({ properties }) => matches(properties),
  };
}

/**
 * Membership of a cohort that can be decided, by the routine of flags, or the lack of it. One
 * search, one condition: it ends the search by {@link QueryTooLong} when its patterns take too long.
 */
export function inCohort(
  cohort: CompiledCohort,
  cohorts: CompiledCohorts,
  { now, wanted }: { now: Date; wanted: boolean },
): PersonCondition {
  const { steps, backtrackingSteps } = createPatternBudget();
  let stepsLeft = steps * PATTERN_BUDGETS;
  let backtrackingStepsLeft = backtrackingSteps * PATTERN_BUDGETS;
  return {
    requiredNames: [],
    needsStaticCohorts: cohort.hasStoredMembers || cohort.needs.staticCohorts,
    matches(person) {
      const view = viewOf(person, now);
      const isMember = matchCohort(cohort, cohorts, view) === true;
      stepsLeft -= steps - view.patternBudget.steps;
      backtrackingStepsLeft -= backtrackingSteps - view.patternBudget.backtrackingSteps;
      if (stepsLeft < 0 || backtrackingStepsLeft < 0) throw new QueryTooLong();
      return isMember === wanted;
    },
  };
}

/** The cohorts that a person is in, of those that can be decided; ascending. */
export function cohortIdsOf(person: PersonFacts, cohorts: CompiledCohorts, now: Date): number[] {
  const view = viewOf(person, now);
  return [...cohorts.values()]
    .filter((cohort) => cohort.failure === null && matchCohort(cohort, cohorts, view) === true)
    .map(({ id }) => id)
    .sort((one, other) => one - other);
}

/** One condition of several; `undefined` for none. */
export function allOf(conditions: readonly PersonCondition[]): PersonCondition | undefined {
  if (conditions.length <= 1) return conditions[0];
  return {
    requiredNames: conditions.flatMap(({ requiredNames }) => requiredNames),
    needsStaticCohorts: conditions.some(({ needsStaticCohorts }) => needsStaticCohorts),
    matches: (person) => conditions.every((condition) => condition.matches(person)),
  };
}

/** A person by stored facts alone. */
function viewOf(person: PersonFacts, now: Date): PersonView {
  return new PersonView({
    now,
    distinctId: person.distinctId,
    personProperties: NOTHING,
    geoProperties: NOTHING,
    stored: { person: { ...person, hashKeyOverrides: new Map() } },
  });
}

import { compare } from "../flags/match-property.ts";
import { type PersonView, UNAVAILABLE } from "../flags/person-view.ts";
import type { CohortRule, CompiledCohort } from "./cohort.ts";

/**
 * Whether the person is in the cohort; `UNAVAILABLE` when deciding took a stored fact that could
 * not be read. The one routine for flags, previews and counts. The cohort must have no `failure`.
 */
export function matchCohort(
  cohort: CompiledCohort,
  cohorts: ReadonlyMap<number, CompiledCohort>,
  person: PersonView,
): boolean | typeof UNAVAILABLE {
  const known = person.membership(cohort.id);
  if (known !== undefined) return known;
  const result = cohort.hasStoredMembers
    ? person.isInStaticCohort(cohort.id)
    : matchRule(cohort.rule, cohorts, person, NOTHING_PERFORMED);
  person.rememberMembership(cohort.id, result);
  return result;
}

const NOTHING_PERFORMED = (): boolean => false;

/**
 * Whether a rule holds for the person: of a cohort, or of a calculation of its members.
 * @param performed whether the person did what a behavioral leaf asks for, by its index
 */
export function matchRule(
  rule: CohortRule,
  cohorts: ReadonlyMap<number, CompiledCohort>,
  person: PersonView,
  performed: (index: number) => boolean,
): boolean | typeof UNAVAILABLE {
  switch (rule.kind) {
    case "nobody":
      return false;
    case "group":
      for (const child of rule.rules) {
        const matched = matchRule(child, cohorts, person, performed);
        if (matched === UNAVAILABLE) return UNAVAILABLE;
        if (matched !== rule.all) return matched;
      }
      return rule.all;
    case "property": {
      const value = person.value(rule.property);
      if (value === UNAVAILABLE) return UNAVAILABLE;
      return (compare(rule.comparison, value, person) === true) !== rule.isNegated;
    }
    case "created_at": {
      const value = person.createdAt();
      if (value === UNAVAILABLE) return UNAVAILABLE;
      return (compare(rule.comparison, value, person) === true) !== rule.isNegated;
    }
    case "behavior":
      return performed(rule.index) !== rule.isNegated;
    case "cohort": {
      const nested = cohorts.get(rule.id);
      if (nested === undefined) return !rule.wanted;
      const isMember = matchCohort(nested, cohorts, person);
      return isMember === UNAVAILABLE ? UNAVAILABLE : isMember === rule.wanted;
    }
  }
}

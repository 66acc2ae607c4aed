import type { FailureCode } from "../flags/flag.ts";
import type { CompiledComparison } from "../flags/match-property.ts";
import type { PropertyName } from "../flags/person-property.ts";

/** A cohort ready to be matched against one person. */
export interface CompiledCohort {
  readonly id: number;
  /** Membership is a stored fact, never a rule. */
  readonly isStatic: boolean;
  /** Set when the cohort, or one it refers to, cannot be decided: flags reaching it fail. */
  readonly failure: FailureCode | null;
  readonly rule: CohortRule;
  readonly needs: CohortNeeds;
}

/** The rule of a dynamic cohort. */
export type CohortRule =
  | { readonly kind: "nobody" }
  | { readonly kind: "group"; readonly all: boolean; readonly rules: readonly CohortRule[] }
  | {
      readonly kind: "property";
      readonly property: PropertyName;
      readonly comparison: CompiledComparison;
      /** Applied after an error has become false (flag-evaluation 10.4). */
      readonly isNegated: boolean;
    }
  | {
      readonly kind: "created_at";
      readonly comparison: CompiledComparison;
      readonly isNegated: boolean;
    }
  | { readonly kind: "cohort"; readonly id: number; readonly wanted: boolean };

/** Stored facts a cohort reads, those of nested cohorts included. */
export interface CohortNeeds {
  readonly personProperties: readonly PropertyName[];
  readonly createdAt: boolean;
  readonly staticCohorts: boolean;
}

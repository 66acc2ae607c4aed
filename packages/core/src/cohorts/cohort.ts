import type { CohortDefinition, FailureCode } from "../flags/flag.ts";
import type { CompiledComparison } from "../flags/match-property.ts";
import type { PropertyName } from "../flags/person-property.ts";
import type { Behavior } from "./behavior.ts";

/** A cohort ready to be matched against one person. */
export interface CompiledCohort {
  readonly id: number;
  readonly definition: CohortDefinition;
  /** Membership is a stored fact: of lists, and where past behavior counts. */
  readonly hasStoredMembers: boolean;
  /** Set when the cohort itself cannot be decided, whatever it refers to. */
  readonly ownFailure: FailureCode | null;
  /** Set when the cohort, or one it refers to, cannot be decided: flags reaching it fail. */
  readonly failure: FailureCode | null;
  readonly rule: CohortRule;
  readonly needs: CohortNeeds;
}

/** The rule of a cohort that asks for past behavior, for finding its members. */
export interface CohortCalculation {
  readonly rule: CohortRule;
  /** What the rule's behavioral leaves ask for, by their index. */
  readonly behaviors: readonly Behavior[];
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
  /** Occurs in a {@link CohortCalculation} only. */
  | { readonly kind: "behavior"; readonly index: number; readonly isNegated: boolean }
  | { readonly kind: "cohort"; readonly id: number; readonly wanted: boolean };

/** Stored facts a cohort reads, those of nested cohorts included. */
export interface CohortNeeds {
  readonly personProperties: readonly PropertyName[];
  readonly createdAt: boolean;
  readonly staticCohorts: boolean;
}

import type { CompiledCohort } from "../cohorts/cohort.ts";
import type { Json } from "../json.ts";
import type { Bucketing, EncodedText } from "./bucketing.ts";
import type { FailureCode, FlagDefinition, FlagEvaluation, FlagIdentity } from "./flag.ts";
import type { CompiledComparison } from "./match-property.ts";
import type { PropertyName } from "./person-property.ts";
import type { Ending } from "./reason.ts";

/**
 * A project's flags, parsed and prepared once per change of definitions. Evaluations of one set
 * share scratch memory and must not run in parallel with one another (they are synchronous).
 */
export interface FlagSet {
  /** Active flags, dependencies before their dependants; those in `cyclic` are not among them. */
  readonly flags: readonly CompiledFlag[];
  /** Active flags on a dependency cycle, and those depending on them (flag-evaluation 11.5). */
  readonly cyclic: readonly CompiledFlag[];
  /** Every active flag by position, cyclic ones included. */
  readonly byPosition: readonly CompiledFlag[];
  readonly byKey: ReadonlyMap<string, CompiledFlag>;
  readonly hasDependencies: boolean;
  readonly cohorts: ReadonlyMap<number, CompiledCohort>;
  /** Flags whose hash key is stored when an anonymous id is sent (flag-evaluation 16.3). */
  readonly continuityKeys: readonly string[];
  readonly bucketing: Bucketing;
  readonly holdoutPrefix: EncodedText;
}

/** An active flag ready to be evaluated. */
export interface CompiledFlag {
  /** Position among the set's active flags; dependencies refer to it. */
  readonly index: number;
  readonly identity: FlagIdentity;
  readonly definition: FlagDefinition;
  /** Set when the stored definition could not be read: the flag fails on every request. */
  readonly failure: FailureCode | null;
  readonly hasMissingDependency: boolean;
  /** Positions of the active flags this one refers to. */
  readonly dependencies: readonly number[];
  readonly enrollmentProperty: PropertyName | null;
  /** Legacy early access: the first of `super_groups` (flag-evaluation 8.4). */
  readonly superCondition: CompiledCondition | null;
  readonly holdout: CompiledHoldout | null;
  readonly conditions: readonly CompiledCondition[];
  readonly exitsEarly: boolean;
  readonly variantKeys: readonly string[];
  readonly variantBounds: Float64Array;
  readonly payloads: ReadonlyMap<string, Json>;
  readonly hashPrefix: EncodedText;
  readonly aggregation: Aggregation | null;
  readonly isDeviceBucketed: boolean;
  /** Eligible for experience continuity (flag-evaluation 16.1). */
  readonly isContinuous: boolean;
  readonly needs: FlagNeeds;
  /** Answers given so far: equal outcomes of a flag are one shared object. */
  readonly answers: FlagAnswers;
}

/** A flag's answers, each made when it is first given. */
export interface FlagAnswers {
  /** For matches: by condition and variant, `condition * (variants + 1) + variant + 1`. */
  readonly matches: (FlagEvaluation | undefined)[];
  /** For all else: by ending, then by condition plus one (0 for no condition). */
  readonly others: Map<Ending | "enrolled", (FlagEvaluation | undefined)[]>;
}

/** A group type a flag or condition aggregates by; `name` is null where the index is unmapped. */
export interface Aggregation {
  readonly groupName: string | null;
}

/** A holdout, of the newer or the legacy form (flag-evaluation 9). */
export interface CompiledHoldout {
  readonly exclusionPercentage: number;
  readonly answer: FlagEvaluation;
}

/** One entry of `filters.groups`. */
export interface CompiledCondition {
  /** Position in `filters.groups`. */
  readonly index: number;
  /** `null` for a condition on the person. */
  readonly aggregation: Aggregation | null;
  /** Property and dependency filters in stored order, then the cohort filters (4.2). */
  readonly filters: readonly CompiledFilter[];
  readonly rolloutPercentage: number;
  /** Position of the variant the condition pins; -1 where the hash decides. */
  readonly variantIndex: number;
  /** True when the identifier's hash can change the answer. */
  readonly hashDecides: boolean;
}

/** One filter of a condition. */
export type CompiledFilter =
  | {
      readonly kind: "person";
      readonly property: PropertyName;
      readonly comparison: CompiledComparison;
    }
  | {
      readonly kind: "group";
      readonly groupName: string | null;
      readonly property: PropertyName;
      readonly comparison: CompiledComparison;
    }
  | {
      /** The person's row itself: only `created_at` exists there (flag-evaluation 6.6). */
      readonly kind: "person_metadata";
      readonly isCreatedAt: boolean;
      readonly comparison: CompiledComparison;
    }
  | {
      readonly kind: "flag";
      /** Position of the target; -1 for one that is switched off and so counts as false. */
      readonly target: number;
      /** `null` where the filter can never match. */
      readonly expected: boolean | string | null;
    }
  | {
      readonly kind: "cohort";
      readonly cohort: CompiledCohort | null;
      /** Membership that matches; `null` for an operator that never does. */
      readonly wanted: boolean | null;
    };

/** Facts a flag may read, cohorts included, dependencies not. */
export interface FlagNeeds {
  /** False when the flag reads nothing at all. */
  readonly any: boolean;
  readonly personProperties: readonly PropertyName[];
  readonly createdAt: boolean;
  readonly staticCohorts: boolean;
  readonly groupProperties: readonly {
    readonly groupName: string;
    readonly property: PropertyName;
  }[];
  /** Stored hash keys matter: a continuity flag whose answer depends on the hash (16.8). */
  readonly hashKeyOverride: boolean;
}

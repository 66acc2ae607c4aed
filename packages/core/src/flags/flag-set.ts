import type { CompiledCohort } from "../cohorts/cohort.ts";
import type { Json } from "../json.ts";
import type { Bucketing, EncodedText } from "./bucketing.ts";
import type {
  FailureCode,
  FlagDefinition,
  FlagEvaluation,
  FlagIdentity,
  ProjectDefinitions,
} from "./flag.ts";
import type { CompiledComparison } from "./match-property.ts";
import type { PropertyName } from "./person-property.ts";
import type { Ending } from "./reason.ts";

/**
 * A project's flags, parsed and prepared once per change of definitions. Evaluations of one set
 * share scratch memory and must not run in parallel with one another (they are synchronous).
 */
export interface FlagSet extends SelectedFlags {
  /** Every active flag in stored order, cyclic ones included. */
  readonly byPosition: readonly CompiledFlag[];
  readonly byKey: ReadonlyMap<string, CompiledFlag>;
  readonly dependencies: FlagDependencies;
  /** Whether some flag is limited to a runtime, to contexts: most projects have none. */
  readonly limits: { readonly runtime: boolean; readonly contexts: boolean };
  readonly cohorts: ReadonlyMap<number, CompiledCohort>;
  /** What the set was made from. */
  readonly definitions: ProjectDefinitions;
  /** Flags whose hash key is stored when an anonymous id is sent (flag-evaluation 16.3). */
  readonly continuityKeys: readonly string[];
  readonly bucketing: Bucketing;
  readonly holdoutPrefix: EncodedText;
  /** The filters on persons that several flags may share, by what they say. */
  readonly personFilters: ReadonlyMap<string, PersonFilter>;
  /** Counts evaluations: a filter knows by it whether its last result is of the one under way. */
  readonly turns: { last: number };
}

/** Flags to evaluate for one request: a set's all, or those it asks for and what they depend on. */
export interface SelectedFlags {
  /** Active flags, dependencies before their dependants; those in `cyclic` are not among them. */
  readonly flags: readonly CompiledFlag[];
  /** Active flags on a dependency cycle, and those depending on them (flag-evaluation 11.5). */
  readonly cyclic: readonly CompiledFlag[];
  /** What the flags to be evaluated read, each fact once. */
  readonly needs: FlagNeeds;
}

/** How a project's active flags refer to one another. */
export interface FlagDependencies {
  /**
   * What the names in dependency filters stand for; `null` for a flag that is switched off. A name
   * that is missing here stands for nothing.
   */
  readonly targets: ReadonlyMap<string, CompiledFlag | null>;
  /** For each flag that refers to others: to which active ones, and its place among all such flags. */
  readonly ofFlags: ReadonlyMap<CompiledFlag, ResolvedDependencies>;
  /** The active flags that others refer to. */
  readonly answered: ReadonlySet<CompiledFlag>;
}

export interface ResolvedDependencies {
  readonly flags: readonly CompiledFlag[];
  /** True when a name stands for no flag of the project. */
  readonly isMissingOne: boolean;
  /** Evaluation order among the flags that refer to others; -1 on or behind a cycle. */
  rank: number;
}

/**
 * An active flag ready to be evaluated. It knows the project's cohorts and group types but not its
 * other flags, so that it can be kept while those change.
 */
export interface CompiledFlag {
  readonly identity: FlagIdentity;
  readonly definition: FlagDefinition;
  /** Set when the stored definition could not be read: the flag fails on every request. */
  readonly failure: FailureCode | null;
  /** True when its conditions alone decide: no failure, dependency, enrolment or holdout comes first. */
  readonly isPlain: boolean;
  /** Names, ids or keys, of the flags this one refers to; see {@link FlagDependencies}. */
  readonly dependencies: readonly string[];
  /** Ids of the cohorts it reads, unknown ones too: it is compiled again when one of them changes. */
  readonly cohortIds: readonly number[];
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
  /** True when conditions on persons hash the distinct id, whatever else is known (5.4, 16.1). */
  readonly hashesDistinctId: boolean;
  readonly needs: FlagNeeds;
  /** Answers given so far: equal outcomes of a flag are one shared object. */
  readonly answers: FlagAnswers;
}

/** A flag's answers, each made when it is first given. */
export interface FlagAnswers {
  /** For matches: by condition and variant, `condition * (variants + 1) + variant + 1`. */
  readonly matches: (FlagEvaluation | undefined)[];
  /** The two most frequent other endings, by condition. */
  readonly noMatches: (FlagEvaluation | undefined)[];
  readonly outOfBounds: (FlagEvaluation | undefined)[];
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
  | PersonFilter
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
      /** The target's id or key as written. */
      readonly target: string;
      /** `null` where the filter can never match. */
      readonly expected: boolean | string | null;
    }
  | {
      readonly kind: "cohort";
      readonly cohort: CompiledCohort | null;
      /** Membership that matches; `null` for an operator that never does. */
      readonly wanted: boolean | null;
    };

/**
 * A filter on the person. Equal ones of a project are one object, which keeps the result of the
 * evaluation under way: what many flags ask is compared once per request.
 */
export interface PersonFilter {
  readonly kind: "person";
  readonly property: PropertyName;
  readonly comparison: CompiledComparison;
  /** What the filter says, where others may say the same; `null` for one that is not shared. */
  readonly text: string | null;
  /** The evaluation that `step` is the result of. */
  turn: number;
  step: FilterStep;
}

/** What a filter gives: a match, no match (errors included), or a failure of the whole flag. */
export type FilterStep = "match" | "no_condition_match" | FailureCode;

/** Facts one or more flags may read, cohorts included, dependencies not. */
export interface FlagNeeds {
  /** False when nothing is read at all. */
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

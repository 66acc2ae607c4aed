import type { Json, JsonObject } from "../json.ts";

/** Where a flag may be evaluated (flag-evaluation 12.2); `all` also stands for absent or unknown. */
export type EvaluationRuntime = "all" | "client" | "server";

/**
 * A flag as it is stored: identity and switches as columns, `filters` as the JSON its author sent.
 * `compileFlags` turns it into what evaluation runs on; nothing else looks inside `filters`.
 */
export interface FlagDefinition {
  readonly id: number;
  readonly key: string;
  /** The human description; PostHog's wire name is `name`. */
  readonly name: string;
  readonly active: boolean;
  readonly version: number;
  readonly filters: JsonObject;
  readonly ensureExperienceContinuity: boolean;
  readonly bucketingIdentifier: "distinct_id" | "device_id";
  readonly evaluationRuntime: EvaluationRuntime;
  /** Wire: `evaluation_contexts`, older `evaluation_tags`. Empty means every context. */
  readonly evaluationContexts: readonly string[];
  readonly hasExperiment: boolean;
  /** True for flags that surveys own (`only_evaluate_survey_feature_flags` keeps only these). */
  readonly isSurveyFlag: boolean;
}

/** A cohort as evaluation needs it. Members of static cohorts are loaded per person, not held here. */
export interface CohortDefinition {
  readonly id: number;
  readonly name: string;
  readonly isStatic: boolean;
  /** `filters` as sent: `{ properties: { type, values } }`. */
  readonly filters: JsonObject;
}

/** A group type of a project, for instance `{ index: 0, name: "company" }`. */
export interface GroupType {
  readonly index: number;
  readonly name: string;
}

/** All a project's flags depend on, read in one consistent look. Deleted records are left out. */
export interface ProjectDefinitions {
  readonly flags: readonly FlagDefinition[];
  readonly cohorts: readonly CohortDefinition[];
  readonly groupTypes: readonly GroupType[];
  /** IANA name; relative and zone-less dates are read in it. */
  readonly timeZone: string;
}

/** Why a flag has its value (flag-evaluation 14), plus the error codes of failed flags (14.5). */
export type ReasonCode =
  | "super_condition_value"
  | "holdout_condition_value"
  | "condition_match"
  | "out_of_rollout_bound"
  | "no_condition_match"
  | "no_group_type"
  | "flag_disabled"
  | "missing_dependency"
  | FailureCode;

/** Reasons of flags that could not be computed. */
export type FailureCode =
  | "database_error"
  | "dependency_not_found_cohort"
  | "dependency_cycle_cohort"
  | "dependency_not_found_flag"
  | "dependency_cycle_flag"
  | "cohort_filters_parsing_error"
  | "hash_key_override_error"
  | "flag_data_parsing_error"
  /** A bug of ours in one flag: the others are answered all the same. */
  | "evaluation_fault";

/** The answer for one flag. */
export interface FlagEvaluation {
  readonly flag: FlagIdentity;
  /** False when off or failed; the variant key; or true. */
  readonly value: boolean | string;
  /** The stored payload for the value, as stored (normally JSON text); `null` when none. */
  readonly payload: Json;
  readonly reason: {
    readonly code: ReasonCode;
    /** Zero-based index of the condition the reason speaks of. */
    readonly conditionIndex: number | null;
    readonly description: string;
  };
  /** True when the flag could not be computed; `value` is then false. */
  readonly failed: boolean;
  /**
   * Room for what a caller derives from the answer, such as its JSON: equal answers of a flag are one
   * object, so it is made once. Nothing in this package reads it.
   */
  readonly derived: { text: unknown };
}

/** What an answer repeats of its flag. */
export interface FlagIdentity {
  readonly id: number;
  readonly key: string;
  readonly name: string;
  readonly version: number;
  readonly hasExperiment: boolean;
}

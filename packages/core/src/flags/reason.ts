import type { FailureCode, ReasonCode } from "./flag.ts";

/** How an evaluation ended; the second is a wire `no_condition_match` with a longer text (14.3). */
export type Ending = ReasonCode | "no_condition_match_groups_skipped";

const DESCRIPTIONS: Readonly<Record<Exclude<Ending, "condition_match">, string>> = {
  super_condition_value: "Super condition value",
  holdout_condition_value: "Holdout condition value",
  out_of_rollout_bound: "Out of rollout bound",
  no_condition_match: "No matching condition set",
  no_condition_match_groups_skipped:
    "No matching condition set (group conditions were not evaluated because no group type was provided)",
  no_group_type: "No group type",
  flag_disabled: "Feature flag is disabled",
  missing_dependency: "Flag cannot be evaluated due to missing dependency",
  database_error: "Stored properties could not be read",
  dependency_not_found_cohort: "A cohort of this flag does not exist",
  dependency_cycle_cohort: "A cohort of this flag depends on itself",
  dependency_not_found_flag: "A flag this flag depends on does not exist",
  dependency_cycle_flag: "This flag depends on itself",
  cohort_filters_parsing_error: "A cohort of this flag has filters that cannot be read",
  hash_key_override_error: "The stored hash key could not be read",
  flag_data_parsing_error: "The definition of this flag cannot be read",
  evaluation_fault: "An unexpected fault occurred while evaluating this flag",
};

/** The text shown with a reason (flag-evaluation 14). */
export function describeReason(ending: Ending, conditionIndex: number | null): string {
  if (ending === "condition_match") return `Matched condition set ${(conditionIndex ?? 0) + 1}`;
  return DESCRIPTIONS[ending];
}

/** The wire code of an ending. */
export function reasonCode(ending: Ending): ReasonCode {
  return ending === "no_condition_match_groups_skipped" ? "no_condition_match" : ending;
}

/** Rank when no condition decides: the highest seen is reported, the last of equals (14.1). */
export function rankOf(
  step: "no_group_type" | "no_condition_match" | "out_of_rollout_bound",
): number {
  return step === "no_group_type" ? 1 : step === "no_condition_match" ? 2 : 3;
}

/** True for the codes of flags that could not be computed. */
export function isFailure(ending: Ending): ending is FailureCode {
  switch (ending) {
    case "database_error":
    case "dependency_not_found_cohort":
    case "dependency_cycle_cohort":
    case "dependency_not_found_flag":
    case "dependency_cycle_flag":
    case "cohort_filters_parsing_error":
    case "hash_key_override_error":
    case "flag_data_parsing_error":
    case "evaluation_fault":
      return true;
    default:
      return false;
  }
}

import { type JsonObject, ownValue } from "@hedgerow/core/json";
import type { FlagDependants } from "./flag-dependants.ts";

/** Whether persons enrol in a flag: it is an early-access feature then (flag-evaluation 8). */
export function enrolsPersons(filters: JsonObject): boolean {
  if (ownValue(filters, "feature_enrollment") === true) return true;
  const superGroups = ownValue(filters, "super_groups");
  return Array.isArray(superGroups) && superGroups.length > 0;
}

/**
 * The early-access feature that a flag is: while persons enrol in it, it is not deleted. The feature
 * ends when its enrolment is taken out of the filters.
 */
export const featureOfFlag: FlagDependants = {
  kind: "early_access_feature",
  find: async ({ id, key, name, filters }) =>
    enrolsPersons(filters) ? [{ id, name: name === "" ? key : name }] : [],
};

import { type JsonObject, ownValue } from "@hedgerow/core/json";
import type { FlagDependants } from "./flag-dependants.ts";

/** Whether persons enrol in a flag: it is an early-access feature then (flag-evaluation 8). */
export function enrolsPersons(filters: JsonObject): boolean {
  if (ownValue(filters, "feature_enrollment") === true) return true;
  const superGroups = ownValue(filters, "super_groups");
  return Array.isArray(superGroups) && superGroups.length > 0;
}

/** A feature people can enrol in early, as browser SDKs list it (posthog-api 8.12). */
export interface EarlyAccessEntry {
  readonly id: string;
  readonly name: string;
  readonly description: string;
  readonly stage: string;
  readonly documentationUrl: string | null;
  readonly payload: unknown;
  readonly flagKey: string;
}

/** What SDKs are told of the feature that a flag is, with the payload of those who enrolled. */
export function earlyAccessEntry(
  { id, key, name }: { readonly id: number; readonly key: string; readonly name: string },
  payload: unknown,
): EarlyAccessEntry {
  return {
    id: String(id),
    name: name === "" ? key : name,
    description: name,
    stage: "beta",
    documentationUrl: null,
    payload: payload ?? null,
    flagKey: key,
  };
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

import type { FlagSet } from "@hedgerow/core/flags/flag-set";
import type { EarlyAccessEntry } from "./sdk.routes.ts";

/** Features people can enrol in: the flags that read an enrolment (flag-evaluation 8). */
export function earlyAccessFeaturesOf({ byPosition }: FlagSet): readonly EarlyAccessEntry[] {
  return byPosition
    .filter((flag) => flag.enrollmentProperty !== null || flag.superCondition !== null)
    .map(({ identity, payloads }) => ({
      id: String(identity.id),
      name: identity.name === "" ? identity.key : identity.name,
      description: identity.name,
      stage: "beta",
      documentationUrl: null,
      payload: payloads.get("true") ?? null,
      flagKey: identity.key,
    }));
}

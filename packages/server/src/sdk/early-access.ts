import type { FlagSet } from "@hedgerow/core/flags/flag-set";

/** A feature people can enrol in early, as browser SDKs list it. */
export interface EarlyAccessEntry {
  readonly id: string;
  readonly name: string;
  readonly description: string;
  readonly stage: string;
  readonly documentationUrl: string | null;
  readonly payload: unknown;
  readonly flagKey: string;
}

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

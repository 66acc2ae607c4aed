import type { FlagSet } from "@hedgerow/core/flags/flag-set";
import { type EarlyAccessEntry, earlyAccessEntry } from "../flags/flag-enrolment.ts";

/** Features people can enrol in: the flags that read an enrolment (flag-evaluation 8). */
export function earlyAccessFeaturesOf({ byPosition }: FlagSet): readonly EarlyAccessEntry[] {
  return byPosition
    .filter((flag) => flag.enrollmentProperty !== null || flag.superCondition !== null)
    .map(({ identity, payloads }) => earlyAccessEntry(identity, payloads.get("true")));
}

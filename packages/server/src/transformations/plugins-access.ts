import { Refusal } from "../http/errors.ts";

/** What an organization may do with transformations, as PostHog counts it (posthog-api 1.4). */
export const ACCESS_LEVELS = { none: 0, config: 3, install: 6, root: 9 } as const;

export type AccessLevel = keyof typeof ACCESS_LEVELS;

const INSUFFICIENT = "Your organization's plugin access level is insufficient.";

/** Throws a {@link Refusal} where the operator allows less than what is wanted. */
export function refuseBelow(
  wanted: AccessLevel,
  allowed: AccessLevel,
  detail: string = INSUFFICIENT,
): void {
  if (ACCESS_LEVELS[allowed] < ACCESS_LEVELS[wanted]) {
    throw new Refusal("permission_denied", detail);
  }
}

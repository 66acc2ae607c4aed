import { Refusal } from "../http/errors.ts";
import type { EventDefinition } from "./event-definition-store.ts";

/** What users decide about whether a definition is to be used. */
type Verification = Pick<EventDefinition, "verified" | "verifiedAt" | "verifiedById" | "hidden">;

/**
 * What a change of `verified` and `hidden` comes to (posthog-api 7.3): a verified definition is not
 * hidden, a hidden one not verified, and who verified it first stays. Refuses both at once.
 */
export function settleVerification(
  current: Verification,
  change: Partial<Pick<Verification, "verified" | "hidden">>,
  { what, authorId, now }: { what: "event" | "property"; authorId: number; now: Date },
): Partial<Verification> {
  const { verified, hidden } = change;
  if (verified && hidden) {
    const article = what === "event" ? "An" : "A";
    throw new Refusal("invalid_input", `${article} ${what} cannot be both hidden and verified`);
  }
  if (verified) {
    const first = current.verified ? {} : { verifiedAt: now, verifiedById: authorId };
    return { verified, ...first, hidden: false };
  }
  return {
    ...(verified === false || hidden
      ? { verified: false, verifiedAt: null, verifiedById: null }
      : {}),
    ...(hidden === undefined ? {} : { hidden }),
  };
}

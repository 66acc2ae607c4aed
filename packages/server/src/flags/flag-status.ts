import { constantValue } from "@hedgerow/core/flags/constant-value";
import type { FlagRecord } from "./flag-store.ts";

/** What became of a flag, and why that is said (posthog-api 4.1, 4.5). */
export interface FlagStatus {
  readonly status: "ACTIVE" | "INACTIVE" | "STALE" | "DELETED" | "UNKNOWN";
  readonly reason: string;
}

const STALE_AFTER_DAYS = 30;

/** Flags that nobody has called since are stale. */
export function staleSince(now: Date): Date {
  return new Date(now.getTime() - STALE_AFTER_DAYS * 86_400_000);
}

/**
 * A flag is stale when its last call is 30 days ago, or, where none is known of (an SDK may be told
 * to send none), when it has been rolled out to everyone that long.
 */
export function flagStatus(
  flag: Pick<FlagRecord, "deleted" | "active" | "lastCalledAt" | "createdAt" | "filters">,
  now: Date,
): FlagStatus {
  if (flag.deleted) return { status: "DELETED", reason: "Flag has been deleted" };
  if (!flag.active) return { status: "INACTIVE", reason: "Flag is switched off" };
  const since = staleSince(now);
  if (flag.lastCalledAt) {
    if (flag.lastCalledAt < since) {
      return {
        status: "STALE",
        reason: `Flag was last called on ${flag.lastCalledAt.toISOString().slice(0, 10)}, more than ${STALE_AFTER_DAYS} days ago`,
      };
    }
    return { status: "ACTIVE", reason: "Flag was called in the last 30 days" };
  }
  const value = flag.createdAt < since ? constantValue(flag.filters) : null;
  if (value === null) {
    return { status: "ACTIVE", reason: "Flag is not fully rolled out, or not for long" };
  }
  return {
    status: "STALE",
    reason:
      value === true
        ? 'This boolean flag will always evaluate to "true"'
        : `This flag will always use the variant "${value}"`,
  };
}

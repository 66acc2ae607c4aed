import { Refusal } from "./errors.ts";

/**
 * An instant as the management API writes it: ISO 8601 in UTC with `Z`, six fractional digits, and
 * none at all on a whole second (posthog-api 0).
 */
export function wireInstant(instant: Date): string {
  const text = instant.toISOString();
  return text.endsWith(".000Z") ? `${text.slice(0, -5)}Z` : `${text.slice(0, -1)}000Z`;
}

/** {@link wireInstant}, or `null` for an instant that has not come yet. */
export function wireInstantOrNull(instant: Date | null): string | null {
  return instant === null ? null : wireInstant(instant);
}

/** The refusal of a text that names no instant. */
export function notAnInstant(attr: string): Refusal {
  return new Refusal(
    "invalid_input",
    "Datetime has wrong format. Use one of these formats instead: YYYY-MM-DDThh:mm[:ss[.uuuuuu]][+HH:MM|-HH:MM|Z].",
    { attr },
  );
}

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

function isInCalendar(day = ""): boolean {
  return new Date(`${day}T00:00:00Z`).toISOString().startsWith(day);
}

/** ISO 8601 with a date and a time; without an offset it is UTC. */
const INSTANT =
  /^(\d{4}-\d{2}-\d{2})[T ](\d{2}:\d{2}(?::\d{2}(?:[.,]\d{1,6})?)?) ?(Z|[+-]\d{2}(?::?\d{2})?)?$/i;

/**
 * Reads an instant that the management API is sent; `null` and what is left out stay what they are.
 * Throws {@link notAnInstant} for anything else.
 */
export function readInstant<Nothing extends null | undefined>(
  text: string | Nothing,
  attr: string,
): Date | Nothing {
  if (typeof text !== "string") return text;
  const [, day, time = "", offset = "Z"] = INSTANT.exec(text) ?? [];
  const zone = /^[+-]\d{2}$/.test(offset) ? `${offset}:00` : offset;
  const instant = new Date(
    `${day}T${time.replace(",", ".")}${zone.replace(/^(...)(\d\d)$/, "$1:$2")}`,
  );
  // A date takes 30 February for a day in March.
  if (!Number.isNaN(instant.getTime()) && isInCalendar(day)) return instant;
  throw notAnInstant(attr);
}

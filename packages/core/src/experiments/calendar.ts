import type { TimeZone } from "../flags/zoned-date.ts";

const DAY_MS = 86_400_000;

/** A day of a time zone's calendar. */
export interface ZonedDay {
  /** `2026-03-01`. */
  readonly day: string;
  /** Its first instant. */
  readonly fromMs: number;
}

/**
 * The days that an interval touches, its end not included, in order; of more than `most` the last ones.
 * A day whose midnight is skipped begins when clocks are set forward.
 */
export function calendarDays(
  { fromMs, toMs }: { readonly fromMs: number; readonly toMs: number },
  zone: TimeZone,
  most: number,
): readonly ZonedDay[] {
  if (!(fromMs < toMs)) return [];
  const dayAt = (ms: number) => Math.floor((ms + zone.offsetMsAt(ms)) / DAY_MS);
  const last = dayAt(toMs - 1);
  const first = Math.max(dayAt(fromMs), last - most + 1);
  return Array.from({ length: last - first + 1 }, (_, index) => {
    const wall = (first + index) * DAY_MS;
    return { day: new Date(wall).toISOString().slice(0, 10), fromMs: instantOf(wall, zone) };
  });
}

/** The first instant at which a zone's clocks show a time, or a later one where they skip it. */
function instantOf(wall: number, zone: TimeZone): number {
  const guesses = [zone.offsetMsAt(wall - DAY_MS), zone.offsetMsAt(wall + DAY_MS)]
    .map((offset) => wall - offset)
    .sort((left, right) => left - right);
  const shown = guesses.find((at) => at + zone.offsetMsAt(at) === wall);
  return shown ?? guesses.at(-1) ?? wall;
}

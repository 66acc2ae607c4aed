/** A client clock is trusted when `sent_at` lies this close to the arrival (decision 18). */
const TRUSTED_SKEW_MS = 60_000;
/** Nothing is stored further ahead of its arrival (decision 18). */
export const MAX_AHEAD_MS = 23 * 60 * 60 * 1000;

export interface EventTimes {
  readonly timestamp: Date;
  readonly clientTimestamp: Date | null;
  /** What was done to the client's time beyond reading it. */
  readonly correction: "none" | "clock-skew" | "too-far-ahead";
}

/**
 * When an event happened (decision 18, posthog-api 9.8): the client's time, moved by the client
 * clock's error where `sentAt` shows one; else `offsetMs` before the arrival; else the arrival.
 */
export function eventTimes(given: {
  readonly clientTimestamp: Date | null;
  readonly offsetMs: number | null;
  /** When the client says it sent the request; `null` when unknown or to be ignored. */
  readonly sentAt: Date | null;
  readonly receivedAt: Date;
}): EventTimes {
  const { clientTimestamp, offsetMs, sentAt, receivedAt } = given;
  const arrivalMs = receivedAt.getTime();
  let timeMs = arrivalMs;
  let correction: EventTimes["correction"] = "none";
  if (clientTimestamp) {
    timeMs = clientTimestamp.getTime();
    const skewMs = sentAt ? sentAt.getTime() - arrivalMs : 0;
    if (Math.abs(skewMs) > TRUSTED_SKEW_MS) {
      timeMs -= skewMs;
      correction = "clock-skew";
    }
  } else if (offsetMs !== null) {
    timeMs = arrivalMs - offsetMs;
  }
  if (timeMs > arrivalMs + MAX_AHEAD_MS) {
    return { timestamp: receivedAt, clientTimestamp, correction: "too-far-ahead" };
  }
  // Most times stay as they were read; so does the object.
  const isAsRead = clientTimestamp !== null && timeMs === clientTimestamp.getTime();
  const timestamp = isAsRead && timeMs >= YEAR_0_MS ? clientTimestamp : withinCalendar(timeMs);
  return { timestamp, clientTimestamp, correction };
}

/** 0000-01-01T00:00:00Z. */
const YEAR_0_MS = -62_167_219_200_000;

/** Times before year 0 become the epoch (posthog-api 9.8). */
function withinCalendar(timeMs: number): Date {
  return new Date(timeMs >= YEAR_0_MS ? timeMs : 0);
}

const MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"];

const ISO =
  /^([+-]?\d{4,6})-(\d{1,2})(?:-(\d{1,2})(?:(?:[Tt]|\s+)(\d{1,2}):(\d{2})(?::(\d{2})(?:[.,](\d{1,12}))?)?\s*([Zz]|UTC|GMT|[+-]\d{2}(?::?\d{2}(?::?\d{2})?)?)?)?)?$/;
const COMPACT_ISO =
  /^(\d{4})(\d{2})(\d{2})(?:[Tt](\d{2})(\d{2})(?:(\d{2})(?:[.,](\d{1,12}))?)?([Zz]|[+-]\d{2}(?::?\d{2})?)?)?$/;
/** RFC 2822 and JavaScript's `Date.prototype.toString`. */
const WRITTEN_OUT =
  /^(?:[A-Za-z]{3,9},?\s+)?(?:(\d{1,2})\s+([A-Za-z]{3})[a-z]*|([A-Za-z]{3})[a-z]*\s+(\d{1,2}),?)\s+(\d{4})\s+(\d{1,2}):(\d{2})(?::(\d{2}))?\s*(?:GMT|UTC|Z)?\s*([+-]\d{2}:?\d{2})?(?:\s*\([^)]*\))?$/;

/**
 * Reads a moment as SDKs write it: ISO 8601 in its common forms (date only, blank instead of `T`,
 * any number of fraction digits, zone in any spelling, none meaning UTC), RFC 2822, JavaScript's
 * own. `null` for anything else, calendar dates that do not exist included. Years outside 0–9999
 * are read as the epoch (posthog-api 9.8).
 */
export function readMoment(text: string): Date | null {
  return readUsualForm(text) ?? readAnyForm(text);
}

/** What JavaScript itself writes, as nearly all events have it: the engine reads it several times as fast. */
const USUAL_FORM = /^\d{4}-\d{2}-\d{2}T\d{2}:\d{2}:\d{2}\.\d{3}Z$/;

/** `null` also for what {@link readAnyForm} reads in its own way: days that roll over, leap seconds. */
function readUsualForm(text: string): Date | null {
  if (!USUAL_FORM.test(text)) return null;
  const date = new Date(text);
  return date.getUTCDate() === Number(text.slice(8, 10)) ? date : null;
}

function readAnyForm(text: string): Date | null {
  const trimmed = text.trim();
  const iso = ISO.exec(trimmed) ?? COMPACT_ISO.exec(trimmed);
  if (iso) {
    const [, year, month, day, hour, minute, second, fraction, zone] = iso;
    return momentOf({
      year: Number(year),
      month: Number(month),
      day: Number(day ?? 1),
      hour: Number(hour ?? 0),
      minute: Number(minute ?? 0),
      second: Number(second ?? 0),
      millisecond: Math.floor(Number(`0.${fraction ?? 0}`) * 1000),
      zone,
    });
  }
  const written = WRITTEN_OUT.exec(trimmed);
  if (!written) return null;
  const [, day, month, monthFirst, dayLast, year, hour, minute, second, zone] = written;
  return momentOf({
    year: Number(year),
    month: MONTHS.indexOf((month ?? monthFirst ?? "").toLowerCase()) + 1,
    day: Number(day ?? dayLast),
    hour: Number(hour),
    minute: Number(minute),
    second: Number(second ?? 0),
    millisecond: 0,
    zone,
  });
}

function momentOf(parts: {
  year: number;
  month: number;
  day: number;
  hour: number;
  minute: number;
  second: number;
  millisecond: number;
  zone: string | undefined;
}): Date | null {
  const { year, month, day, hour, minute, second } = parts;
  if (year < 0 || year > 9999) return new Date(0);
  const offsetMinutes = zoneOffsetMinutes(parts.zone);
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  const exists = date.getUTCMonth() === month - 1 && date.getUTCDate() === day;
  // 24:00 is the end of the day; a leap second counts as the last second before it.
  const isTime =
    minute < 60 && second <= 60 && (hour < 24 || (hour === 24 && minute + second === 0));
  if (!exists || !isTime || offsetMinutes === null) return null;
  date.setUTCHours(hour, minute - offsetMinutes, Math.min(second, 59), parts.millisecond);
  const isStorable = date.getUTCFullYear() >= 0 && date.getUTCFullYear() <= 9999;
  return isStorable ? date : new Date(0);
}

function zoneOffsetMinutes(zone: string | undefined): number | null {
  const numeric = /^([+-])(\d{2}):?(\d{2})?/.exec(zone ?? "");
  if (!numeric) return 0;
  const [, sign, hours, minutes] = numeric;
  const total = Number(hours) * 60 + Number(minutes ?? 0);
  if (Number(minutes ?? 0) > 59 || total > 18 * 60) return null;
  return sign === "-" ? -total : total;
}

const EARLIEST_PLAUSIBLE_MS = Date.UTC(2000, 0, 1);
const LATEST_PLAUSIBLE_MS = Date.UTC(2100, 0, 1);

/**
 * Reads milliseconds since the epoch from a number or digits; `null` for what cannot be a present
 * clock (a cache buster, seconds, an empty text).
 */
export function readEpochMs(value: unknown): Date | null {
  const isDigits = typeof value === "string" && /^\d{10,16}(?:\.\d+)?$/.test(value);
  const ms = isDigits ? Number(value) : value;
  if (typeof ms !== "number" || !(ms >= EARLIEST_PLAUSIBLE_MS && ms < LATEST_PLAUSIBLE_MS))
    return null;
  return new Date(Math.floor(ms));
}

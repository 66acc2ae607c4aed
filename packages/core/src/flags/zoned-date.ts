/** A time zone as dates need it: its offset from UTC at an instant. */
export interface TimeZone {
  /** Milliseconds to add to the instant to get the wall clock. */
  offsetMsAt(instantMs: number): number;
}

/** A date filter's value, read once: a fixed instant, or a step back from now. */
export type DateExpression =
  | { readonly kind: "instant"; readonly instantMs: number }
  | { readonly kind: "relative"; readonly count: number; readonly unit: RelativeUnit };

/** Hours, days, weeks, months, years (flag-evaluation 7.8 a). */
export type RelativeUnit = "h" | "d" | "w" | "m" | "y";

const UTC: TimeZone = { offsetMsAt: () => 0 };

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
const DAY_MS = 86_400_000;

/** Zones change their offset at quarter hours only, so one look-up serves a quarter hour. */
const OFFSET_BUCKET_MS = 15 * MINUTE_MS;
const MAX_CACHED_OFFSETS = 4096;

/** chrono's range, the server's own limit, in seconds: beyond it a number is no instant. */
const MAX_EPOCH_SECONDS = 8.2e12;

const RELATIVE = /^-?([0-9]+)([hdwmy])$/;
const PLAIN_NUMBER = /^[+-]?(?:[0-9]+\.?[0-9]*|\.[0-9]+)(?:[eE][+-]?[0-9]+)?$/;
const WORD_NUMBER = /^([+-]?)(inf|infinity|nan)$/i;
const CALENDAR =
  /^([+-]?[0-9]{4,6})[-/]([0-9]{1,2})[-/]([0-9]{1,2})(?:(?:[Tt]| +)([0-9]{1,2}):([0-9]{1,2})(?::([0-9]{1,2})(?:\.([0-9]+))?)?)?(?: *(Z|z|UTC|GMT|[+-][0-9]{2}(?::?[0-9]{2})?))?$/;
const MAIL_DATE =
  /^(?:[A-Za-z]{3}, *)?([0-9]{1,2}) ([A-Za-z]{3}) ([0-9]{4}) ([0-9]{2}):([0-9]{2})(?::([0-9]{2}))? +(Z|UTC|GMT|[+-][0-9]{4})$/;
const MONTH_NAMES = "janfebmaraprmayjunjulaugsepoctnovdec";

/** The zone of an IANA name; UTC where the name is unknown to the platform. */
export function createTimeZone(name: string): TimeZone {
  if (name === "UTC" || name === "Etc/UTC" || name === "GMT") return UTC;
  let format: Intl.DateTimeFormat;
  try {
    format = new Intl.DateTimeFormat("en-US", {
      timeZone: name,
      calendar: "gregory",
      hourCycle: "h23",
      year: "numeric",
      month: "numeric",
      day: "numeric",
      hour: "numeric",
      minute: "numeric",
      second: "numeric",
      era: "short",
    });
  } catch {
    return UTC;
  }
  const offsets = new Map<number, number>();
  return {
    offsetMsAt(instantMs) {
      const bucket = Math.floor(instantMs / OFFSET_BUCKET_MS);
      const known = offsets.get(bucket);
      if (known !== undefined) return known;
      const offset = readOffset(format, bucket * OFFSET_BUCKET_MS);
      if (offsets.size >= MAX_CACHED_OFFSETS) offsets.clear();
      offsets.set(bucket, offset);
      return offset;
    },
  };
}

function readOffset(format: Intl.DateTimeFormat, instantMs: number): number {
  // Intl covers the range of Date; a filter may name an instant outside it.
  if (!(Math.abs(instantMs) <= 8.64e15)) return 0;
  const parts: Record<string, string> = {};
  for (const part of format.formatToParts(instantMs)) parts[part.type] = part.value;
  const year = parts.era === "BC" ? 1 - Number(parts.year) : Number(parts.year);
  const wall = wallMs(
    year,
    Number(parts.month),
    Number(parts.day),
    Number(parts.hour),
    Number(parts.minute),
    Number(parts.second),
  );
  return wall === null ? 0 : wall - instantMs;
}

/**
 * The instant of a wall clock in a zone: the earlier one where the wall clock occurs twice, `null`
 * where it never occurs (flag-evaluation 7.8 c).
 */
function instantOfWall(wall: number, zone: TimeZone): number | null {
  if (zone === UTC) return wall;
  const earlier = wall - zone.offsetMsAt(wall - DAY_MS);
  const later = wall - zone.offsetMsAt(wall + DAY_MS);
  const first = Math.min(earlier, later);
  const second = Math.max(earlier, later);
  if (first + zone.offsetMsAt(first) === wall) return first;
  if (second + zone.offsetMsAt(second) === wall) return second;
  return null;
}

/**
 * Reads a date filter's text: relative, RFC 3339, date, or date-time. Without an offset the text
 * is a wall clock of `zone`. Beyond the documented forms it accepts slashes, a zone after a space
 * (`GMT`, `UTC`, `+01:00`), mail dates, and epoch seconds or milliseconds of 10 or 13 digits.
 * `null` when it is none of these.
 */
export function readDateExpression(text: string, zone: TimeZone): DateExpression | null {
  const relative = RELATIVE.exec(text);
  if (relative !== null) {
    const count = Number(relative[1]);
    if (count < 10_000) {
      return { kind: "relative", count, unit: relative[2] as RelativeUnit };
    }
  }
  const instantMs = readInstant(text, zone);
  return instantMs === null ? null : { kind: "instant", instantMs };
}

/** The instant a date expression means at `nowMs`; `null` when it falls into a DST gap. */
export function resolveDate(
  expression: DateExpression,
  nowMs: number,
  zone: TimeZone,
): number | null {
  if (expression.kind === "instant") return expression.instantMs;
  const now = nowMs + zone.offsetMsAt(nowMs);
  return instantOfWall(stepBack(now, expression.count, expression.unit), zone);
}

/**
 * Reads a property's value as an instant: text like a filter's, and numbers or numeric text as
 * Unix seconds (flag-evaluation 7.8). `null` for anything else.
 */
export function readPropertyInstant(value: unknown, nowMs: number, zone: TimeZone): number | null {
  if (typeof value === "number" || typeof value === "bigint") return epochSeconds(Number(value));
  if (typeof value !== "string") return null;
  const number = parseDecimal(value);
  if (number !== null) return epochSeconds(number);
  const expression = readDateExpression(value, zone);
  return expression === null ? null : resolveDate(expression, nowMs, zone);
}

/**
 * Strict decimal parsing: sign, digits, fraction, exponent, and the words inf, infinity and nan.
 * No surrounding space, no hexadecimal, no partial parse (flag-evaluation 7.6).
 */
export function parseDecimal(text: string): number | null {
  if (PLAIN_NUMBER.test(text)) return Number(text);
  const word = WORD_NUMBER.exec(text);
  if (word === null) return null;
  if (word[2]?.toLowerCase() === "nan") return Number.NaN;
  return word[1] === "-" ? Number.NEGATIVE_INFINITY : Number.POSITIVE_INFINITY;
}

function epochSeconds(seconds: number): number | null {
  if (!(Math.abs(seconds) <= MAX_EPOCH_SECONDS)) return null;
  return Math.floor(seconds) * 1000 + Math.max(seconds % 1, 0) * 1000;
}

function readInstant(text: string, zone: TimeZone): number | null {
  const calendar = CALENDAR.exec(text);
  if (calendar !== null) {
    const wall = wallMs(
      Number(calendar[1]),
      Number(calendar[2]),
      Number(calendar[3]),
      Number(calendar[4] ?? 0),
      Number(calendar[5] ?? 0),
      Number(calendar[6] ?? 0),
    );
    if (wall === null) return null;
    const exact = wall + Number(`0.${calendar[7] ?? 0}`) * 1000;
    const offset = calendar[8];
    if (offset !== undefined) return exact - offsetMs(offset);
    // Slashed dates are not among the server's explicit formats: its fallback reads them as UTC.
    return text.includes("/") ? exact : instantOfWall(exact, zone);
  }
  const mail = MAIL_DATE.exec(text);
  if (mail !== null) {
    const month = MONTH_NAMES.indexOf((mail[2] as string).toLowerCase());
    if (month === -1 || month % 3 !== 0) return null;
    const wall = wallMs(
      Number(mail[3]),
      month / 3 + 1,
      Number(mail[1]),
      Number(mail[4]),
      Number(mail[5]),
      Number(mail[6] ?? 0),
    );
    return wall === null ? null : wall - offsetMs(mail[7] as string);
  }
  if (/^[0-9]{10}$/.test(text)) return Number(text) * 1000;
  if (/^[0-9]{13}$/.test(text)) return Number(text);
  return null;
}

function offsetMs(text: string): number {
  const digits = /^([+-])([0-9]{2}):?([0-9]{2})?$/.exec(text);
  if (digits === null) return 0;
  const ms = Number(digits[2]) * HOUR_MS + Number(digits[3] ?? 0) * MINUTE_MS;
  return digits[1] === "-" ? -ms : ms;
}

/** Milliseconds of a wall clock as if it were UTC; `null` when there is no such day or time. */
function wallMs(
  year: number,
  month: number,
  day: number,
  hour: number,
  minute: number,
  second: number,
): number | null {
  if (month < 1 || month > 12 || day < 1 || day > daysInMonth(year, month)) return null;
  // A leap second is written 60; it counts as the second after.
  if (hour > 23 || minute > 59 || second > 60) return null;
  const date = new Date(0);
  date.setUTCFullYear(year, month - 1, day);
  return date.getTime() + hour * HOUR_MS + minute * MINUTE_MS + second * 1000;
}

/** Steps a wall clock back; months and years one at a time, clamping the day at every step. */
function stepBack(wall: number, count: number, unit: RelativeUnit): number {
  switch (unit) {
    case "h":
      return wall - count * HOUR_MS;
    case "d":
      return wall - count * DAY_MS;
    case "w":
      return wall - count * 7 * DAY_MS;
    case "m":
    case "y":
      return stepCalendar(wall, count, unit);
  }
}

function stepCalendar(wall: number, count: number, unit: "m" | "y"): number {
  const date = new Date(wall);
  let year = date.getUTCFullYear();
  let month = date.getUTCMonth() + 1;
  let day = date.getUTCDate();
  for (let step = 0; step < count; step += 1) {
    if (unit === "y") year -= 1;
    else if (month === 1) {
      month = 12;
      year -= 1;
    } else month -= 1;
    day = Math.min(day, daysInMonth(year, month));
  }
  const timeOfDay = wall - Math.floor(wall / DAY_MS) * DAY_MS;
  return (wallMs(year, month, day, 0, 0, 0) ?? Number.NaN) + timeOfDay;
}

function daysInMonth(year: number, month: number): number {
  if (month === 2) return (year % 4 === 0 && year % 100 !== 0) || year % 400 === 0 ? 29 : 28;
  return month === 4 || month === 6 || month === 9 || month === 11 ? 30 : 31;
}

/** What values a property holds, as definitions tell it. `Duration` is only ever set by hand. */
export const PROPERTY_TYPES = ["String", "Numeric", "Boolean", "DateTime", "Duration"] as const;
export type PropertyType = (typeof PROPERTY_TYPES)[number];

/** Names whose first value says nothing about later ones: a flag's value may be `true` or a text. */
const ALWAYS_TEXT =
  /^(?:utm_|\$initial_utm_|\$feature\/|\$feature_flag_response$|\$survey_response)/i;
const NAMES_TIME = /time|date|[_-]at|createdat|updatedat/i;

/** Dates in either order, with or without a time of day after them. */
const DATE =
  /^(?:\d{4}[/-][01]\d[/-][0-3]\d|[0-3]\d[/-][0-3]\d[/-]\d{4})(?:[ T][0-2]\d:[0-6]\d:[0-6]\d.{0,40})?$/;
/** As mails write it: `Tue, 01 Jul 2003 10:52:37 +0200`. */
const MAIL_DATE =
  /^(?:(?:mon|tue|wed|thu|fri|sat|sun), )?\d{1,2} (?:jan|feb|mar|apr|may|jun|jul|aug|sep|oct|nov|dec) \d{4} \d{2}:\d{2}:\d{2}(?: (?:[+-]\d{4}|gmt|utc|z))?$/i;
/** Longer texts are no dates, whatever they begin with. */
const MAX_DATE_LENGTH = 64;

const MS_PER_SECOND = 1000;
/** Ten digits of seconds, or thirteen of milliseconds: September 2001 to November 2286. */
const FIRST_UNIX_SECOND = 1e9;
const END_OF_UNIX_SECONDS = 1e10;

/**
 * The type that a property's value speaks for, as PostHog detects it (posthog-api 7.4): texts that
 * read `true` or `false` are booleans, texts that begin as dates do are instants, and so are unix
 * seconds (fractions allowed) and milliseconds under a name that speaks of time. `null` for values
 * that have no type: `null`, lists and objects.
 */
export function detectPropertyType(name: string, value: unknown): PropertyType | null {
  switch (typeof value) {
    case "string":
      if (ALWAYS_TEXT.test(name)) return "String";
      return typeOfText(value);
    case "number":
    case "bigint":
      if (ALWAYS_TEXT.test(name)) return "String";
      return isUnixTime(Number(value)) && NAMES_TIME.test(name) ? "DateTime" : "Numeric";
    case "boolean":
      return ALWAYS_TEXT.test(name) ? "String" : "Boolean";
    default:
      return ALWAYS_TEXT.test(name) ? "String" : null;
  }
}

function typeOfText(value: string): PropertyType {
  if (value.length > 2 * MAX_DATE_LENGTH) return "String";
  const text = value.trim();
  if (/^(?:true|false)$/i.test(text)) return "Boolean";
  const isDate = text.length <= MAX_DATE_LENGTH && (DATE.test(text) || MAIL_DATE.test(text));
  return isDate ? "DateTime" : "String";
}

function isUnixTime(value: number): boolean {
  if (value >= FIRST_UNIX_SECOND && value < END_OF_UNIX_SECONDS) return true;
  return (
    Number.isInteger(value) &&
    value >= FIRST_UNIX_SECOND * MS_PER_SECOND &&
    value < END_OF_UNIX_SECONDS * MS_PER_SECOND
  );
}

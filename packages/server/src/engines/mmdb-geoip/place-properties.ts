import type { JsonObject } from "@hedgerow/core/json";
import { continents, getCountryData, type TCountryCode } from "countries-list";

const countryNames = new Intl.DisplayNames(["en"], { type: "region", fallback: "none" });

/**
 * The `$geoip_*` properties of a database record (posthog-api 8.9). Two shapes are in use: MaxMind's
 * own, nested with names by language, and the flat one of the free redistributions.
 */
export function placeProperties(record: unknown): JsonObject {
  if (!isRecord(record)) return {};
  const countryCode = text(record.country_code) ?? text(at(record, "country", "iso_code"));
  const continentCode =
    text(at(record, "continent", "code")) ?? (countryCode ? continentOf(countryCode) : undefined);
  const known = {
    $geoip_city_name: text(record.city) ?? text(at(record, "city", "names", "en")),
    $geoip_country_name:
      text(at(record, "country", "names", "en")) ?? (countryCode ? nameOf(countryCode) : undefined),
    $geoip_country_code: countryCode,
    $geoip_continent_name:
      text(at(record, "continent", "names", "en")) ??
      (continentCode ? continents[continentCode as keyof typeof continents] : undefined),
    $geoip_continent_code: continentCode,
    $geoip_postal_code: text(record.postcode) ?? text(at(record, "postal", "code")),
    $geoip_time_zone: text(record.timezone) ?? text(at(record, "location", "time_zone")),
  };
  return Object.fromEntries(
    Object.entries(known).filter((entry): entry is [string, string] => entry[1] !== undefined),
  );
}

/**
 * A database record of either shape as MaxMind's library for Node names its fields; `null` where
 * nothing is known.
 */
export function placeRecord(record: unknown): JsonObject | null {
  if (!isRecord(record)) return null;
  const known = placeProperties(record);
  const nested = isRecord(record.location) ? record.location : record;
  const regions = Array.isArray(record.subdivisions)
    ? record.subdivisions.map((region) => ({
        isoCode: at(region, "iso_code"),
        names: { en: at(region, "names", "en") },
      }))
    : [{ names: { en: text(record.state1) } }, { names: { en: text(record.state2) } }];
  const parts = {
    city: { names: { en: known.$geoip_city_name } },
    country: {
      isoCode: known.$geoip_country_code,
      names: { en: known.$geoip_country_name },
    },
    continent: {
      code: known.$geoip_continent_code,
      names: { en: known.$geoip_continent_name },
    },
    postal: { code: known.$geoip_postal_code },
    location: {
      latitude: degrees(nested.latitude),
      longitude: degrees(nested.longitude),
      accuracyRadius: degrees(nested.accuracy_radius),
      timeZone: known.$geoip_time_zone,
    },
    subdivisions: regions,
  };
  return (withoutGaps(parts) as JsonObject | undefined) ?? null;
}

/** Databases hold numbers as such or as texts. */
function degrees(value: unknown): number | undefined {
  const number = value === "" || value === null ? Number.NaN : Number(value);
  return Number.isFinite(number) ? number : undefined;
}

/** A value without members that are not known, and without objects that hold none. */
function withoutGaps(value: unknown): unknown {
  if (Array.isArray(value)) {
    const items = value.map(withoutGaps).filter((item) => item !== undefined);
    return items.length > 0 ? items : undefined;
  }
  if (!isRecord(value)) return value;
  const members = Object.entries(value).flatMap(([name, member]) => {
    const rest = withoutGaps(member);
    return rest === undefined ? [] : [[name, rest] as const];
  });
  return members.length > 0 ? Object.fromEntries(members) : undefined;
}

type UnknownRecord = Readonly<Record<string, unknown>>;

function isRecord(value: unknown): value is UnknownRecord {
  return typeof value === "object" && value !== null;
}

function at(record: unknown, ...path: readonly string[]): unknown {
  return path.reduce<unknown>((value, key) => (isRecord(value) ? value[key] : undefined), record);
}

function text(value: unknown): string | undefined {
  return typeof value === "string" && value !== "" ? value : undefined;
}

function nameOf(countryCode: string): string | undefined {
  return /^[A-Z]{2}$/.test(countryCode) ? countryNames.of(countryCode) : undefined;
}

function continentOf(countryCode: string): string | undefined {
  return getCountryData(countryCode as TCountryCode)?.continent;
}

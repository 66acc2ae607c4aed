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

type UnknownRecord = Readonly<Record<string, unknown>>;

function isRecord(value: unknown): value is UnknownRecord {
  return typeof value === "object" && value !== null;
}

function at(record: UnknownRecord, ...path: readonly string[]): unknown {
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

import type { JsonObject } from "@hedgerow/core/json";

/** Turns addresses into `$geoip_*` properties; offline. */
export interface GeoIp {
  /**
   * The seven properties of interface 4.4, those that are known; `{}` for private, reserved or
   * unknown addresses and for text that is no address. A promise only while the database is being
   * read, which the first look-up starts. Never throws or rejects: a database that cannot be read
   * is reported and knows nothing.
   */
  lookup(address: string): JsonObject | Promise<JsonObject>;
}

/** The same database, as transformations read it. */
export interface PlaceRecords {
  /**
   * MaxMind's record of a city, as their library for Node names its fields (`country.isoCode`,
   * `city.names.en`, `location.timeZone`, …), as far as it is known; `null` where nothing is. Never
   * rejects.
   */
  locate(address: string): Promise<JsonObject | null>;
}

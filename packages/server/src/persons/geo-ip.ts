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

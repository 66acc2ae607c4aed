import type { JsonObject } from "@hedgerow/core/json";

/** Turns addresses into `$geoip_*` properties; offline. */
export interface GeoIp {
  /** The seven properties of the interface document, those known; `{}` for private or unknown addresses. */
  lookup(address: string): JsonObject;
}

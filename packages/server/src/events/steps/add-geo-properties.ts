import type { AddedProperties } from "@hedgerow/core/events/added-properties";
import { encodeJson } from "@hedgerow/core/exact-json";
import { missingIn, NOTHING } from "@hedgerow/core/extend-json";
import { type JsonObject, ownValue } from "@hedgerow/core/json";
import type { GeoIp } from "../../persons/geo-ip.ts";
import { eventStep, type Step, type StepOutcome } from "./step.ts";

/**
 * Adds the place of `$ip` as `$geoip_*` properties, unless the event says `$geoip_disable`, as
 * server-side SDKs do. Properties that the sender gave itself stay (decision 4).
 */
export function addGeoProperties(geoIp: GeoIp): Step {
  /** By place: those are the same objects again and again. */
  const additions = new WeakMap<JsonObject, AddedProperties>();

  function additionOf(place: JsonObject): AddedProperties {
    let addition = additions.get(place);
    if (addition === undefined) {
      addition = { properties: place, text: encodeJson(place) };
      additions.set(place, addition);
    }
    return addition;
  }

  return eventStep({
    name: "add geo properties",
    isBuiltIn: true,
    run({ event }) {
      const address = ownValue(event.properties, "$ip");
      const isDisabled = ownValue(event.properties, "$geoip_disable") === true;
      if (typeof address !== "string" || isDisabled) return { kind: "keep", event };
      const withPlace = (place: JsonObject): StepOutcome => {
        const missing = missingIn(event.properties, place);
        if (missing === NOTHING) return { kind: "keep", event };
        return { kind: "keep", event, added: additionOf(missing) };
      };
      const place = geoIp.lookup(address);
      return place instanceof Promise ? place.then(withPlace) : withPlace(place);
    },
  });
}

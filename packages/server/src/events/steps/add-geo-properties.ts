import type { AddedProperties, CapturedEvent } from "@hedgerow/core/events/event";
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
      const withPlace = (place: JsonObject): StepOutcome => {
        const missing = missingIn(event.properties, place);
        if (missing === NOTHING) return { kind: "keep", event };
        return { kind: "keep", event, added: additionOf(missing) };
      };
      const place = placeOf(event, geoIp);
      return place instanceof Promise ? place.then(withPlace) : withPlace(place);
    },
  });
}

/** What the step knows of where an event came from; properties that it has already may be among it. */
export function placeOf(
  { properties }: Pick<CapturedEvent, "properties">,
  geoIp: GeoIp,
): ReturnType<GeoIp["lookup"]> {
  const address = ownValue(properties, "$ip");
  if (typeof address !== "string") return NOTHING;
  return ownValue(properties, "$geoip_disable") === true ? NOTHING : geoIp.lookup(address);
}

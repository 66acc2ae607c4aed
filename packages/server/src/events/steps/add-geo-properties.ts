import type { CapturedEvent } from "@hedgerow/core/events/event";
import { extendJson } from "@hedgerow/core/extend-json";
import { type JsonObject, ownValue } from "@hedgerow/core/json";
import type { GeoIp } from "../../persons/geo-ip.ts";
import type { Step, StepOutcome } from "./step.ts";

/**
 * Adds the place of `$ip` as `$geoip_*` properties, unless the event says `$geoip_disable`, as
 * server-side SDKs do. Properties that the sender gave itself stay (decision 4).
 */
export function addGeoProperties(geoIp: GeoIp): Step {
  return {
    name: "add geo properties",
    isBuiltIn: true,
    run(event) {
      const address = ownValue(event.properties, "$ip");
      const isDisabled = ownValue(event.properties, "$geoip_disable") === true;
      if (typeof address !== "string" || isDisabled) return { kind: "keep", event };
      const place = geoIp.lookup(address);
      return place instanceof Promise
        ? place.then((found) => withPlace(event, found))
        : withPlace(event, place);
    },
  };
}

function withPlace(event: CapturedEvent, place: JsonObject): StepOutcome {
  const properties = extendJson(event.properties, place);
  if (properties === event.properties) return { kind: "keep", event };
  return { kind: "keep", event: { ...event, properties } };
}

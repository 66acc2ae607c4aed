import type { LoggedEvent } from "@hedgerow/core/events/event";
import { encodeJson } from "@hedgerow/core/exact-json";
import { extendJson, extendJsonText } from "@hedgerow/core/extend-json";
import { type JsonObject, ownValue } from "@hedgerow/core/json";
import type { GeoIp } from "../../persons/geo-ip.ts";
import { eventStep, type Step, type StepOutcome } from "./step.ts";

/**
 * Adds the place of `$ip` as `$geoip_*` properties, unless the event says `$geoip_disable`, as
 * server-side SDKs do. Properties that the sender gave itself stay (decision 4).
 */
export function addGeoProperties(geoIp: GeoIp): Step {
  /** Of places, which are the same objects again and again. */
  const texts = new WeakMap<JsonObject, string>();

  function textOf(place: JsonObject): string {
    const known = texts.get(place);
    if (known !== undefined) return known;
    const text = encodeJson(place);
    texts.set(place, text);
    return text;
  }

  function withPlace({ event, propertiesText }: LoggedEvent, place: JsonObject): StepOutcome {
    const properties = extendJson(event.properties, place);
    if (properties === event.properties) return { kind: "keep", event };
    const changed = { ...event, properties };
    if (propertiesText === undefined) return { kind: "keep", event: changed };
    const text = extendJsonText(propertiesText, event.properties, place, textOf);
    return { kind: "keep", event: changed, propertiesText: text };
  }

  return eventStep({
    name: "add geo properties",
    isBuiltIn: true,
    run(entry) {
      const { event } = entry;
      const address = ownValue(event.properties, "$ip");
      const isDisabled = ownValue(event.properties, "$geoip_disable") === true;
      if (typeof address !== "string" || isDisabled) return { kind: "keep", event };
      const place = geoIp.lookup(address);
      return place instanceof Promise
        ? place.then((found) => withPlace(entry, found))
        : withPlace(entry, place);
    },
  });
}

import { type Json, type JsonObject, ownValue } from "../json.ts";
import { initialName, TRACKED_PROPERTIES } from "./tracked-properties.ts";

/** Where the event came from, as looked up from its address. */
const FROM_ADDRESS: readonly string[] = [
  "$geoip_city_name",
  "$geoip_country_name",
  "$geoip_country_code",
  "$geoip_continent_name",
  "$geoip_continent_code",
  "$geoip_postal_code",
  "$geoip_time_zone",
];

/** A property that is kept of an event: the latest value by one name, the first by the other. */
export interface AutomaticName {
  readonly name: string;
  readonly initial: string;
}

/** What an event says of its person by itself: names, and at the same places their values. */
export interface AutomaticProperties {
  readonly names: readonly AutomaticName[];
  readonly values: readonly Json[];
}

const automaticName = (name: string): AutomaticName => ({ name, initial: initialName(name) });
const automaticNames: ReadonlyMap<string, AutomaticName> = new Map(
  [...TRACKED_PROPERTIES, ...FROM_ADDRESS].map((name) => [name, automaticName(name)]),
);
const OS = automaticName("$os");
export const NOTHING_AUTOMATIC: AutomaticProperties = Object.freeze({ names: [], values: [] });

/** Events that carry recordings and measurements, not facts about the person. */
const WITHOUT_FACTS: ReadonlySet<string> = new Set(["$snapshot", "$performance_event"]);

/**
 * What an event says about its person without being asked to: browser, system, campaign and place,
 * each as the latest and as the initial value. Nothing of the place when the event forbids look-ups
 * by `$geoip_disable`: it then speaks of a server, not of the person.
 * @param added properties that the event has got beside its own
 */
export type ReadAutomatic = (
  event: string,
  properties: JsonObject,
  added: JsonObject,
) => AutomaticProperties;

/** Reads many events in little memory: they mostly say the same names, and share one list of them. */
export function createAutomaticReader(): ReadAutomatic {
  /** Where names and values are put until their number is known: lists that grow are moved all the time. */
  const foundNames: AutomaticName[] = [];
  const foundValues: Json[] = [];
  /** By their number. */
  const latestNames: (readonly AutomaticName[])[] = [];

  /** Adds what of some properties is automatic to the so many found already; answers how many they are then. */
  function collect(properties: JsonObject, hasPlace: boolean, before: number): number {
    let count = before;
    // Not through lists or pairs, and without asking whose a name is: this is done for every event,
    // with dozens of names, and no object inherits any of those that are known.
    for (const name in properties) {
      const known = automaticNames.get(name);
      if (known === undefined) continue;
      const value = properties[name];
      if (value === undefined) continue;
      if (!hasPlace && name.startsWith("$geoip_")) continue;
      foundNames[count] = known;
      foundValues[count] = value;
      count++;
    }
    return count;
  }

  function namesFound(count: number): readonly AutomaticName[] {
    const latest = latestNames[count];
    if (latest?.every((name, at) => name === foundNames[at])) return latest;
    const names = foundNames.slice(0, count);
    latestNames[count] = names;
    return names;
  }

  return (event, properties, added) => {
    if (WITHOUT_FACTS.has(event)) return NOTHING_AUTOMATIC;
    const hasPlace = ownValue(properties, "$geoip_disable") !== true;
    let count = collect(properties, hasPlace, 0);
    count = collect(added, hasPlace, count);
    // Some mobile SDKs say `$os_name`; it counts as `$os` where that is missing.
    const osName = ownValue(properties, "$os_name");
    if (osName !== undefined && ownValue(properties, "$os") === undefined) {
      foundNames[count] = OS;
      foundValues[count] = osName;
      count++;
    }
    if (count === 0) return NOTHING_AUTOMATIC;
    const values = foundValues.slice(0, count);
    // They may be long texts, and are not kept.
    foundValues.fill(null, 0, count);
    return { names: namesFound(count), values };
  };
}

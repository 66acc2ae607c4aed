import { type Json, type JsonObject, ownValue } from "../json.ts";

/**
 * Event properties that describe the person as well: the latest value is kept under the same name,
 * the first under `$initial_…` (flag-evaluation 6.2 lists the same names).
 */
const FROM_EVENTS: readonly string[] = [
  "$app_build",
  "$app_name",
  "$app_namespace",
  "$app_version",
  "$browser",
  "$browser_version",
  "$device_type",
  "$current_url",
  "$pathname",
  "$os",
  "$os_version",
  "$referring_domain",
  "$referrer",
  "$screen_height",
  "$screen_width",
  "$viewport_height",
  "$viewport_width",
  "$raw_user_agent",
  "utm_source",
  "utm_medium",
  "utm_campaign",
  "utm_content",
  "utm_term",
  "gclid",
  "gad_source",
  "gclsrc",
  "dclid",
  "gbraid",
  "wbraid",
  "fbclid",
  "msclkid",
  "twclid",
  "li_fat_id",
  "mc_cid",
  "igshid",
  "ttclid",
  "rdt_cid",
  "epik",
  "qclid",
  "sccid",
  "irclid",
  "_kx",
];

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

const initialName = (name: string) => `$initial_${name.replace(/^\$/, "")}`;
const initialNames: ReadonlyMap<string, string> = new Map(
  [...FROM_EVENTS, ...FROM_ADDRESS].map((name) => [name, initialName(name)]),
);

/** Events that carry recordings and measurements, not facts about the person. */
const WITHOUT_FACTS: ReadonlySet<string> = new Set(["$snapshot", "$performance_event"]);

/**
 * What an event says about its person without being asked to: browser, system, campaign and place,
 * each as the latest and as the initial value. Nothing of the place when the event forbids look-ups
 * by `$geoip_disable`: it then speaks of a server, not of the person.
 */
export function automaticProperties(
  event: string,
  properties: JsonObject,
): { readonly set: Map<string, Json>; readonly setOnce: Map<string, Json> } {
  const set = new Map<string, Json>();
  const setOnce = new Map<string, Json>();
  if (WITHOUT_FACTS.has(event)) return { set, setOnce };
  const hasPlace = ownValue(properties, "$geoip_disable") !== true;
  for (const name of Object.keys(properties)) {
    const initial = initialNames.get(name);
    if (initial === undefined) continue;
    const value = properties[name];
    if (value === undefined) continue;
    if (!hasPlace && name.startsWith("$geoip_")) continue;
    set.set(name, value);
    setOnce.set(initial, value);
  }
  // Some mobile SDKs say `$os_name`; it counts as `$os` where that is missing.
  const osName = ownValue(properties, "$os_name");
  if (osName !== undefined && ownValue(properties, "$os") === undefined) {
    set.set("$os", osName);
    setOnce.set("$initial_os", osName);
  }
  return { set, setOnce };
}

import type { PluginEvent, PluginMeta } from "@posthog/plugin-scaffold";

type Place = NonNullable<Awaited<ReturnType<PluginMeta["geoip"]["locate"]>>>;

interface Global {
  property: string;
  level: number;
  persons: string;
  removesAddress: boolean;
}

const LEVELS = ["country", "city", "coordinates"];
const FINEST = LEVELS.length - 1;
/** Properties by the level of detail from which on they are added. */
const PARTS: [name: string, level: number, of: (place: Place) => unknown][] = [
  ["$geoip_country_code", 0, ({ country }) => country?.isoCode],
  ["$geoip_country_name", 0, ({ country }) => country?.names?.en],
  ["$geoip_continent_code", 0, ({ continent }) => continent?.code],
  ["$geoip_continent_name", 0, ({ continent }) => continent?.names?.en],
  ["$geoip_time_zone", 0, ({ location }) => location?.timeZone],
  ["$geoip_subdivision_1_code", 1, ({ subdivisions }) => subdivisions?.[0]?.isoCode],
  ["$geoip_subdivision_1_name", 1, ({ subdivisions }) => subdivisions?.[0]?.names?.en],
  ["$geoip_city_name", 1, ({ city }) => city?.names?.en],
  ["$geoip_postal_code", 2, ({ postal }) => postal?.code],
  ["$geoip_latitude", 2, ({ location }) => location?.latitude],
  ["$geoip_longitude", 2, ({ location }) => location?.longitude],
];

export function setupPlugin({ config, global }: PluginMeta<Global>) {
  global.property = String(config.property || "$ip");
  global.level = Math.max(0, LEVELS.indexOf(String(config.detail ?? "city")));
  global.persons = String(config.persons ?? "no");
  global.removesAddress = config.removeAddress === "remove";
}

export async function processEvent(event: PluginEvent, { global, geoip }: PluginMeta<Global>) {
  const { properties } = event;
  if (!properties || properties.$geoip_disable) return event;
  const address = properties[global.property] ?? (global.property === "$ip" ? event.ip : undefined);
  if (typeof address !== "string" || address === "") return event;
  const place = await geoip.locate(address);
  const parts = PARTS.filter(([, level]) => level <= global.level);
  for (const name of Object.keys(properties)) {
    if (!name.startsWith("$geoip_") || name === "$geoip_disable") continue;
    // What is known of another place does not belong to this one; what is finer than wanted to none.
    const isCoarse = global.level === FINEST || parts.some(([part]) => part === name);
    if (place || !isCoarse) delete properties[name];
  }
  const found: Record<string, unknown> = {};
  for (const [name, , partOf] of place ? parts : []) {
    const part = place && partOf(place);
    if (part !== undefined && part !== null) found[name] = part;
  }
  Object.assign(properties, found);
  if (place && global.persons !== "no") {
    properties.$set = { ...(properties.$set as object), ...found };
    if (global.persons === "latest and first") {
      const first = Object.entries(found).map(([name, part]) => [
        name.replace("$", "$initial_"),
        part,
      ]);
      properties.$set_once = { ...Object.fromEntries(first), ...(properties.$set_once as object) };
    }
  }
  if (global.removesAddress) {
    delete properties[global.property];
    if (global.property === "$ip") event.ip = null;
  }
  return event;
}

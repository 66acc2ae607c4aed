import type { PluginEvent, PluginMeta } from "@posthog/plugin-scaffold";

interface Global {
  events: Set<string>;
  names: string[];
  prefix: string;
  keepsLast: boolean;
}

/** What links of campaigns carry. */
const CAMPAIGN = [
  ...["utm_source", "utm_medium", "utm_campaign", "utm_content", "utm_term"],
  ...["gclid", "gbraid", "wbraid", "msclkid", "fbclid", "ttclid", "twclid", "li_fat_id"],
];

export function setupPlugin({ config, global }: PluginMeta<Global>) {
  global.events = new Set(listOf(config.events));
  global.names = listOf(config.properties);
  if (global.names.length === 0) throw new Error("Name at least one property.");
  global.prefix = String(config.prefix ?? "first_touch_");
  global.keepsLast = config.lastTouch === "yes";
}

export function processEvent(event: PluginEvent, { global }: PluginMeta<Global>) {
  const { properties } = event;
  if (!properties || !global.events.has(event.event)) return event;
  const parameters = parametersOf(properties.$current_url);
  const touch: Record<string, unknown> = {};
  for (const name of global.names) {
    touch[name.replace(/^\$/, "")] = given(properties[name]) ?? given(parameters.get(name)) ?? null;
  }
  touch.at = event.timestamp ?? event.now;
  const named = (prefix: string) =>
    Object.fromEntries(Object.entries(touch).map(([name, value]) => [prefix + name, value]));
  properties.$set_once = { ...named(global.prefix), ...(properties.$set_once as object) };
  if (global.keepsLast && comesFromOutside(properties, parameters)) {
    properties.$set = { ...named("last_touch_"), ...(properties.$set as object) };
  }
  return event;
}

function comesFromOutside(
  properties: Record<string, unknown>,
  parameters: URLSearchParams,
): boolean {
  const isNamed = (name: string) =>
    (given(properties[name]) ?? given(parameters.get(name))) !== undefined;
  if (CAMPAIGN.some(isNamed)) return true;
  const referrer = String(properties.$referrer ?? "");
  if (referrer === "" || referrer === "$direct") return false;
  const host = hostOf(String(properties.$current_url ?? ""));
  return hostOf(referrer) !== host;
}

function hostOf(url: string): string {
  const host = /^[a-z][a-z0-9+.-]*:\/\/(?:[^/?#@]*@)?([^/?#:]+)/i.exec(url)?.[1] ?? "";
  return host.toLowerCase().replace(/^www\./, "");
}

function parametersOf(url: unknown): URLSearchParams {
  return new URLSearchParams(/\?([^#]*)/.exec(String(url ?? ""))?.[1] ?? "");
}

function given(value: unknown): unknown {
  return value === undefined || value === null || value === "" ? undefined : value;
}

function listOf(value: unknown): string[] {
  return String(value ?? "")
    .split(",")
    .map((name) => name.trim())
    .filter((name) => name !== "");
}

import type { PluginEvent, PluginMeta } from "@posthog/plugin-scaffold";
import bowser from "./bowser.js";

type Parts = Record<string, string>;

interface Global {
  names: string[];
  overwrites: boolean;
  removes: boolean;
  /** What was parsed before: a project sees few user agents many times. */
  known: Map<string, Parts>;
}

const MAX_KNOWN = 500;
const MAX_LENGTH = 1000;
const DEVICE_TYPES: Record<string, string> = {
  desktop: "Desktop",
  mobile: "Mobile",
  tablet: "Tablet",
  tv: "TV",
  bot: "Bot",
};

export function setupPlugin({ config, global }: PluginMeta<Global>) {
  global.names = String(config.property ?? "")
    .split(",")
    .map((name) => name.trim())
    .filter((name) => name !== "");
  if (global.names.length === 0) throw new Error("Name the property that holds the user agent.");
  global.overwrites = config.overwrite === "overwrite";
  global.removes = config.remove === "remove";
  global.known = new Map();
}

export function processEvent(event: PluginEvent, { global }: PluginMeta<Global>) {
  const { properties } = event;
  const name = global.names.find((one) => typeof properties?.[one] === "string");
  if (!properties || name === undefined) return event;
  const userAgent = String(properties[name]).slice(0, MAX_LENGTH);
  for (const [key, value] of Object.entries(partsOf(userAgent, global.known))) {
    const isGiven = properties[key] !== undefined && properties[key] !== null;
    if (global.overwrites || !isGiven) properties[key] = value;
  }
  if (global.removes) delete properties[name];
  return event;
}

function partsOf(userAgent: string, known: Map<string, Parts>): Parts {
  let parts = known.get(userAgent);
  if (!parts) {
    parts = userAgent.trim() === "" ? {} : parse(userAgent);
    if (known.size >= MAX_KNOWN) known.clear();
    known.set(userAgent, parts);
  }
  return parts;
}

function parse(userAgent: string): Parts {
  const { browser, os, platform } = bowser.parse(userAgent);
  const parts: Record<string, string | undefined> = {
    $browser: browser.name,
    $browser_version: browser.version,
    $os: os.name === "macOS" ? "Mac OS X" : os.name,
    $os_version: os.version,
    $device_type: DEVICE_TYPES[platform.type ?? ""],
    $device_manufacturer: platform.vendor,
    $device: platform.model,
  };
  return Object.fromEntries(
    Object.entries(parts).filter((part): part is [string, string] => Boolean(part[1])),
  );
}

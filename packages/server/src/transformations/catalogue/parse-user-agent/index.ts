import type { PluginEvent, PluginMeta } from "@posthog/plugin-scaffold";
import bowser from "./bowser.js";

type Parts = Record<string, string | number>;

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

/** Names that versions of Windows go by, as posthog-js tells them. */
const WINDOWS: Record<string, string> = {
  "NT 5.0": "2000",
  "NT 5.1": "XP",
  "NT 5.2": "XP",
  "NT 6.0": "Vista",
  "NT 6.1": "7",
  "NT 6.2": "8",
  "NT 6.3": "8.1",
  "NT 6.4": "10",
  "NT 10.0": "10",
};
/** Names of browsers that posthog-js tells otherwise: on any system, and on iOS. */
const BROWSERS: Record<string, string> = {
  "Samsung Internet for Android": "Samsung Internet",
  "Android Browser": "Android Mobile",
};
const IOS_BROWSERS: Record<string, string> = {
  Chrome: "Chrome iOS",
  Firefox: "Firefox iOS",
  Safari: "Mobile Safari",
};
/** Systems whose versions have three parts there. */
const THREE_PARTS = new Set(["iOS", "macOS", "Android"]);

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

/** The version as posthog-js tells it, so that events from browsers and servers say the same. */
function systemVersion(
  { name, version }: { name?: string; version?: string },
  userAgent: string,
): string | undefined {
  if (name === "Windows") {
    return /arm/i.test(userAgent) ? "RT" : version && (WINDOWS[version] ?? version);
  }
  const isShort = version !== undefined && /^\d+\.\d+$/.test(version);
  return isShort && name !== undefined && THREE_PARTS.has(name) ? `${version}.0` : version;
}

/** Browsers and their versions as posthog-js tells them: a number of major and minor. */
function browserParts(
  { name = "", version = "" }: { name?: string; version?: string },
  os?: string,
) {
  const names = os === "iOS" ? IOS_BROWSERS : BROWSERS;
  const number = Number.parseFloat(version);
  return {
    $browser: names[name] ?? name,
    $browser_version: Number.isNaN(number) ? undefined : number,
  };
}

function parse(userAgent: string): Parts {
  const { browser, os, platform } = bowser.parse(userAgent);
  const parts: Record<string, string | number | undefined> = {
    ...browserParts(browser, os.name),
    $os: os.name === "macOS" ? "Mac OS X" : os.name,
    $os_version: systemVersion(os, userAgent),
    $device_type: DEVICE_TYPES[platform.type ?? ""],
    $device_manufacturer: platform.vendor,
    $device: platform.model,
  };
  return Object.fromEntries(
    Object.entries(parts).filter(
      (part): part is [string, string | number] => part[1] !== undefined && part[1] !== "",
    ),
  );
}

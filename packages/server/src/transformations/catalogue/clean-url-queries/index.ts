import type { PluginEvent, PluginMeta } from "@posthog/plugin-scaffold";

interface Global {
  properties: string[];
  clean: (url: string) => string;
}

export function setupPlugin({ config, global }: PluginMeta<Global>) {
  const patterns = listOf(config.parameters).map(wildcard);
  const isListed = (name: string) => {
    // Lists are written `name[]`.
    const [bare = ""] = name.split("[", 1);
    return patterns.some((pattern) => pattern.test(name) || pattern.test(bare));
  };
  const isKept: (name: string) => boolean =
    config.action === "remove all"
      ? () => false
      : config.action === "keep only listed"
        ? isListed
        : (name) => !isListed(name);
  const fragment = config.fragment;
  global.properties = listOf(config.properties);
  global.clean = (url) => {
    const [, beforeHash = "", hash = ""] = /^([^#]*)(#[\s\S]*)?$/.exec(url) ?? [];
    const base = cleanQuery(withoutCredentials(beforeHash), isKept);
    if (hash === "" || fragment === "remove") return base;
    return fragment === "clean like a query" ? base + cleanFragment(hash, isKept) : base + hash;
  };
}

export function processEvent(event: PluginEvent, { global }: PluginMeta<Global>) {
  const { properties } = event;
  const places = [properties, properties?.$set, properties?.$set_once, event.$set, event.$set_once];
  for (const place of places) {
    if (typeof place !== "object" || place === null) continue;
    const values = place as Record<string, unknown>;
    for (const name of global.properties) {
      const value = values[name];
      if (typeof value === "string" && isUrl(value)) values[name] = global.clean(value);
    }
  }
  return event;
}

/** With a scheme, relative, or as people write addresses: `www.example.com/a`. */
function isUrl(text: string): boolean {
  return /^(?:[a-z][a-z0-9+.-]*:|\/|\?|#|[\w-]+(?:\.[\w-]+)+(?:[:/?#]|$))/i.test(text);
}

function withoutCredentials(url: string): string {
  return url.replace(/^((?:[a-z][a-z0-9+.-]*:)?\/\/)[^/?#]*@/i, "$1");
}

function cleanQuery(url: string, isKept: (name: string) => boolean): string {
  const start = url.indexOf("?");
  if (start < 0) return url;
  const kept = keepParameters(url.slice(start + 1), isKept);
  return kept === "" ? url.slice(0, start) : `${url.slice(0, start)}?${kept}`;
}

function cleanFragment(hash: string, isKept: (name: string) => boolean): string {
  if (hash.includes("?")) return cleanQuery(hash, isKept);
  if (!hash.includes("=")) return hash;
  const kept = keepParameters(hash.slice(1), isKept);
  return kept === "" ? "" : `#${kept}`;
}

function keepParameters(query: string, isKept: (name: string) => boolean): string {
  return query
    .split("&")
    .filter((part) => part !== "" && isKept(nameOf(part)))
    .join("&");
}

function nameOf(parameter: string): string {
  const name = (parameter.split("=", 1)[0] ?? "").replaceAll("+", " ");
  try {
    return decodeURIComponent(name);
  } catch {
    return name;
  }
}

function wildcard(pattern: string): RegExp {
  const parts = pattern.split("*").map((part) => part.replace(/[\\^$.*+?()[\]{}|/]/g, "\\$&"));
  return new RegExp(`^${parts.join(".*")}$`, "i");
}

function listOf(value: unknown): string[] {
  return String(value ?? "")
    .split(",")
    .map((name) => name.trim())
    .filter((name) => name !== "");
}

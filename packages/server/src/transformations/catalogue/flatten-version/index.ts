import type { PluginEvent, PluginMeta } from "@posthog/plugin-scaffold";

const VERSION =
  /^\s*v?(\d{1,9})(?:\.(\d{1,9}))?(?:\.(\d{1,9}))?(?:\.\d{1,9})?(?:-?((?!\d)[0-9a-z-]+(?:\.[0-9a-z-]+)*|(?<=-)[0-9a-z.-]+))?(?:\+([0-9a-z.-]+)|\s*\(([0-9a-z.-]+)\))?\s*$/i;

export function setupPlugin({ config, global }: PluginMeta<{ names: string[] }>) {
  global.names = String(config.properties ?? "")
    .split(",")
    .map((name) => name.trim())
    .filter((name) => name !== "");
  if (global.names.length === 0) throw new Error("Name at least one property.");
}

export function processEvent(event: PluginEvent, { global }: PluginMeta<{ names: string[] }>) {
  const { properties } = event;
  if (!properties) return event;
  for (const name of global.names) {
    const value = properties[name];
    if (typeof value !== "string" && typeof value !== "number") continue;
    const match = VERSION.exec(String(value).slice(0, 200));
    if (!match) continue;
    const [, major = "0", minor = "0", patch = "0", prerelease, plus, inBrackets] = match;
    const build = plus ?? inBrackets;
    properties[`${name}__major`] = Number(major);
    properties[`${name}__minor`] = Number(minor);
    properties[`${name}__patch`] = Number(patch);
    if (prerelease) properties[`${name}__prerelease`] = prerelease;
    if (build) properties[`${name}__build`] = build;
    if (Number(minor) < 1000 && Number(patch) < 1000) {
      const release = Number(major) * 1_000_000 + Number(minor) * 1000 + Number(patch);
      properties[`${name}__number`] = prerelease ? release - 0.5 : release;
    }
  }
  return event;
}

import { Refusal } from "../http/errors.ts";
import type { FetchedPlugin } from "./fetch-plugin.ts";
import { type PluginLocation, shownAddress } from "./plugin-location.ts";
import type { PreparedSource } from "./prepare-source.ts";
import type { Asker, TransformationChange } from "./transformation-request.ts";
import type { NewTransformation } from "./transformation-store.ts";

const NEW: NewTransformation = {
  type: "source",
  identity: null,
  name: "",
  description: null,
  url: null,
  icon: null,
  configSchema: {},
  tag: null,
  latestTag: null,
  latestTagCheckedAt: null,
  isGlobal: false,
  capabilities: {},
  metrics: {},
  publicJobs: {},
};

/** One to be written here. */
export function newSource(change: TransformationChange): NewTransformation {
  return { ...NEW, ...change, type: change.type ?? "source" };
}

/** One that was installed. What its manifest says takes the place of what the caller gave. */
export function newInstall(
  asker: Asker,
  location: PluginLocation,
  plugin: FetchedPlugin,
  { manifest, change: found }: PreparedSource,
  { change, now }: { readonly change: TransformationChange; readonly now: Date },
): NewTransformation {
  const { type, url, tag } = plugin;
  return {
    ...NEW,
    ...change,
    ...found,
    name: manifest?.name ?? nameOf(location),
    // What comes with the service each organization installs for itself.
    identity:
      location.kind === "catalogue"
        ? `${asker.organizationId} ${plugin.identity}`
        : plugin.identity,
    type,
    url,
    tag,
    latestTag: tag,
    latestTagCheckedAt: tag === null ? null : now,
  };
}

/** The refusal of an install whose like there is, in PostHog's words (posthog-api 6.4). */
export function alreadyInstalled(url: string): Refusal {
  return new Refusal("invalid_input", `Plugin from URL "${shownAddress(url)}" already installed!`);
}

function nameOf(location: PluginLocation): string {
  switch (location.kind) {
    case "github":
      return location.repository;
    case "gitlab":
      return location.project.split("/").at(-1) ?? location.project;
    case "npm":
    case "catalogue":
      return location.name;
    case "archive":
      return new URL(location.url).pathname.split("/").at(-1) ?? location.url;
    case "folder":
      return location.path.split("/").findLast((part) => part !== "") ?? location.path;
  }
}

import { isJsonObject, type Json, type JsonObject, ownValue } from "@hedgerow/core/json";
import {
  meetsPosthogVersion,
  POSTHOG_VERSION,
} from "@hedgerow/core/transformations/posthog-version";
import type { TransformationFiles } from "@hedgerow/core/transformations/transformation";
import { Refusal } from "../http/errors.ts";
import { parseStrictJson } from "../http/parse-json.ts";

/** What a `plugin.json` says of its plugin (posthog-api 6.8); `undefined` for what it does not say. */
export interface PluginManifest {
  readonly name: string | undefined;
  readonly description: string | undefined;
  readonly icon: string | undefined;
  /** A list of fields or an object of them by key. */
  readonly configSchema: Json | undefined;
  readonly publicJobs: JsonObject | undefined;
  /** The versions of PostHog that it is for. */
  readonly posthogVersion: string | undefined;
}

const MAX_NAME_CHARS = 200;
/** Most characters of a `plugin.json`, or of what is declared in place of it. */
export const MAX_MANIFEST_CHARS = 1_000_000;
/** Each is gone through whenever settings are checked, shown or kept, in every config. */
const MAX_SETTINGS = 1_000;
const MAX_PUBLIC_JOBS = 1_000;

/**
 * Reads the `plugin.json` among some files; `undefined` where there is none. Throws a
 * {@link Refusal} for one that cannot be used.
 * @param attr the field that the files came in
 */
export function readManifest(
  files: TransformationFiles,
  attr: string | null,
): PluginManifest | undefined {
  const text = Object.hasOwn(files, "plugin.json") ? files["plugin.json"] : undefined;
  if (text === undefined) return undefined;
  const refuse = (detail: string) =>
    new Refusal("invalid_input", `plugin.json: ${detail}`, { attr });
  if (text.length > MAX_MANIFEST_CHARS) {
    throw refuse(`more than ${MAX_MANIFEST_CHARS} characters.`);
  }
  let manifest: Json;
  try {
    manifest = parseStrictJson(text.replace(/^\uFEFF/, ""));
  } catch (error) {
    throw refuse(`not valid JSON - ${error instanceof Error ? error.message : "unreadable"}`);
  }
  if (!isJsonObject(manifest)) throw refuse("expected an object.");
  const textOf = (key: string, maxChars: number): string | undefined => {
    const value = ownValue(manifest, key);
    if (value === undefined || value === null) return undefined;
    if (typeof value !== "string") throw refuse(`"${key}" is not a text.`);
    if (value.length > maxChars) {
      throw refuse(`"${key}" has more than ${maxChars} characters.`);
    }
    return value;
  };
  const configSchema = ownValue(manifest, "config") ?? undefined;
  const problem = configSchema === undefined ? undefined : configSchemaProblem(configSchema);
  if (problem !== undefined) throw refuse(`"config" ${problem}`);
  if (ownValue(manifest, "stateless") === true && !isEmpty(configSchema)) {
    throw new Refusal("invalid_input", "Stateless plugins cannot have a config!");
  }
  const jobs = ownValue(manifest, "publicJobs");
  if (jobs !== undefined && jobs !== null && !isJsonObject(jobs)) {
    throw refuse('"publicJobs" is not an object.');
  }
  const ofJobs = publicJobsProblem(jobs ?? {});
  if (ofJobs !== undefined) throw refuse(`"publicJobs" ${ofJobs}`);
  return {
    // A blank one names nothing.
    name: textOf("name", MAX_NAME_CHARS)?.trim() || undefined,
    description: textOf("description", 10_000),
    icon: textOf("icon", 800) ?? textOf("logo", 800),
    configSchema,
    publicJobs: jobs ?? undefined,
    posthogVersion: textOf("posthogVersion", 200),
  };
}

/** Refuses a plugin that is for other versions of PostHog, in its words (posthog-api 6.4). */
export function checkPosthogVersion({ posthogVersion }: PluginManifest): void {
  if (posthogVersion === undefined || posthogVersion.trim() === "") return;
  const isMet = meetsPosthogVersion(posthogVersion);
  if (isMet) return;
  throw new Refusal(
    "invalid_input",
    isMet === undefined
      ? `Invalid PostHog semantic version requirement "${posthogVersion}"!`
      : `Currently running PostHog version ${POSTHOG_VERSION} does not match this plugin's semantic version requirement "${posthogVersion}".`,
  );
}

/**
 * Why something cannot be a declaration of settings, which is a list of objects or an object of them
 * by key, to go on from its name; `undefined` where it can.
 */
export function configSchemaProblem(schema: Json): string | undefined {
  const items = Array.isArray(schema)
    ? (schema as readonly Json[])
    : isJsonObject(schema)
      ? Object.values(schema)
      : undefined;
  if (!items) return "is neither a list nor an object.";
  if (items.length > MAX_SETTINGS) return `has more than ${MAX_SETTINGS} settings.`;
  return items.every(isJsonObject) ? undefined : "holds what is not an object.";
}

/** Why something cannot be the jobs that a plugin offers, to go on from its name; `undefined` where it can. */
export function publicJobsProblem(jobs: JsonObject): string | undefined {
  return Object.keys(jobs).length > MAX_PUBLIC_JOBS
    ? `has more than ${MAX_PUBLIC_JOBS} jobs.`
    : undefined;
}

function isEmpty(schema: Json | undefined): boolean {
  return (
    schema === undefined ||
    (Array.isArray(schema) ? schema : Object.keys(schema ?? {})).length === 0
  );
}

import { cutName } from "@hedgerow/core/events/cut-name";
import type { FlagSelection } from "@hedgerow/core/flags/evaluation-request";
import { isJsonObject, type Json, type JsonObject, ownValue } from "@hedgerow/core/json";
import { Refusal } from "../http/errors.ts";
import type { FlagRequest, Identity } from "./flag-request.ts";

const NOTHING: JsonObject = Object.freeze({});

/**
 * Reads a flag request in any era's spelling (posthog-api 8.3, flag-evaluation 6.9). The checks run
 * in PostHog's order: token first, then distinct id, then the rest by field.
 * @param queryTokens the keys in the query string, where they may stand as well
 * @throws Refusal 401 without a usable token, 400 naming the field at fault otherwise
 */
export function parseFlagRequest(
  body: Json,
  queryTokens: readonly (string | undefined)[],
): FlagRequest {
  const fields = Array.isArray(body) ? body[0] : body;
  const object = isJsonObject(fields) ? fields : NOTHING;
  const token = findToken(object, queryTokens);
  if (fields !== undefined && fields !== null && !isJsonObject(fields)) {
    throw new Refusal("malformed_data", "Malformed request data: expected a JSON object.");
  }
  const disabled = isTrue(ownValue(object, "disable_flags"));
  const geoipDisabled = isTrue(ownValue(object, "geoip_disable"));
  return {
    token,
    identity: disabled ? null : parseIdentity(object),
    geoipDisabled,
    runtime: parseRuntime(ownValue(object, "evaluation_runtime")),
  };
}

/** Current SDKs name their runtime; words nobody knows say nothing. */
function parseRuntime(value: Json | undefined): FlagSelection["runtime"] {
  return value === "client" || value === "server" ? value : null;
}

function findToken(object: JsonObject, queryTokens: readonly (string | undefined)[]): string {
  const properties = ownValue(object, "properties");
  const candidates = [
    ...queryTokens,
    ownValue(object, "$token"),
    ownValue(object, "token"),
    ownValue(object, "api_key"),
    isJsonObject(properties) ? ownValue(properties, "token") : undefined,
  ];
  const token = candidates.find((candidate) => typeof candidate === "string" && candidate !== "");
  if (typeof token !== "string") {
    throw new Refusal(
      "missing_api_key",
      "No project API key provided. You can find your project API key in PostHog project settings.",
    );
  }
  if (token.startsWith("phx_")) {
    throw new Refusal(
      "personal_api_key",
      "Project API key invalid: this is a personal API key (phx_…). Flags are asked for with the project API key (phc_…).",
    );
  }
  return token;
}

function parseIdentity(object: JsonObject): Identity {
  const distinctId = idText(first(object, ["distinct_id", "$distinct_id"]), "distinct_id");
  if (distinctId === null) {
    throw new Refusal("missing_distinct_id", "Decide requires a distinct_id.");
  }
  const personProperties = objectField(object, ["person_properties", "$properties"]);
  return {
    distinctId: cutName(distinctId),
    deviceId:
      idText(first(object, ["$device_id", "device_id"]), "$device_id") ??
      textOf(ownValue(personProperties, "$device_id")),
    anonDistinctId: anonymousId(first(object, ["$anon_distinct_id"])),
    groups: groupKeys(objectField(object, ["groups", "$groups"])),
    personProperties,
    groupProperties: groupProperties(
      objectField(object, ["group_properties", "$group_properties"]),
    ),
    flagKeys: listField(object, ["flag_keys", "flag_keys_to_evaluate"]),
    contexts: listField(object, ["evaluation_contexts", "evaluation_environments"]),
  };
}

/** The value under the first of several spellings that is present. */
function first(object: JsonObject, names: readonly string[]): Json | undefined {
  for (const name of names) {
    const value = ownValue(object, name);
    if (value !== undefined && value !== null) return value;
  }
  return undefined;
}

function idText(value: Json | undefined, attr: string): string | null {
  if (value === undefined) return null;
  if (typeof value === "string") return value;
  if (typeof value === "number" || typeof value === "bigint") return String(value);
  throw new Refusal("invalid_input", "Not a valid string.", { attr });
}

function anonymousId(value: Json | undefined): string | null {
  const text = idText(value, "$anon_distinct_id");
  return text === null || text === "" ? null : cutName(text);
}

function textOf(value: Json | undefined): string | null {
  return typeof value === "string" ? value : null;
}

function objectField(object: JsonObject, names: readonly string[]): JsonObject {
  const value = first(object, names);
  if (value === undefined) return NOTHING;
  if (isJsonObject(value)) return value;
  throw new Refusal("invalid_input", "Expected a dictionary of items.", { attr: names[0] ?? null });
}

/** Keys are text or numbers; anything else counts as no key (flag-evaluation 5.2). */
function groupKeys(object: JsonObject): Record<string, string> {
  const keys = Object.create(null) as Record<string, string>;
  for (const [type, key] of Object.entries(object)) {
    if (typeof key === "string" || typeof key === "number" || typeof key === "bigint") {
      keys[type] = String(key);
    }
  }
  return keys;
}

function groupProperties(object: JsonObject): Record<string, JsonObject> {
  const properties = Object.create(null) as Record<string, JsonObject>;
  for (const [type, value] of Object.entries(object)) {
    if (value === null) continue;
    if (!isJsonObject(value)) {
      throw new Refusal("invalid_input", "Expected a dictionary of items.", {
        attr: `group_properties__${type}`,
      });
    }
    properties[type] = value;
  }
  return properties;
}

function listField(object: JsonObject, names: readonly string[]): readonly string[] | null {
  const value = first(object, names);
  if (value === undefined) return null;
  const attr = names[0] ?? null;
  if (!Array.isArray(value))
    throw new Refusal("invalid_input", "Expected a list of items.", { attr });
  for (const item of value as readonly Json[]) {
    if (typeof item !== "string")
      throw new Refusal("invalid_input", "Not a valid string.", { attr });
  }
  return value as readonly string[];
}

function isTrue(value: Json | undefined): boolean {
  return value === true || value === 1 || (typeof value === "string" && /^(true|1)$/i.test(value));
}

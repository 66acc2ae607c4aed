import { cutName } from "@hedgerow/core/events/cut-name";
import type { FlagSelection } from "@hedgerow/core/flags/evaluation-request";
import { isJsonObject, type Json, type JsonObject } from "@hedgerow/core/json";
import { Refusal } from "../http/errors.ts";
import type { FlagRequest, Identity } from "./flag-request.ts";

// No name read in this file is one that objects inherit: a plain read tells whether a field is there,
// at a fraction of what asking for own keys costs.

const NOTHING: JsonObject = Object.freeze({});
const NO_GROUPS: Readonly<Record<string, never>> = Object.freeze(Object.create(null));

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
  const disabled = isTrue(object.disable_flags);
  const geoipDisabled = isTrue(object.geoip_disable);
  return {
    token,
    identity: disabled ? null : parseIdentity(object),
    geoipDisabled,
    runtime: parseRuntime(object.evaluation_runtime),
  };
}

/** Current SDKs name their runtime; words nobody knows say nothing. */
function parseRuntime(value: Json | undefined): FlagSelection["runtime"] {
  return value === "client" || value === "server" ? value : null;
}

function findToken(object: JsonObject, queryTokens: readonly (string | undefined)[]): string {
  const { properties } = object;
  const token =
    queryTokens.find(isPresent) ??
    [
      object.$token,
      object.token,
      object.api_key,
      isJsonObject(properties) ? properties.token : undefined,
    ].find(isPresent);
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

function isPresent(candidate: Json | undefined): candidate is string {
  return typeof candidate === "string" && candidate !== "";
}

function parseIdentity(object: JsonObject): Identity {
  const distinctId = idText(object.distinct_id ?? object.$distinct_id, "distinct_id");
  if (distinctId === null) {
    throw new Refusal("missing_distinct_id", "Decide requires a distinct_id.");
  }
  const personProperties = dictionary(
    object.person_properties ?? object.$properties,
    "person_properties",
  );
  return {
    distinctId: cutName(distinctId),
    deviceId:
      idText(object.$device_id ?? object.device_id, "$device_id") ??
      textOf(personProperties.$device_id),
    anonDistinctId: anonymousId(object.$anon_distinct_id),
    groups: groupKeys(dictionary(object.groups ?? object.$groups, "groups")),
    personProperties,
    groupProperties: groupProperties(
      dictionary(object.group_properties ?? object.$group_properties, "group_properties"),
    ),
    flagKeys: list(object.flag_keys ?? object.flag_keys_to_evaluate, "flag_keys"),
    contexts: list(
      object.evaluation_contexts ?? object.evaluation_environments,
      "evaluation_contexts",
    ),
  };
}

function idText(value: Json | undefined, attr: string): string | null {
  if (value === undefined || value === null) return null;
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

function dictionary(value: Json | undefined, attr: string): JsonObject {
  if (value === undefined || value === null) return NOTHING;
  if (isJsonObject(value)) return value;
  throw new Refusal("invalid_input", "Expected a dictionary of items.", { attr });
}

/** A project knows five types of groups: more of them is no request, and each is looked at. */
const MAX_GROUPS = 1000;

/** Types of groups that a request names; throws a {@link Refusal} for too many. */
export function typesIn(object: object, attr: string): readonly string[] {
  const types = Object.keys(object);
  if (types.length <= MAX_GROUPS) return types;
  throw new Refusal("invalid_input", `Ensure this field has no more than ${MAX_GROUPS} elements.`, {
    attr,
  });
}

/** Keys are text or numbers; anything else counts as no key (flag-evaluation 5.2). */
function groupKeys(object: JsonObject): Readonly<Record<string, string>> {
  if (object === NOTHING) return NO_GROUPS;
  const keys = Object.create(null) as Record<string, string>;
  for (const type of typesIn(object, "groups")) {
    const key = object[type];
    if (typeof key === "string" || typeof key === "number" || typeof key === "bigint") {
      keys[type] = String(key);
    }
  }
  return keys;
}

function groupProperties(object: JsonObject): Readonly<Record<string, JsonObject>> {
  if (object === NOTHING) return NO_GROUPS;
  const properties = Object.create(null) as Record<string, JsonObject>;
  for (const type of typesIn(object, "group_properties")) {
    const value = object[type] as Json;
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

function list(value: Json | undefined, attr: string): readonly string[] | null {
  if (value === undefined || value === null) return null;
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

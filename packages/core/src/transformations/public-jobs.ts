import { isJsonObject, type Json, type JsonObject, ownValue } from "../json.ts";
import { isJsonText, isSet } from "./config-schema.ts";

/** A job's payload as it is run, or why it cannot be taken. */
export type JobPayload =
  | { readonly kind: "fit"; readonly payload: JsonObject }
  | {
      readonly kind: "unfit";
      /** The field at fault. */
      readonly key: string;
      readonly reason: "required" | "invalid";
      readonly message: string;
    };

/**
 * A payload as `publicJobs` of a `plugin.json` declares it (posthog-api 6.8), with the default of
 * every field that was left out. Fields that nothing declares, jobs that are not declared and types
 * that are unknown are left alone, and what is malformed declares nothing: schemas come from strangers.
 * @param publicJobs jobs by name, each with the fields of its payload
 */
export function readJobPayload(publicJobs: Json, job: string, given: JsonObject): JobPayload {
  const payload = new Map<string, Json>(Object.entries(given));
  for (const [key, field] of fieldsOf(publicJobs, job)) {
    const value = payload.get(key) ?? ownValue(field, "default") ?? null;
    if (value === null) {
      if (!isSet(field, "required")) continue;
      return { kind: "unfit", key, reason: "required", message: "This field is required." };
    }
    const message = faultOf(ownValue(field, "type"), value);
    if (message !== undefined) return { kind: "unfit", key, reason: "invalid", message };
    payload.set(key, value);
  }
  return { kind: "fit", payload: Object.fromEntries(payload) };
}

/** Keys of a job's payload that `publicJobs` declares secret. */
export function secretPayloadKeys(publicJobs: Json, job: string): ReadonlySet<string> {
  const secret = fieldsOf(publicJobs, job).filter(([, field]) => isSet(field, "secret"));
  return new Set(secret.map(([key]) => key));
}

function fieldsOf(publicJobs: Json, job: string): readonly (readonly [string, JsonObject])[] {
  const declared = isJsonObject(publicJobs) ? ownValue(publicJobs, job) : undefined;
  const fields = isJsonObject(declared) ? ownValue(declared, "payload") : undefined;
  return Object.entries(isJsonObject(fields) ? fields : {}).flatMap(([key, field]) =>
    isJsonObject(field) ? [[key, field] as const] : [],
  );
}

function faultOf(type: Json | undefined, value: Json): string | undefined {
  switch (type) {
    case "string":
      return typeof value === "string" ? undefined : "Not a valid string.";
    case "number":
      return typeof value === "number" || typeof value === "bigint"
        ? undefined
        : "A valid number is required.";
    case "boolean":
      return typeof value === "boolean" ? undefined : "Must be a valid boolean.";
    case "date":
      return typeof value === "string" && !Number.isNaN(Date.parse(value))
        ? undefined
        : "Expected a date or a time.";
    case "json":
      return typeof value === "string" && value !== "" && !isJsonText(value)
        ? "Value must be valid JSON."
        : undefined;
    default:
      return undefined;
  }
}

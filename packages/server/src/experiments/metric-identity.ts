import { createHash, randomUUID } from "node:crypto";
import { isJsonObject, type Json, type JsonObject } from "@hedgerow/core/json";

/** A metric with a uuid, which clients name it by, and a fingerprint of what it measures. */
export function identified(metric: JsonObject): JsonObject {
  const { uuid, fingerprint: _, name: __, ...measured } = metric;
  const fingerprint = createHash("sha256").update(canonicalText(measured)).digest("hex");
  return { ...metric, uuid: typeof uuid === "string" ? uuid : randomUUID(), fingerprint };
}

/** JSON with the keys of objects in order, so that equal values have equal texts. */
function canonicalText(value: Json): string {
  if (Array.isArray(value)) return `[${(value as Json[]).map(canonicalText).join(",")}]`;
  if (!isJsonObject(value))
    return typeof value === "bigint" ? String(value) : JSON.stringify(value);
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${entries.map(([key, item]) => `${JSON.stringify(key)}:${canonicalText(item)}`).join(",")}}`;
}

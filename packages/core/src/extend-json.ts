import { encodeJson } from "./exact-json.ts";
import type { Json, JsonObject } from "./json.ts";

/**
 * The object with what `added` has and it lacks, at the end; the object itself where that is
 * nothing. Copies key by key: for objects of dozens of keys several times as fast as spreading two
 * into one.
 */
export function extendJson(object: JsonObject, added: JsonObject): JsonObject {
  let isMissing = false;
  for (const key in added) {
    if (Object.hasOwn(added, key) && !Object.hasOwn(object, key)) {
      isMissing = true;
      break;
    }
  }
  if (!isMissing) return object;
  // Assigning this key would set the prototype.
  if (Object.hasOwn(object, "__proto__") || Object.hasOwn(added, "__proto__")) {
    return { ...object, ...added, ...object };
  }
  const extended: Record<string, Json> = {};
  for (const key in object) extended[key] = object[key] as Json;
  for (const key in added) if (!Object.hasOwn(object, key)) extended[key] = added[key] as Json;
  return extended;
}

/**
 * JSON text of what {@link extendJson} makes of an object, from the object's own text. Keys stand in
 * it as they were added: where an object would sort them, reading the text does.
 */
export function extendJsonText(text: string, object: JsonObject, added: JsonObject): string {
  const missing = Object.entries(added).filter(([key]) => !Object.hasOwn(object, key));
  if (missing.length === 0) return text;
  const isEmpty = text.length === 2;
  const members = encodeJson(Object.fromEntries(missing)).slice(1);
  return `${text.slice(0, -1)}${isEmpty ? "" : ","}${members}`;
}

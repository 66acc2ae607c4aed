import type { Json, JsonObject } from "./json.ts";

/**
 * The object with what `added` has and it lacks, at the end; the object itself where that is
 * nothing. Copies key by key: for objects of dozens of keys several times as fast as spreading two
 * into one.
 */
export function extendJson(object: JsonObject, added: JsonObject): JsonObject {
  const missing = missingIn(object, added);
  if (missing === NOTHING) return object;
  // Assigning this key would set the prototype.
  if (Object.hasOwn(object, "__proto__") || Object.hasOwn(missing, "__proto__")) {
    return { ...object, ...missing };
  }
  const extended: Record<string, Json> = {};
  for (const key in object) extended[key] = object[key] as Json;
  for (const key in missing) extended[key] = missing[key] as Json;
  return extended;
}

/**
 * JSON text of an object with more behind what it has, from the texts of both, which have no key in
 * common. Keys stand in it as they were added: where an object would sort them, reading the text does.
 */
export function extendJsonText(text: string, added: string): string {
  if (added.length === 2) return text;
  return text.length === 2 ? added : `${text.slice(0, -1)},${added.slice(1)}`;
}

/** Length of what {@link extendJsonText} makes. */
export function extendedLength(text: string, added: string): number {
  if (added.length === 2) return text.length;
  return text.length === 2 ? added.length : text.length + added.length - 1;
}

export const NOTHING: JsonObject = Object.freeze({});

/** What the object lacks of `added`: `added` itself where that is all of it, {@link NOTHING} where it lacks nothing. */
export function missingIn(object: JsonObject, added: JsonObject): JsonObject {
  let has = 0;
  let lacks = 0;
  for (const key in added) {
    if (Object.hasOwn(object, key)) has++;
    else lacks++;
  }
  if (lacks === 0) return NOTHING;
  if (has === 0) return added;
  return Object.fromEntries(Object.entries(added).filter(([key]) => !Object.hasOwn(object, key)));
}

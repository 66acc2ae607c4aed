/**
 * A JSON value as it came off the wire. Keys are data: `__proto__` and friends are just keys. An
 * integer is a `bigint` only where a `number` would change its digits (`parseExactJson`).
 */
export type Json = string | number | bigint | boolean | null | readonly Json[] | JsonObject;

/** A JSON object. Look keys up with `Object.hasOwn` or {@link ownValue}: inherited names are legal keys. */
export interface JsonObject {
  readonly [key: string]: Json;
}

/** The value under an own key, or `undefined` where the key is absent (`null` is a present value). */
export function ownValue(object: JsonObject, key: string): Json | undefined {
  return Object.hasOwn(object, key) ? object[key] : undefined;
}

/** True for JSON objects, false for arrays, `null` and scalars. */
export function isJsonObject(value: unknown): value is JsonObject {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

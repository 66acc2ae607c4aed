/**
 * What the guest has of the language, taken before any code of a transformation runs: whatever that
 * changes of it later, these stay.
 */

export type Json = unknown;
export type AnyFunction = (...values: unknown[]) => unknown;
export type Exports = Record<string, unknown>;

export const scope = globalThis as unknown as Record<string, unknown>;
export const { parse, stringify } = JSON;
export const { now } = Date;
export const { isArray } = Array;
export const { keys: keysOf, isExtensible, isFrozen } = Object;
export const {
  apply,
  setPrototypeOf,
  defineProperty,
  deleteProperty,
  getOwnPropertyDescriptor,
  ownKeys,
} = Reflect;
export const { join } = Array.prototype;
export const { bind } = Function.prototype;
export const { then: promiseThen } = Promise.prototype;
// Answers the object, as Reflect's does not.
const { setPrototypeOf: setPrototypeOfList } = Object;

/** What all objects have in common. */
export const ROOT = Object.prototype as unknown as Record<PropertyKey, unknown>;

/** An array that no code of the transformation stands behind: what is put into it arrives. */
export function newList<T>(): T[] {
  return setPrototypeOfList([], null) as unknown as T[];
}

/** The same object without a prototype: what code gives to all objects is not taken for its own. */
export function without<T extends object>(object: T): T {
  setPrototypeOf(object, null);
  return object;
}

/** Gives an object a property of its own, free to be changed, whatever all objects have by that name. */
export function put(target: object, name: PropertyKey, value: unknown, enumerable = false): void {
  const property = { value, writable: true, configurable: true, enumerable };
  defineProperty(target, name, without(property));
}

export function isThenable(value: unknown): value is PromiseLike<unknown> {
  return (
    typeof value === "object" &&
    value !== null &&
    typeof (value as { then?: unknown }).then === "function"
  );
}

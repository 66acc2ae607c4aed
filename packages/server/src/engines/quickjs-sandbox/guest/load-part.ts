import { ask, bridge, call } from "./bridge.ts";
import { describeThrown, errorOf } from "./errors.ts";
import {
  defineProperty,
  deleteProperty,
  type Exports,
  getOwnPropertyDescriptor,
  isExtensible,
  newList,
  ownKeys,
  parse,
  put,
  ROOT,
  without,
} from "./intrinsics.ts";
import type { GuestCore, Inspecting } from "./part.ts";
import { describeError } from "./stacks.ts";

// biome-ignore lint/security/noGlobalEval: parts of the guest itself, inside of the sandbox
const evaluate = globalThis.eval;

/** What parts are given. */
const core: GuestCore = {
  call,
  ask,
  part,
  put,
  show,
  inspect,
  format,
  describeThrown,
  describeError,
  errorOf,
  textOf,
};
const parts = new Map<string, Exports>();

/** A part of the globals that is evaluated when first used. */
export function part(name: string): Exports {
  const known = parts.get(name);
  if (known !== undefined) return known;
  const text = bridge.call("part", name);
  if (text === undefined || text === "") throw new Error(`There is no part ${name}`);
  const made = withPlainRoot(() => (evaluate(text) as (core: GuestCore) => Exports)(core));
  parts.set(name, made);
  return made;
}

const inspecting = () => part("inspect") as Inspecting;

/** A value as consoles show it. */
export function show(value: unknown, depth = 0): string {
  if (typeof value === "string" && depth === 0) return value;
  try {
    return inspecting().show(value, depth);
  } catch (error) {
    return `[${describeThrown(error)}]`;
  }
}

/** Node's `util.inspect`. */
export function inspect(value: unknown, options?: unknown, depth?: unknown): string {
  return inspecting().inspect(value, options, depth);
}

/** Fills the placeholders of the first text, as consoles do. */
export function format(values: unknown[]): string {
  return inspecting().format(values);
}

const rootKeys = without({}) as Record<PropertyKey, boolean>;
for (const key of ownKeys(ROOT)) rootKeys[key] = true;

/** Does work as if code had added nothing to all objects meanwhile. */
function withPlainRoot<T>(work: () => T): T {
  const added = newList<[PropertyKey, PropertyDescriptor]>();
  const keys = isExtensible(ROOT) ? ownKeys(ROOT) : newList<PropertyKey>();
  for (let at = 0; at < keys.length; at += 1) {
    const key = keys[at] as PropertyKey;
    if (rootKeys[key]) continue;
    const property = without(getOwnPropertyDescriptor(ROOT, key) as PropertyDescriptor);
    if (deleteProperty(ROOT, key)) added[added.length] = [key, property];
  }
  try {
    return work();
  } finally {
    for (let at = 0; at < added.length; at += 1) {
      const one = added[at] as [PropertyKey, PropertyDescriptor];
      defineProperty(ROOT, one[0], one[1]);
    }
  }
}

function textOf({ buffer, byteOffset, byteLength }: Uint8Array, encoding: string): string {
  const bytes = buffer.slice(byteOffset, byteOffset + byteLength) as ArrayBuffer;
  return parse(bridge.text(bytes, encoding));
}

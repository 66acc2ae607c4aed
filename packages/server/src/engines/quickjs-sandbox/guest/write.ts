import { isArray, keysOf, ROOT, stringify, without } from "./intrinsics.ts";

const LIST_ROOT = Array.prototype as unknown as { toJSON?: unknown };
/** How deep what the guest says nests, of its own. */
const MAX_OWN_DEPTH = 20;

/** JSON of what the guest says: in it, a `toJSON` that code gives to all objects or lists is no one's. */
export function write(value: unknown): string {
  return stringify(LIST_ROOT.toJSON === undefined ? value : bare(value, 0)) ?? "null";
}

/** Lists and objects without a prototype; those that write their JSON themselves as they are. */
function bare(value: unknown, depth: number): unknown {
  if (typeof value !== "object" || value === null || depth > MAX_OWN_DEPTH) return value;
  const { toJSON } = value as { toJSON?: unknown };
  if (toJSON !== LIST_ROOT.toJSON && toJSON !== ROOT["toJSON"]) return value;
  const copy = without(isArray(value) ? [] : {}) as Record<string, unknown>;
  const keys = keysOf(value);
  for (let at = 0; at < keys.length; at += 1) {
    const key = keys[at] as string;
    copy[key] = bare((value as Record<string, unknown>)[key], depth + 1);
  }
  return copy;
}

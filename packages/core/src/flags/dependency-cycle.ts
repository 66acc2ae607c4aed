import { isJsonObject, type Json, type JsonObject, ownValue } from "../json.ts";
import type { FlagDefinition } from "./flag.ts";

/** Ids (as text) or keys of the flags that conditions refer to. */
export function dependencyNames(filters: JsonObject): readonly string[] {
  const names = new Set<string>();
  for (const listKey of ["groups", "super_groups"]) {
    const list = ownValue(filters, listKey);
    if (!Array.isArray(list)) continue;
    for (const condition of (list as readonly Json[]).filter(isJsonObject)) {
      const properties = ownValue(condition, "properties");
      if (!Array.isArray(properties)) continue;
      for (const filter of (properties as readonly Json[]).filter(isJsonObject)) {
        const key = ownValue(filter, "key");
        if (ownValue(filter, "type") !== "flag") continue;
        if (typeof key === "string" || typeof key === "number") names.add(String(key));
      }
    }
  }
  return [...names];
}

/** The flag that a dependency names: by id first, then by key. */
export function findFlag(
  flags: readonly FlagDefinition[],
  name: string,
): FlagDefinition | undefined {
  return flags.find((flag) => String(flag.id) === name) ?? flags.find((flag) => flag.key === name);
}

/** Keys from the flag back to itself through what its targets depend on; `null` without a cycle. */
export function findCycle(
  flag: { readonly id: number | null; readonly key: string },
  targets: readonly FlagDefinition[],
  others: readonly FlagDefinition[],
): readonly string[] | null {
  const seen = new Set<number>();
  const open = targets.map((target) => ({ flag: target, path: [flag.key, target.key] }));
  for (let current = open.pop(); current !== undefined; current = open.pop()) {
    if (seen.has(current.flag.id)) continue;
    seen.add(current.flag.id);
    for (const name of dependencyNames(current.flag.filters)) {
      if (name === flag.key || name === String(flag.id)) return [...current.path, flag.key];
      const next = findFlag(others, name);
      if (next !== undefined) open.push({ flag: next, path: [...current.path, next.key] });
    }
  }
  return null;
}

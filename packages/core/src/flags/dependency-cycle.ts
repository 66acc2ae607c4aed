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

/** Finds flags by what dependencies name them by. */
export type FindFlag = (name: string) => FlagDefinition | undefined;

/**
 * Finds flags by their id in digits or, where none has such an id, by their key; the first of each. The
 * flags are gone through with the first question only, however many are asked.
 */
export function createFindFlag(flags: readonly FlagDefinition[]): FindFlag {
  let byName: ReadonlyMap<string, FlagDefinition> | undefined;
  return (name) => {
    byName ??= new Map([
      ...flags.map((flag) => [flag.key, flag] as const).toReversed(),
      ...flags.map((flag) => [String(flag.id), flag] as const).toReversed(),
    ]);
    return byName.get(name);
  };
}

/** Keys from the flag back to itself through what its targets depend on; `null` without a cycle. */
export function findCycle(
  flag: { readonly id: number | null; readonly key: string },
  targets: readonly FlagDefinition[],
  findFlag: FindFlag,
): readonly string[] | null {
  const seen = new Set<number>();
  const open = targets.map((target) => ({ flag: target, path: [flag.key, target.key] }));
  for (let current = open.pop(); current !== undefined; current = open.pop()) {
    if (seen.has(current.flag.id)) continue;
    seen.add(current.flag.id);
    for (const name of dependencyNames(current.flag.filters)) {
      if (name === flag.key || name === String(flag.id)) return [...current.path, flag.key];
      const next = findFlag(name);
      if (next !== undefined) open.push({ flag: next, path: [...current.path, next.key] });
    }
  }
  return null;
}

import type { FlagDefinition } from "./flag.ts";
import type { CompiledFlag, FlagDependencies, ResolvedDependencies } from "./flag-set.ts";

const NO_DEPENDENCIES: FlagDependencies = Object.freeze({
  targets: new Map(),
  ofFlags: new Map(),
  answered: new Set<never>(),
});

/** Finds what dependency filters refer to: by id first, then by key. */
export function resolveDependencies(
  definitions: readonly FlagDefinition[],
  flags: readonly CompiledFlag[],
  byKey: ReadonlyMap<string, CompiledFlag>,
): FlagDependencies {
  const referring = flags.filter((flag) => flag.dependencies.length > 0);
  if (referring.length === 0) return NO_DEPENDENCIES;
  const byId = new Map(flags.map((flag) => [String(flag.identity.id), flag]));
  const off = new Set<string>();
  for (const { id, key, active } of definitions) if (!active) off.add(String(id)).add(key);
  const targets = new Map<string, CompiledFlag | null>();
  const ofFlags = new Map<CompiledFlag, ResolvedDependencies>();
  for (const flag of referring) {
    const found = new Set<CompiledFlag>();
    let isMissingOne = false;
    for (const name of flag.dependencies) {
      const target = byId.get(name) ?? byKey.get(name) ?? (off.has(name) ? null : undefined);
      if (target === undefined) isMissingOne = true;
      else targets.set(name, target);
      if (target) found.add(target);
    }
    ofFlags.set(flag, { flags: [...found], isMissingOne, rank: -1 });
  }
  const answered = new Set([...ofFlags.values()].flatMap((resolved) => resolved.flags));
  return { targets, ofFlags, answered };
}

/** Orders flags after those they depend on; what is left over lies on or behind a cycle. */
export function orderByDependency(
  flags: readonly CompiledFlag[],
  { ofFlags }: FlagDependencies,
): { ordered: readonly CompiledFlag[]; cyclic: readonly CompiledFlag[] } {
  if (ofFlags.size === 0) return { ordered: flags, cyclic: [] };
  const waitingFor = new Map<CompiledFlag, number>();
  const dependants = new Map<CompiledFlag, CompiledFlag[]>();
  for (const [flag, { flags: targets }] of ofFlags) {
    if (targets.length > 0) waitingFor.set(flag, targets.length);
    for (const target of targets) {
      const known = dependants.get(target);
      if (known) known.push(flag);
      else dependants.set(target, [flag]);
    }
  }
  const ordered = flags.filter((flag) => !waitingFor.has(flag));
  for (let at = 0; at < ordered.length; at += 1) {
    const flag = ordered[at] as CompiledFlag;
    const resolved = ofFlags.get(flag);
    if (resolved) resolved.rank = at;
    for (const dependant of dependants.get(flag) ?? []) {
      const left = (waitingFor.get(dependant) ?? 0) - 1;
      waitingFor.set(dependant, left);
      if (left === 0) ordered.push(dependant);
    }
  }
  const done = new Set(ordered);
  return { ordered, cyclic: flags.filter((flag) => !done.has(flag)) };
}

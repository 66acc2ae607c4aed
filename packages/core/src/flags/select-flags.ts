import type { FlagSelection } from "./evaluation-request.ts";
import type { CompiledFlag, FlagNeeds, FlagSet, SelectedFlags } from "./flag-set.ts";
import type { PropertyName } from "./person-property.ts";

/**
 * The flags a request gets: those it names and, with them, those they depend on (flag-evaluation
 * 11.6), or all; only what its runtime and contexts allow (12.2 to 12.4). A request for all flags of
 * a project that limits none costs nothing, one that names flags costs what these cost.
 */
export function selectFlags(set: FlagSet, selection: FlagSelection): SelectedFlags {
  if (selection.keys !== null) return selectNamed(set, selection.keys, selection);
  const { limits } = set;
  const allowsAll =
    !limits.runtime &&
    !selection.onlySurveyFlags &&
    !(limits.contexts && selection.contexts !== null);
  if (allowsAll) return set;
  const flags = set.flags.filter((flag) => isAllowed(flag, selection));
  const cyclic = set.cyclic.filter((flag) => isAllowed(flag, selection));
  return { flags, cyclic, needs: uniteNeeds(flags) };
}

function selectNamed(
  { byKey, dependencies }: FlagSet,
  keys: readonly string[],
  selection: FlagSelection,
): SelectedFlags {
  const open: CompiledFlag[] = [];
  for (const key of keys) {
    const flag = byKey.get(key);
    if (flag !== undefined) open.push(flag);
  }
  const chosen = new Set<CompiledFlag>();
  const flags: CompiledFlag[] = [];
  const dependants: { flag: CompiledFlag; rank: number }[] = [];
  const cyclic: CompiledFlag[] = [];
  // In the order in which they are named, as far as they do not depend on one another.
  for (let at = 0; at < open.length; at += 1) {
    const flag = open[at] as CompiledFlag;
    if (chosen.has(flag) || !isAllowed(flag, selection)) continue;
    chosen.add(flag);
    const resolved = flag.dependencies.length > 0 ? dependencies.ofFlags.get(flag) : undefined;
    if (resolved === undefined) flags.push(flag);
    else {
      if (resolved.rank === -1) cyclic.push(flag);
      else dependants.push({ flag, rank: resolved.rank });
      open.push(...resolved.flags);
    }
  }
  dependants.sort((a, b) => a.rank - b.rank);
  for (const { flag } of dependants) flags.push(flag);
  return { flags, cyclic, needs: uniteNeeds(flags) };
}

/** Runtime, contexts and survey flags (flag-evaluation 12.2 to 12.4). */
function isAllowed(flag: CompiledFlag, selection: FlagSelection): boolean {
  const { evaluationRuntime, evaluationContexts, isSurveyFlag } = flag.definition;
  if (evaluationRuntime !== "all" && evaluationRuntime !== selection.runtime) return false;
  if (selection.onlySurveyFlags && !isSurveyFlag) return false;
  const { contexts } = selection;
  if (contexts === null || evaluationContexts.length === 0) return true;
  return evaluationContexts.some((context) => contexts.includes(context));
}

/** What several flags read, each fact once. */
export function uniteNeeds(flags: readonly CompiledFlag[]): FlagNeeds {
  const person = new Map<string, PropertyName>();
  const group = new Map<string, Map<string, FlagNeeds["groupProperties"][number]>>();
  let any = false;
  let createdAt = false;
  let staticCohorts = false;
  let hashKeyOverride = false;
  for (const { needs } of flags) {
    if (!needs.any) continue;
    any = true;
    for (const property of needs.personProperties) person.set(property.text, property);
    for (const read of needs.groupProperties) {
      const known = group.get(read.groupName) ?? new Map();
      group.set(read.groupName, known.set(read.property.text, read));
    }
    createdAt ||= needs.createdAt;
    staticCohorts ||= needs.staticCohorts;
    hashKeyOverride ||= needs.hashKeyOverride;
  }
  return {
    any,
    personProperties: [...person.values()],
    createdAt,
    staticCohorts,
    groupProperties: [...group.values()].flatMap((reads) => [...reads.values()]),
    hashKeyOverride,
  };
}

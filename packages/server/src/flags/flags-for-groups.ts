import type { PendingPersons } from "../events/pending-persons.ts";
import type { CompiledFlags, FlagSnapshot } from "./compiled-flags.ts";

/**
 * A project's flags for a request that names groups. A type of group is made by the first event of a
 * group of that type, which may be on its way: the request waits for it, as it does for events of
 * groups whose type is known, and is answered from flags that know the type.
 */
export function flagsForGroups(
  deps: {
    readonly compiledFlags: Pick<CompiledFlags, "get" | "refresh">;
    readonly pendingPersons: Pick<PendingPersons, "settled">;
  },
  projectId: number,
  groups: Readonly<Record<string, string>>,
): FlagSnapshot | Promise<FlagSnapshot> {
  const known = deps.compiledFlags.get(projectId);
  return known instanceof Promise
    ? known.then((snapshot) => knowing(deps, projectId, groups, snapshot))
    : knowing(deps, projectId, groups, known);
}

function knowing(
  {
    compiledFlags,
    pendingPersons,
  }: {
    readonly compiledFlags: Pick<CompiledFlags, "refresh">;
    readonly pendingPersons: Pick<PendingPersons, "settled">;
  },
  projectId: number,
  groups: Readonly<Record<string, string>>,
  snapshot: FlagSnapshot,
): FlagSnapshot | Promise<FlagSnapshot> {
  let unknown: Record<string, string> | undefined;
  for (const [type, key] of Object.entries(groups)) {
    if (snapshot.definitions.groupTypes.some(({ name }) => name === type)) continue;
    unknown ??= {};
    unknown[type] = key;
  }
  if (unknown === undefined) return snapshot;
  const settled = pendingPersons.settled(projectId, { distinctIds: [], groups: unknown });
  if (settled === undefined) return snapshot;
  return settled.then(() => compiledFlags.refresh(projectId)).catch(() => snapshot);
}

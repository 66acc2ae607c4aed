import { Refusal } from "../http/errors.ts";
import { listNames, namesFlag } from "./definition-references.ts";
import type { FlagRecord, VersionedDefinitions } from "./flag-store.ts";

/** Something that a flag cannot be deleted under. */
export interface FlagDependant {
  readonly id: number | string;
  /** What people call it. */
  readonly name: string;
}

/** Finds what of one kind needs a flag; nothing that is needed is deleted. */
export interface FlagDependants {
  readonly kind: "flag" | "experiment" | "early_access_feature";
  find(flag: FlagRecord, definitions: VersionedDefinitions): Promise<readonly FlagDependant[]>;
}

/** Live flags, switched on or off, with a condition on the flag. */
export const flagsDependingOnFlag: FlagDependants = {
  kind: "flag",
  find: async (flag, { flags }) =>
    flags
      .filter(({ id, filters }) => id !== flag.id && namesFlag(filters, flag))
      .map(({ id, key }) => ({ id, name: key }))
      .toSorted((a, b) => (a.name < b.name ? -1 : 1)),
};

/** Refuses the deletion of a flag that something needs, naming the first kind of it. */
export async function refuseNeededFlag(
  kinds: readonly FlagDependants[],
  flag: FlagRecord,
  definitions: VersionedDefinitions,
): Promise<void> {
  for (const { kind, find } of kinds) {
    const dependants = await find(flag, definitions);
    if (dependants.length > 0) throw new Refusal("invalid_input", refusalText(kind, dependants));
  }
}

function refusalText(kind: FlagDependants["kind"], dependants: readonly FlagDependant[]): string {
  const named = listNames(dependants.map(({ id, name }) => `${name} (ID: ${id})`));
  switch (kind) {
    case "flag":
      return `Cannot delete this feature flag because other flags depend on it: ${named}. Please update or delete the dependent flags first.`;
    case "experiment": {
      const ids = dependants.map(({ id }) => id).join(", ");
      return `Cannot delete a feature flag that is linked to active experiment(s) with ID(s): ${ids}. Please delete the experiment(s) before deleting the flag.`;
    }
    case "early_access_feature":
      return `Cannot delete a feature flag that is in use with early access features: ${named}. Please end the early access feature, by taking feature_enrollment or super_groups out of the filters, before deleting the flag.`;
  }
}

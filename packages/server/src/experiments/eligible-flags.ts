import type { FlagListQuery, FlagRecord, FlagStore } from "../flags/flag-store.ts";
import { isFit } from "./flag-of-experiment.ts";

/** Finds live flags that an experiment can run on: at least two variants, the first `control`. */
export type EligibleFlags = (
  projectId: number,
  query: FlagListQuery,
) => Promise<{ count: number; flags: readonly FlagRecord[] }>;

/** How many flags are looked at in one read. */
const CHUNK = 500;

/** {@link EligibleFlags} over the store of flags. */
export function createEligibleFlags(flagStore: Pick<FlagStore, "list">): EligibleFlags {
  return async (projectId, { limit, offset, ...query }) => {
    const fit: FlagRecord[] = [];
    for (let read = 0; ; read += CHUNK) {
      const { flags } = await flagStore.list(projectId, { ...query, limit: CHUNK, offset: read });
      fit.push(...flags.filter(({ filters }) => isFit(filters)));
      if (flags.length < CHUNK) break;
    }
    return { count: fit.length, flags: fit.slice(offset, offset + limit) };
  };
}

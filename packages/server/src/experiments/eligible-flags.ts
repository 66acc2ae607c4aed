import type { FlagRecord, FlagStore } from "../flags/flag-store.ts";
import type { Page } from "../http/pagination.ts";
import { isFit } from "./flag-of-experiment.ts";

/** Finds live flags that an experiment can run on: at least two variants, the first `control`. */
export type EligibleFlags = (
  projectId: number,
  query: Page & { readonly search: string | null },
) => Promise<{ count: number; flags: readonly FlagRecord[] }>;

/** How many flags are looked at in one read. */
const CHUNK = 500;

/** {@link EligibleFlags} over the store of flags, newest first. */
export function createEligibleFlags(flagStore: Pick<FlagStore, "list">): EligibleFlags {
  return async (projectId, { limit, offset, search }) => {
    const fit: FlagRecord[] = [];
    for (let read = 0; ; read += CHUNK) {
      const { flags } = await flagStore.list(projectId, {
        active: null,
        notCalledSince: null,
        hasPayload: null,
        search,
        type: null,
        createdById: null,
        evaluationRuntime: null,
        tags: [],
        excludedKeys: [],
        order: { by: "createdAt", descending: true },
        limit: CHUNK,
        offset: read,
      });
      fit.push(...flags.filter(({ filters }) => isFit(filters)));
      if (flags.length < CHUNK) break;
    }
    return { count: fit.length, flags: fit.slice(offset, offset + limit) };
  };
}

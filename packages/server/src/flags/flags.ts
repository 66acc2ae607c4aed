import { isJsonObject, type Json, type JsonObject, ownValue } from "@hedgerow/core/json";
import { Refusal } from "../http/errors.ts";
import type { ChangeDefinitions } from "./change-definitions.ts";
import { checkFilters } from "./check-filters.ts";
import { listNames, namesFlag } from "./definition-references.ts";
import type {
  FlagFields,
  FlagListQuery,
  FlagRecord,
  FlagStore,
  VersionedDefinitions,
} from "./flag-store.ts";

/** What a caller may change of a flag; what is absent stays as it is. */
export type FlagChange = Partial<FlagFields>;

/** What a caller may say of a new flag. */
export type FlagDraft = FlagChange & { readonly key: string; readonly creationContext?: string };

/** Flags as their authors handle them. Ids of other projects' flags are unknown ids. */
export interface Flags {
  /** Throws a {@link Refusal} that names the field at fault (posthog-api 4.3). */
  create(projectId: number, draft: FlagDraft, authorId: number): Promise<FlagRecord>;

  /**
   * Changes a flag, deleted ones too; the change is live when the promise resolves.
   * `keepsFiltersWithoutGroups`: filters without `groups` leave the stored ones (posthog-api 4.4).
   */
  update(
    projectId: number,
    id: number,
    change: FlagChange,
    options: { authorId: number; keepsFiltersWithoutGroups: boolean },
  ): Promise<FlagRecord>;

  /** Deleted flags are found too. Throws `not_found`. */
  flag(projectId: number, id: number): Promise<FlagRecord>;

  list(
    projectId: number,
    query: FlagListQuery,
  ): Promise<{ count: number; flags: readonly FlagRecord[] }>;
}

const NOT_FOUND = () => new Refusal("not_found", "Not found.");
const TAKEN = () =>
  new Refusal("unique", "There is already a feature flag with this key.", { attr: "key" });

/** {@link Flags} over a store; changes are live when their promises resolve. */
export function createFlags({
  flagStore,
  changeDefinitions,
  clock,
}: {
  flagStore: FlagStore;
  changeDefinitions: ChangeDefinitions;
  clock: () => Date;
}): Flags {
  return {
    async create(projectId, draft, authorId) {
      refuseUnfitKey(draft.key);
      return await changeDefinitions(projectId, async ({ definitions }) => {
        refuseTakenKey(definitions, draft.key, null);
        const now = clock();
        const { creationContext = "feature_flags", ...fields } = draft;
        const outcome = await flagStore.create(
          projectId,
          {
            ...NEW_FLAG,
            createdAt: now,
            ...fields,
            filters: checkFilters(draft.filters ?? {}, { definitions, id: null, key: draft.key }),
            creationContext,
          },
          { authorId, now, ifRevision: definitions.revision },
        );
        if (outcome === "duplicate-key") throw TAKEN();
        return outcome;
      });
    },

    async update(projectId, id, change, { authorId, keepsFiltersWithoutGroups }) {
      if (change.key !== undefined) refuseUnfitKey(change.key);
      return await changeDefinitions(projectId, async ({ definitions }) => {
        const flag = await flagStore.flag(projectId, id);
        if (!flag) throw NOT_FOUND();
        const { filters: sent, ...fields } = change;
        const key = change.key ?? flag.key;
        const isLive = !(change.deleted ?? flag.deleted);
        if (isLive) refuseTakenKey(definitions, key, id);
        if (!isLive && !flag.deleted) refuseNeededFlag(definitions, flag);
        const keepsFilters =
          sent === undefined || (keepsFiltersWithoutGroups && !Object.hasOwn(sent, "groups"));
        // A restored flag may name flags and cohorts that are gone by now.
        const filters =
          keepsFilters && !(isLive && flag.deleted)
            ? flag.filters
            : checkFilters(keepsFilters ? flag.filters : sent, { definitions, id, key });
        const outcome = await flagStore.update(
          projectId,
          id,
          {
            ...fields,
            ...(change.active ? { performedRollback: false } : {}),
            filters: key === flag.key ? filters : withEnrolmentRenamed(filters, key),
          },
          { authorId, now: clock(), ifRevision: definitions.revision },
        );
        if (outcome === "not-found") throw NOT_FOUND();
        if (outcome === "duplicate-key") throw TAKEN();
        return outcome;
      });
    },

    async flag(projectId, id) {
      const flag = await flagStore.flag(projectId, id);
      if (!flag) throw NOT_FOUND();
      return flag;
    },

    list: (projectId, query) => flagStore.list(projectId, query),
  };
}

/** What a new flag is where its author says nothing. */
const NEW_FLAG = {
  name: "",
  active: true,
  deleted: false,
  ensureExperienceContinuity: false,
  bucketingIdentifier: "distinct_id",
  evaluationRuntime: "all",
  evaluationContexts: [],
  tags: [],
  isRemoteConfiguration: false,
  rollbackConditions: null,
  performedRollback: false,
  hasEnrichedAnalytics: false,
  lastCalledAt: null,
} as const satisfies Partial<FlagFields>;

function refuseUnfitKey(key: string): void {
  if (/^[A-Za-z0-9_-]+$/.test(key)) return;
  throw new Refusal(
    "invalid_key",
    "Only letters, numbers, hyphens (-) & underscores (_) are allowed.",
    { attr: "key" },
  );
}

function refuseTakenKey(definitions: VersionedDefinitions, key: string, ownId: number | null) {
  if (definitions.flags.some((flag) => flag.key === key && flag.id !== ownId)) throw TAKEN();
}

function refuseNeededFlag(definitions: VersionedDefinitions, flag: FlagRecord): void {
  const dependants = definitions.flags
    .filter(({ id, filters }) => id !== flag.id && namesFlag(filters, flag))
    .toSorted((a, b) => (a.key < b.key ? -1 : 1));
  if (dependants.length === 0) return;
  const names = listNames(dependants.map(({ key, id }) => `${key} (ID: ${id})`));
  throw new Refusal(
    "invalid_input",
    `Cannot delete this feature flag because other flags depend on it: ${names}. Please update or delete the dependent flags first.`,
  );
}

const ENROLMENT = "$feature_enrollment/";

/** Super groups name the flag's key in the property they test, so they follow a renaming. */
function withEnrolmentRenamed(filters: JsonObject, key: string): JsonObject {
  const superGroups = ownValue(filters, "super_groups");
  if (!Array.isArray(superGroups)) return filters;
  const renamed = (property: Json): Json => {
    if (!isJsonObject(property)) return property;
    const tested = ownValue(property, "key");
    return typeof tested === "string" && tested.startsWith(ENROLMENT)
      ? { ...property, key: `${ENROLMENT}${key}` }
      : property;
  };
  return {
    ...filters,
    super_groups: (superGroups as Json[]).map((group) => {
      const properties = isJsonObject(group) ? ownValue(group, "properties") : undefined;
      return isJsonObject(group) && Array.isArray(properties)
        ? { ...group, properties: (properties as Json[]).map(renamed) }
        : group;
    }),
  };
}

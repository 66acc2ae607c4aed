import { isJsonObject, type Json, type JsonObject, ownValue } from "@hedgerow/core/json";
import type { AccountStore } from "../accounts/account-store.ts";
import { usersById } from "../accounts/users-by-id.ts";
import type { ActivityLog } from "../activity/activity-log.ts";
import { describeChanges } from "../activity/describe-change.ts";
import { Refusal } from "../http/errors.ts";
import { wireFieldName } from "../http/wire-field-name.ts";
import type { ChangeDefinitions } from "./change-definitions.ts";
import { checkFilters, checkSpelling } from "./check-filters.ts";
import {
  type FlagChange,
  type PayloadSeal,
  type ShownFlag,
  sealPayloads,
  shownFlag,
} from "./encrypted-payloads.ts";
import { type FlagDependants, refuseNeededFlag } from "./flag-dependants.ts";
import { enrolsPersons } from "./flag-enrolment.ts";
import type {
  FlagFields,
  FlagListQuery,
  FlagRecord,
  FlagStore,
  VersionedDefinitions,
} from "./flag-store.ts";
import { type EditBase, type MergedEdit, mergeFlagChange } from "./merge-flag-change.ts";

/** What a caller may say of a new flag. */
export type FlagDraft = FlagChange & { readonly key: string; readonly creationContext?: string };

/** Flags as their authors handle them. Ids of other projects' flags are unknown ids. */
export interface Flags {
  /** Throws a {@link Refusal} that names the field at fault (posthog-api 4.3). */
  create(projectId: number, draft: FlagDraft, authorId: number): Promise<FlagRecord>;

  /**
   * Changes a flag, deleted ones too; the change is live when the promise resolves.
   * `keepsFiltersWithoutGroups`: filters without `groups` leave the stored ones (posthog-api 4.4).
   * With `base`, what others changed since is merged in, or the change refused as a `conflict` that
   * names who changed which of the same fields.
   */
  update(
    projectId: number,
    id: number,
    change: FlagChange,
    options: { authorId: number; keepsFiltersWithoutGroups: boolean; base?: EditBase },
  ): Promise<FlagRecord>;

  /** Deleted flags are found too. Throws `not_found`. */
  flag(projectId: number, id: number): Promise<FlagRecord>;

  /** As `flag`, but `undefined` where there is none. */
  find(projectId: number, id: number): Promise<FlagRecord | undefined>;

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
  activityLog,
  accounts,
  dependants,
  changeDefinitions,
  seal,
  clock,
}: {
  flagStore: FlagStore;
  activityLog: Pick<ActivityLog, "since">;
  accounts: Pick<AccountStore, "user">;
  /** What may need a flag that is to be deleted. */
  dependants: readonly FlagDependants[];
  changeDefinitions: ChangeDefinitions;
  seal: PayloadSeal;
  clock: () => Date;
}): Flags {
  const merge = async (
    flag: ShownFlag,
    change: FlagChange,
    base: EditBase | undefined,
  ): Promise<FlagChange> => {
    if (base === undefined || base.version === flag.version) return change;
    if (base.version > flag.version) {
      throw new Refusal("invalid_input", `The feature flag is at version ${flag.version}.`, {
        attr: "version",
      });
    }
    const item = { scope: "FeatureFlag", itemId: String(flag.id) } as const;
    const since = await activityLog.since(flag.projectId, item, base.version);
    const merged = mergeFlagChange(change, { current: flag, base, since });
    if (merged.kind === "merged") return merged.change;
    throw await conflictOf(accounts, merged);
  };

  return {
    async create(projectId, draft, authorId) {
      refuseUnfitKey(draft.key);
      return await changeDefinitions(projectId, async ({ definitions }) => {
        refuseTakenKey(definitions, draft.key, null);
        const now = clock();
        const {
          creationContext = "feature_flags",
          hasEncryptedPayloads = false,
          ...fields
        } = draft;
        refuseIdleEncryption({ isRemoteConfiguration: false, ...draft, hasEncryptedPayloads });
        const outcome = await flagStore.create(
          projectId,
          {
            ...NEW_FLAG,
            createdAt: now,
            ...fields,
            ...sealPayloads(
              checkFilters(draft.filters ?? {}, { definitions, id: null, key: draft.key }),
              { projectId, isEncrypted: hasEncryptedPayloads, earlier: null, seal },
            ),
            creationContext,
          },
          { authorId, now, ifRevision: definitions.revision, describe: describeFlag },
        );
        if (outcome === "duplicate-key") throw TAKEN();
        return outcome;
      });
    },

    async update(projectId, id, wanted, { authorId, keepsFiltersWithoutGroups, base }) {
      if (wanted.key !== undefined) refuseUnfitKey(wanted.key);
      return await changeDefinitions(projectId, async ({ definitions }) => {
        const stored = await flagStore.flag(projectId, id);
        if (!stored) throw NOT_FOUND();
        const flag = shownFlag(stored);
        const change = await merge(flag, wanted, base);
        const { filters: sent, hasEncryptedPayloads, ...fields } = change;
        const isEncrypted = hasEncryptedPayloads ?? flag.hasEncryptedPayloads;
        refuseIdleEncryption({ ...flag, ...fields, hasEncryptedPayloads: isEncrypted });
        const key = change.key ?? flag.key;
        const isLive = !(change.deleted ?? flag.deleted);
        if (isLive) refuseTakenKey(definitions, key, id);
        if (!isLive && !flag.deleted) await refuseNeededFlag(dependants, flag, definitions);
        const keepsFilters =
          sent === undefined || (keepsFiltersWithoutGroups && !Object.hasOwn(sent, "groups"));
        if (keepsFilters && sent !== undefined) checkSpelling(sent);
        // A restored flag may name flags and cohorts that are gone by now.
        const filters =
          keepsFilters && !(isLive && flag.deleted)
            ? flag.filters
            : checkFilters(keepsFilters ? flag.filters : sent, { definitions, id, key });
        refuseGroupsOfEarlyAccess(flag.filters, filters);
        const outcome = await flagStore.update(
          projectId,
          id,
          {
            ...fields,
            ...(change.active ? { performedRollback: false } : {}),
            ...sealPayloads(key === flag.key ? filters : withEnrolmentRenamed(filters, key), {
              projectId,
              isEncrypted,
              earlier: stored.sealedPayloads,
              seal,
            }),
          },
          { authorId, now: clock(), ifRevision: definitions.revision, describe: describeFlag },
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

    find: (projectId, id) => flagStore.flag(projectId, id),

    list: (projectId, query) => flagStore.list(projectId, query),
  };
}

const describeFlag = (before: FlagRecord | null, after: FlagRecord) =>
  describeShown(before && shownFlag(before), shownFlag(after));

const describeShown = describeChanges<ShownFlag>({
  scope: "FeatureFlag",
  nameOf: ({ key }) => key,
  fields: [
    "key",
    "name",
    "active",
    "deleted",
    "filters",
    "ensureExperienceContinuity",
    "bucketingIdentifier",
    "evaluationRuntime",
    "evaluationContexts",
    "tags",
    "isRemoteConfiguration",
    "hasEncryptedPayloads",
    "rollbackConditions",
    "performedRollback",
    "hasEnrichedAnalytics",
    "createdAt",
    "lastCalledAt",
  ],
});

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
  sealedPayloads: null,
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

/** Only who may read a remote configuration gets its payload decrypted; flag requests are public. */
function refuseIdleEncryption({
  hasEncryptedPayloads,
  isRemoteConfiguration,
}: Pick<ShownFlag, "hasEncryptedPayloads" | "isRemoteConfiguration">): void {
  if (!hasEncryptedPayloads || isRemoteConfiguration) return;
  throw new Refusal(
    "invalid_input",
    "Only payloads of remote configuration flags can be encrypted.",
    { attr: "has_encrypted_payloads" },
  );
}

/** Persons enrol in early access, groups cannot. */
function refuseGroupsOfEarlyAccess(before: JsonObject, after: JsonObject): void {
  const isOfGroups = (filters: JsonObject) =>
    typeof ownValue(filters, "aggregation_group_type_index") === "number";
  if (!enrolsPersons(after) || isOfGroups(before) || !isOfGroups(after)) return;
  throw new Refusal(
    "invalid_input",
    "Cannot change this flag to a group-based when linked to an Early Access Feature.",
  );
}

function refuseTakenKey(definitions: VersionedDefinitions, key: string, ownId: number | null) {
  if (definitions.flags.some((flag) => flag.key === key && flag.id !== ownId)) throw TAKEN();
}

/** The refusal of an edit that others stand against, as PostHog words it, with the fields (4.4). */
async function conflictOf(
  accounts: Pick<AccountStore, "user">,
  { fields, authorIds }: Extract<MergedEdit, { kind: "conflict" }>,
): Promise<Refusal> {
  const users = await usersById(accounts, authorIds);
  const names = authorIds.map((id) => users.get(id ?? -1)?.email ?? "another user");
  return new Refusal(
    "conflict",
    `The feature flag was updated by ${names.join(" and ")} since you started editing it. Please refresh and try again. Fields changed by both: ${fields.map(wireFieldName).join(", ")}.`,
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

import type {
  CohortDefinition,
  FlagDefinition,
  ProjectDefinitions,
} from "@hedgerow/core/flags/flag";
import type { Json } from "@hedgerow/core/json";
import type { DescribedWrite } from "../activity/activity-log.ts";

/** A flag that is not deleted, with what feeds of definitions need beyond evaluation. */
export interface LiveFlag extends FlagDefinition {
  /** A flag that only carries a payload for remote configuration. */
  readonly isRemoteConfiguration: boolean;
  /**
   * Payloads that are kept encrypted, by value of the flag; `null` where payloads are not encrypted
   * and stand in `filters`.
   */
  readonly sealedPayloads: Readonly<Record<string, string>> | null;
}

/** Everything stored of a flag. */
export interface FlagRecord extends LiveFlag {
  readonly projectId: number;
  readonly deleted: boolean;
  readonly tags: readonly string[];
  readonly creationContext: string;
  readonly rollbackConditions: Json;
  readonly performedRollback: boolean;
  readonly hasEnrichedAnalytics: boolean;
  readonly createdAt: Date;
  readonly updatedAt: Date;
  /** User ids; `null` once the user is gone. */
  readonly createdById: number | null;
  readonly lastModifiedById: number | null;
  readonly lastCalledAt: Date | null;
}

/** The fields a caller decides; the store gives the rest. */
export type FlagFields = Pick<
  FlagRecord,
  | "key"
  | "name"
  | "active"
  | "deleted"
  | "filters"
  | "ensureExperienceContinuity"
  | "bucketingIdentifier"
  | "evaluationRuntime"
  | "evaluationContexts"
  | "tags"
  | "isRemoteConfiguration"
  | "sealedPayloads"
  | "rollbackConditions"
  | "performedRollback"
  | "hasEnrichedAnalytics"
  | "createdAt"
  | "lastCalledAt"
>;

/** Who writes, when, and which revision of the project's definitions the change was decided on. */
export interface DefinitionWrite {
  readonly authorId: number | null;
  readonly now: Date;
  /** The change is refused as `stale` when the project has moved on since. */
  readonly ifRevision: number;
}

/** What a list of flags can be ordered by. */
export type FlagOrder =
  | "id"
  | "key"
  | "name"
  | "active"
  | "version"
  | "createdAt"
  | "updatedAt"
  | "createdBy"
  | "lastCalledAt";

export interface FlagListQuery {
  readonly active: boolean | null;
  /** Active flags that were not called since, or, where no call is known of, are rolled out so long. */
  readonly notCalledSince: Date | null;
  readonly hasPayload: boolean | null;
  /** Part of the key or name, whatever its case. */
  readonly search: string | null;
  readonly type: "boolean" | "multivariant" | "experiment" | "remote_config" | null;
  readonly createdById: number | null;
  readonly evaluationRuntime: FlagDefinition["evaluationRuntime"] | null;
  /** Flags with at least one of these tags; none for all flags. */
  readonly tags: readonly string[];
  readonly excludedKeys: readonly string[];
  readonly order: { readonly by: FlagOrder; readonly descending: boolean };
  readonly limit: number;
  readonly offset: number;
}

/**
 * A project's definitions as of a revision. Records that did not change between two reads are the
 * same objects when the earlier read is handed in, so that work on them can be kept.
 */
export interface VersionedDefinitions extends ProjectDefinitions {
  readonly flags: readonly LiveFlag[];
  readonly cohorts: readonly CohortDefinition[];
  /** Grows with every change of what flags depend on; 0 before the first. */
  readonly revision: number;
}

/**
 * Flags of all projects. Every write is durable when its promise resolves, is all or nothing, and
 * moves the project's revision on in the same step.
 */
export interface FlagStore {
  /** A new flag of version 1. `duplicate-key` when a live flag of the project has the key. */
  create(
    projectId: number,
    fields: FlagFields & Pick<FlagRecord, "creationContext">,
    write: DefinitionWrite & DescribedWrite<FlagRecord>,
  ): Promise<FlagRecord | "duplicate-key" | "stale">;

  /** Changes the given fields, of deleted flags too, and raises the version by one. */
  update(
    projectId: number,
    id: number,
    change: Partial<FlagFields>,
    write: DefinitionWrite & DescribedWrite<FlagRecord>,
  ): Promise<FlagRecord | "not-found" | "duplicate-key" | "stale">;

  /** Deleted flags are found too. */
  flag(projectId: number, id: number): Promise<FlagRecord | undefined>;

  /** Several at once, by id; deleted ones are found too, unknown ids left out. */
  flagsById(projectId: number, ids: readonly number[]): Promise<ReadonlyMap<number, FlagRecord>>;

  /** Live flags, without those that surveys keep for themselves; equals are ordered newest first. */
  list(
    projectId: number,
    query: FlagListQuery,
  ): Promise<{ count: number; flags: readonly FlagRecord[] }>;

  /**
   * Live flags and cohorts by ascending id, group types and time zone in one consistent look.
   * With an earlier answer at hand only what changed since is read.
   */
  definitions(projectId: number, earlier?: VersionedDefinitions): Promise<VersionedDefinitions>;

  /**
   * Moves `lastCalledAt` of live flags, by key, forward; unknown keys are left out. No change of a
   * flag: version, revision and activity stay.
   */
  recordCalls(projectId: number, calls: ReadonlyMap<string, Date>): Promise<void>;

  /** The revisions of several projects in one cheap read; projects without changes are left out. */
  revisions(projectIds: readonly number[]): Promise<ReadonlyMap<number, number>>;
}

import type { Json, JsonObject } from "@hedgerow/core/json";

/** Kinds of items whose changes are kept, as the wire calls them. */
export const ACTIVITY_SCOPES = [
  "FeatureFlag",
  "Cohort",
  "Experiment",
  "ExperimentHoldout",
  "ExperimentSavedMetric",
  "EventDefinition",
  "PropertyDefinition",
  "Person",
  "Group",
  "Plugin",
  "PluginConfig",
] as const;

/** What can be done to an item, as the wire calls it; the later ones to persons, groups and transformations. */
export const ACTIVITIES = [
  "created",
  "updated",
  "deleted",
  "restored",
  "split_person",
  "delete_property",
  "create_group",
  "update_property",
  "installed",
  "uninstalled",
  "enabled",
  "disabled",
  "config_updated",
  "order_changed",
  "attachment_created",
  "attachment_updated",
  "attachment_deleted",
  "job_triggered",
] as const;

export type ActivityScope = (typeof ACTIVITY_SCOPES)[number];

/** What became of one field of an item; `before` is `null` for a value that is new. */
export interface FieldChange {
  /** The field's name in the item's record. */
  readonly field: string;
  readonly before: Json;
  readonly after: Json;
}

/** A job of a transformation that somebody had run. */
export interface TriggeredJob {
  readonly name: string;
  readonly payload: JsonObject;
}

/** What somebody did to an item, as told by whoever carries it out. */
export interface ActivityDraft {
  readonly scope: ActivityScope;
  readonly itemId: string;
  /** The version that the item has since, where items of its kind have versions. */
  readonly itemVersion: number | null;
  readonly activity: (typeof ACTIVITIES)[number];
  /** What the item is called. */
  readonly name: string;
  readonly changes: readonly FieldChange[];
  /** Of `job_triggered`. */
  readonly job?: TriggeredJob;
}

/** A kept activity. */
export interface Activity extends ActivityDraft {
  readonly id: number;
  /** `null` for what belongs to an organization and none of its projects. */
  readonly projectId: number | null;
  /** User id; `null` once the user is gone, and for what nobody did by hand. */
  readonly authorId: number | null;
  readonly at: Date;
}

/**
 * Part of a write to a store: tells the activity of a change from the record before (`null` for a
 * new one) and after it. Called by the store inside the transaction of the change, which keeps the
 * activity too; `null` keeps none.
 */
export interface DescribedWrite<Saved> {
  readonly describe?: (before: Saved | null, after: Saved) => ActivityDraft | null;
}

export interface ActivityQuery {
  readonly scope: ActivityScope | null;
  readonly itemId: string | null;
  readonly authorId: number | null;
  readonly limit: number;
  readonly offset: number;
}

/**
 * Who changed what, when. Written by the stores of the items, in the transactions of the changes,
 * so that there is no change without its activity and none of a change that failed.
 */
export interface ActivityLog {
  /** Newest first, without updates that changed nothing. */
  list(
    projectId: number,
    query: ActivityQuery,
  ): Promise<{ count: number; activities: readonly Activity[] }>;

  /** Newest first: of an organization and of its projects, without updates that changed nothing. */
  ofOrganization(
    organizationId: string,
    query: {
      readonly scopes: readonly ActivityScope[];
      readonly limit: number;
      readonly offset: number;
    },
  ): Promise<{ count: number; activities: readonly Activity[] }>;

  /**
   * Activities that gave an item a version above the given one, oldest first: also of those that changed
   * nothing. None at all where there are too many, or what they changed is too long, to look through.
   */
  since(
    projectId: number,
    item: Pick<ActivityDraft, "scope" | "itemId">,
    version: number,
  ): Promise<readonly Activity[]>;
}

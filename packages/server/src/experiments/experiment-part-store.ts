import type { JsonObject } from "@hedgerow/core/json";
import type { DescribedWrite } from "../activity/activity-log.ts";

/** What experiments share: people kept out of them, and metrics. */
export type PartKind = "holdout" | "saved-metric";

/** Everything stored of a part that experiments share. */
export interface PartRecord {
  readonly id: number;
  readonly projectId: number;
  readonly name: string;
  readonly description: string | null;
  /** A holdout's conditions under `filters`, a metric under `query`. */
  readonly content: JsonObject;
  readonly tags: readonly string[];
  readonly deleted: boolean;
  readonly createdAt: Date;
  readonly updatedAt: Date;
  /** User id; `null` once the user is gone. */
  readonly createdById: number | null;
}

/** The fields that callers decide; the store gives the rest. */
export type PartFields = Pick<PartRecord, "name" | "description" | "content" | "tags" | "deleted">;

/** Who writes, and when. */
export interface PartWrite extends DescribedWrite<PartRecord> {
  readonly authorId: number | null;
  readonly now: Date;
}

/**
 * Parts of one kind that experiments of a project share. Every write is durable when its promise
 * resolves and is all or nothing, its activity included; ids are never given again.
 */
export interface ExperimentPartStore {
  /** `fieldsOf` is told the id that the part gets, which its content may name. */
  create(
    projectId: number,
    fieldsOf: (id: number) => PartFields,
    write: PartWrite,
  ): Promise<PartRecord>;

  /**
   * Changes what `decide` answers, told the part as it is now: a deleted one is not found. What
   * `decide` throws leaves everything as it was.
   */
  update(
    projectId: number,
    id: number,
    decide: (current: PartRecord) => Partial<PartFields>,
    write: PartWrite,
  ): Promise<PartRecord | undefined>;

  /** Those of the ids that are there and not deleted, by id. */
  parts(projectId: number, ids: readonly number[]): Promise<ReadonlyMap<number, PartRecord>>;

  /** Those that are not deleted, newest first. */
  list(
    projectId: number,
    page: { readonly limit: number; readonly offset: number },
  ): Promise<{ count: number; parts: readonly PartRecord[] }>;
}

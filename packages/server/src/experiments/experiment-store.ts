import type { Json, JsonObject } from "@hedgerow/core/json";
import type { DescribedWrite } from "../activity/activity-log.ts";

/** Why an experiment ended, as its owners say. */
export const CONCLUSIONS = ["won", "lost", "inconclusive", "stopped_early", "invalid"] as const;

/** Everything stored of an experiment. */
export interface ExperimentRecord {
  readonly id: number;
  readonly projectId: number;
  readonly name: string;
  readonly description: string | null;
  /** `null` for a draft. */
  readonly startDate: Date | null;
  /** `null` until it ends. */
  readonly endDate: Date | null;
  readonly flagId: number;
  readonly exposureCohortId: number | null;
  readonly type: "web" | "product";
  /** As sent, but for the variants, which are the flag's. */
  readonly parameters: JsonObject | null;
  /** The older form of the primary metric: an insight. */
  readonly filters: JsonObject | null;
  /** The older form of further metrics. */
  readonly secondaryMetrics: readonly Json[] | null;
  readonly metrics: readonly JsonObject[];
  readonly metricsSecondary: readonly JsonObject[];
  readonly exposureCriteria: JsonObject | null;
  readonly statsConfig: JsonObject | null;
  readonly primaryOrder: readonly string[] | null;
  readonly secondaryOrder: readonly string[] | null;
  /** The holdout whose people are kept out of it. */
  readonly holdoutId: number | null;
  /** Shared metrics that it measures besides its own. */
  readonly savedMetrics: readonly SavedMetricLink[];
  readonly conclusion: (typeof CONCLUSIONS)[number] | null;
  readonly conclusionComment: string | null;
  readonly archived: boolean;
  readonly deleted: boolean;
  readonly createdAt: Date;
  readonly updatedAt: Date;
  /** User id; `null` once the user is gone. */
  readonly createdById: number | null;
}

/** That an experiment measures a shared metric. */
export interface SavedMetricLink {
  readonly savedMetricId: number;
  /** What the experiment says of it: `type` is `primary` or `secondary`. */
  readonly metadata: JsonObject | null;
  /** ISO 8601. */
  readonly addedAt: string;
}

/** The fields that callers decide, at once or later; the store gives the rest. */
export type ExperimentFields = Omit<
  ExperimentRecord,
  "id" | "projectId" | "createdAt" | "updatedAt" | "createdById"
>;

/** What a list of experiments can be ordered by. */
export type ExperimentOrder =
  | "createdAt"
  | "updatedAt"
  | "name"
  | "startDate"
  | "endDate"
  | "duration"
  | "status";

/** States; a launched experiment runs while its flag is on, and is paused while that is off or gone. */
export type ExperimentStage = "draft" | "launched" | "running" | "paused" | "ended";

export interface ExperimentListQuery {
  readonly stage: ExperimentStage | null;
  readonly archived: boolean | null;
  /** Part of the name, whatever its case. */
  readonly search: string | null;
  readonly createdById: number | null;
  readonly flagId: number | null;
  /** Of any holdout, or of none, unless given. */
  readonly holdoutId?: number;
  readonly order: { readonly by: ExperimentOrder; readonly descending: boolean };
  readonly limit: number;
  readonly offset: number;
}

/** Who writes, and when. */
export interface ExperimentWrite extends DescribedWrite<ExperimentRecord> {
  readonly authorId: number | null;
  readonly now: Date;
}

/**
 * Experiments of all projects. Every write is durable when its promise resolves and is all or nothing,
 * its activity included.
 */
export interface ExperimentStore {
  create(
    projectId: number,
    fields: ExperimentFields,
    write: ExperimentWrite,
  ): Promise<ExperimentRecord>;

  /**
   * Changes what `decide` answers, told the experiment as it is now: a deleted one is not found.
   * What `decide` throws leaves everything as it was.
   */
  update(
    projectId: number,
    id: number,
    decide: (current: ExperimentRecord) => Partial<ExperimentFields>,
    write: ExperimentWrite,
  ): Promise<ExperimentRecord | undefined>;

  /** Deleted ones are not found. */
  experiment(projectId: number, id: number): Promise<ExperimentRecord | undefined>;

  /** Those that are not deleted; equals are ordered newest first. */
  list(
    projectId: number,
    query: ExperimentListQuery,
  ): Promise<{ count: number; experiments: readonly ExperimentRecord[] }>;

  /** Ids of the experiments of flags that are not deleted, ascending, by flag. */
  idsOfFlags(
    projectId: number,
    flagIds: readonly number[],
  ): Promise<ReadonlyMap<number, readonly number[]>>;
}

import type {
  Attachment,
  Transformation,
  TransformationConfig,
  TransformationVersion,
} from "@hedgerow/core/transformations/transformation";
import type { ActivityDraft } from "../activity/activity-log.ts";
import type { Program } from "./sandbox.ts";

/** What is decided of a config; the store gives the rest. */
export type TransformationConfigFields = Omit<
  TransformationConfig,
  "id" | "projectId" | "createdAt" | "updatedAt"
>;

/** The highest place in the order: a config that is made without one has no higher. */
export const MAX_ORDER = 2_147_483_647;

/** A config that is about to be; `last` in the order runs after all others of its project. */
export interface NewConfigFields extends Omit<TransformationConfigFields, "order"> {
  readonly order: number | "last";
}

/** An attachment without its contents. */
export interface AttachmentSummary extends Omit<Attachment, "contents"> {
  readonly id: number;
  readonly configId: number;
  readonly sizeBytes: number;
}

/** What becomes of attachments beside a change of fields. */
export interface AttachmentChange {
  /** New ones, and ones that take the place of those with their keys. */
  readonly put: readonly Attachment[];
  readonly removeKeys: readonly string[];
}

/** A config and what belongs to it, as a caller sees it. */
export interface ConfigView {
  readonly config: TransformationConfig;
  readonly transformation: Transformation;
  readonly attachments: readonly AttachmentSummary[];
}

/** Who changes a config, when, and how the activity tells it. */
export interface ConfigWrite {
  readonly authorId: number | null;
  readonly now: Date;
  /** Told the config before (`null` for a new one) and after the change. */
  readonly describe: (before: ConfigView | null, after: ConfigView) => readonly ActivityDraft[];
}

/** A version with what it was compiled to. */
export interface CompiledVersion extends TransformationVersion {
  readonly program: Program | null;
}

/** All that it takes to run a config. */
export interface RunnableConfig {
  readonly config: TransformationConfig;
  readonly transformation: Transformation;
  /** The current version of the transformation's source. */
  readonly version: CompiledVersion;
  readonly attachments: readonly Attachment[];
}

/**
 * Configs of transformations in projects. Every write is durable when its promise resolves, is all
 * or nothing, its activity included, and raises the revision of its project.
 */
export interface TransformationConfigStore {
  /** `undefined` when there is no such transformation (any more). */
  create(
    projectId: number,
    fields: NewConfigFields,
    attachments: AttachmentChange,
    write: ConfigWrite,
  ): Promise<ConfigView | undefined>;

  /**
   * Changes what `decide` answers, told the config as it is now: a deleted one is not found. What
   * `decide` throws leaves everything as it was. `undefined` for an unknown id.
   */
  update(
    projectId: number,
    id: number,
    decide: (current: ConfigView) => Partial<TransformationConfigFields>,
    attachments: AttachmentChange,
    write: ConfigWrite,
  ): Promise<ConfigView | undefined>;

  /** Gives configs their place in the order; ids that the project has no config of change nothing. */
  rearrange(
    projectId: number,
    orders: ReadonlyMap<number, number>,
    write: ConfigWrite,
  ): Promise<void>;

  /** Deleted ones are not found. */
  config(projectId: number, id: number): Promise<ConfigView | undefined>;

  /** Those that are not deleted, by order, then by transformation and id: as they run. */
  list(
    projectId: number,
    query: {
      readonly transformationId: number | null;
      readonly limit: number;
      readonly offset: number;
    },
  ): Promise<{ count: number; configs: readonly ConfigView[] }>;

  /** Those of a transformation in every project, but for deleted ones, by id. */
  configsOf(transformationId: number): Promise<readonly ConfigView[]>;

  attachment(projectId: number, configId: number, key: string): Promise<Attachment | undefined>;

  /**
   * Number of the last change of what runs in each project: of its configs, or of a transformation
   * that they are of. Projects without any are left out.
   */
  revisions(projectIds: readonly number[]): Promise<ReadonlyMap<number, number>>;

  /** Enabled configs in the order in which they run, but for those whose transformation has no source. */
  configsToRun(projectId: number): Promise<readonly RunnableConfig[]>;

  /** Projects with an enabled config, ascending. */
  projectsToRun(): Promise<readonly number[]>;
}

import type {
  Transformation,
  TransformationFiles,
  TransformationVersion,
} from "@hedgerow/core/transformations/transformation";
import type { ActivityDraft } from "../activity/activity-log.ts";
import type { Program } from "./sandbox.ts";
import type { CompiledVersion, ConfigView } from "./transformation-config-store.ts";

/** What is decided of a transformation besides its source; the store gives the rest. */
export type TransformationFields = Omit<
  Transformation,
  "id" | "organizationId" | "version" | "createdAt" | "updatedAt"
>;

/** A transformation that is about to be. */
export interface NewTransformation extends TransformationFields {
  /** No two have the same; `null` for what was not installed from anywhere. */
  readonly identity: string | null;
}

/** A state of a source that is about to become the newest version. */
export interface SourceDraft {
  readonly files: TransformationFiles;
  /** What it was compiled to; `null` where nothing in it can run. */
  readonly program: Program | null;
  readonly tag: string | null;
  readonly restoredFrom: number | null;
}

/** A version in lists: without its files, of which it tells the names. */
export interface VersionSummary extends Omit<TransformationVersion, "files"> {
  readonly fileNames: readonly string[];
}

/** Who changes a transformation, when, and how the activity tells it (`after` is `null` for a removal). */
export interface TransformationWrite {
  readonly authorId: number | null;
  readonly now: Date;
  readonly describe: (
    before: Transformation | null,
    after: Transformation | null,
  ) => ActivityDraft | null;
}

/**
 * Transformations of all organizations and the versions of their sources. Every write is durable
 * when its promise resolves and is all or nothing, its activity included; one that changes what runs
 * raises the revision of every project that has a config of the transformation.
 */
export interface TransformationStore {
  /** Outcome `duplicate` when there is one of the same identity, whoever's. */
  create(
    organizationId: string,
    fields: NewTransformation,
    source: SourceDraft | null,
    write: TransformationWrite,
  ): Promise<Transformation | "duplicate">;

  /**
   * Changes fields, told the transformation as it is; what `decide` throws leaves everything as it
   * was. With `source`, the files become the next version, if `source.ifVersion` is still the
   * current one: outcome `stale` where it is not. `undefined` for an unknown id.
   */
  update(
    id: number,
    decide: (current: Transformation) => Partial<TransformationFields>,
    source: (SourceDraft & { readonly ifVersion: number }) | null,
    write: TransformationWrite,
  ): Promise<Transformation | "stale" | undefined>;

  /**
   * Takes a transformation away, with its versions and configs; `false` for an unknown id. What
   * `check` throws, told the transformation as it is, leaves everything as it was.
   * @param ofConfig what the activity of their projects tells of its configs, and by whom
   */
  remove(
    id: number,
    check: (current: Transformation) => void,
    write: TransformationWrite,
    ofConfig: (
      config: ConfigView,
      organizationId: string,
    ) => { readonly drafts: readonly ActivityDraft[]; readonly authorId: number | null },
  ): Promise<boolean>;

  /**
   * One that an organization sees: its own, a global one, or one with a config in its projects.
   */
  transformation(organizationId: string, id: number): Promise<Transformation | undefined>;

  /** Those that an organization sees, by id. */
  list(
    organizationId: string,
    page: { readonly limit: number; readonly offset: number },
  ): Promise<{ count: number; transformations: readonly Transformation[] }>;

  /** Global ones that no project has an enabled config of, by id. */
  unused(): Promise<readonly Transformation[]>;

  /** Newest first. */
  versions(
    id: number,
    page: { readonly limit: number; readonly offset: number },
  ): Promise<{ count: number; versions: readonly VersionSummary[] }>;

  version(id: number, version: number): Promise<CompiledVersion | undefined>;

  /**
   * Forgets versions that another took the place of before a time, but for the newest ones of each
   * transformation, the current one among them; tells how many.
   */
  pruneVersions(replacedBefore: Date, keepNewest: number): Promise<number>;
}

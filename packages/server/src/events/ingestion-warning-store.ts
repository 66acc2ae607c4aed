/** What sent an event: `""` where it does not say. */
export interface Sdk {
  readonly name: string;
  readonly version: string;
}

/** One event or request that a warning is about, so that it can be looked at. */
export interface WarningSample {
  readonly at: Date;
  readonly uuid?: string;
  readonly event?: string;
  readonly distinctId?: string;
  readonly detail?: string;
}

/** Warnings of one kind from one version of an SDK. */
export interface WarningTally {
  readonly type: string;
  readonly sdk: Sdk;
  readonly count: number;
  readonly firstAt: Date;
  readonly lastAt: Date;
  /** A few of the first. */
  readonly samples: readonly WarningSample[];
}

export interface WarningQuery {
  readonly type?: string;
  /** Only days that end after this time. */
  readonly after?: Date;
  /** Only days that begin before this time. */
  readonly before?: Date;
  readonly limit: number;
  readonly offset: number;
}

/** Keeps warnings by project, day (UTC), kind, SDK and version. */
export interface IngestionWarningStore {
  /**
   * Adds tallies of one day each to what is there. A project and day has a bounded number of rows:
   * what would be more is counted under the SDK `other`. Of projects that are gone nothing is kept.
   */
  add(projectId: number, tallies: readonly WarningTally[]): Promise<void>;
  /** Sums over days, the latest first. */
  list(
    projectId: number,
    query: WarningQuery,
  ): Promise<{ count: number; warnings: readonly WarningTally[] }>;
  /** Forgets days that ended before a time. */
  prune(before: Date): Promise<void>;
}

/** Samples kept for each day, kind, SDK and version. */
export const MAX_SAMPLES = 2;
/** Most rows of one project and day. */
export const MAX_WARNINGS_PER_DAY = 500;
/** Stands for all SDKs beyond {@link MAX_WARNINGS_PER_DAY}. */
export const OTHER_SDK: Sdk = { name: "other", version: "" };

/** How often flag requests were answered with one value of a flag on one day. */
export interface DecisionCount {
  readonly flagKey: string;
  /** UTC, `2026-03-01`. */
  readonly day: string;
  /** The value as text. */
  readonly value: string;
  /** Estimated from the requests that were counted; a fraction where their share is one. */
  readonly times: number;
}

/** Counters of what flag requests were answered, kept while counting is switched on. */
export interface DecisionCounts {
  /** Adds to what is there; all or nothing. */
  add(projectId: number, counts: readonly DecisionCount[]): Promise<void>;

  /** By day, then by value. */
  ofFlag(
    projectId: number,
    flagKey: string,
    days: { readonly from: string; readonly to: string },
  ): Promise<readonly DecisionCount[]>;
}

/** The event that clients send of a call of a flag. */
export const FLAG_CALLED = "$feature_flag_called";

/** Calls of a flag: stored `$feature_flag_called` events, each of which is stored once. */
export interface CallQuery {
  readonly projectId: number;
  /** Inclusive. */
  readonly from: Date;
  /** Exclusive. */
  readonly to: Date;
}

/** How often a flag was called with one answer on one day. */
export interface CallCount {
  /** UTC, `2026-03-01`. */
  readonly day: string;
  /** The answer as text (`true`, `false`, a variant); `null` where the event tells none. */
  readonly value: string | null;
  readonly calls: number;
  /** Persons who called, those merged since counted as one. */
  readonly persons: number;
}

/** How many of the persons who called a flag got different answers. */
export interface FlagDrift {
  readonly flagKey: string;
  readonly persons: number;
  readonly drifting: number;
  /** Those among the drifting who got different answers within one session. */
  readonly driftingInSession: number;
}

/** Calls in a row with the same answer, under the same id and in the same session. */
export interface JourneyStep {
  readonly value: string | null;
  readonly distinctId: string;
  readonly sessionId: string | null;
  readonly first: Date;
  readonly last: Date;
  readonly calls: number;
}

/** What answers one person got, in order. */
export interface Journey {
  /** UUID. */
  readonly personId: string;
  readonly steps: readonly JourneyStep[];
}

/** Calls of flags as the event store knows them; nothing is counted aside, so nothing is ever lost. */
export interface FlagCalls {
  /** By day, then by value; days and values without calls are left out. */
  callsByDay(query: CallQuery & { readonly flagKey: string }): Promise<readonly CallCount[]>;

  /** Of one flag or of all that were called, those with most drifting persons first. */
  drift(
    query: CallQuery & { readonly flagKey?: string; readonly limit: number },
  ): Promise<readonly FlagDrift[]>;

  /** Persons who got different answers, those who called last first; of each the first steps. */
  journeys(
    query: CallQuery & { readonly flagKey: string; readonly limit: number },
  ): Promise<readonly Journey[]>;

  /** The newest call of each flag, among calls that were stored since an instant. */
  lastCalls(
    storedSince: Date,
  ): Promise<
    readonly { readonly projectId: number; readonly flagKey: string; readonly at: Date }[]
  >;
}

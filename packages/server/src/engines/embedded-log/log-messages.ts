/** Encoded events, joined by line breaks: what one row of the file holds. */
export interface Segment {
  readonly count: number;
  readonly lines: string;
}

/** The same, of a lane. */
export interface LaneSegment extends Segment {
  readonly projectId: number;
  /** Length of the lines. */
  readonly chars: number;
}

/** What is stored in one commit. */
export interface Group {
  readonly segments: readonly Segment[];
  readonly laneSegments: readonly LaneSegment[];
  readonly passes: readonly LanePass[];
  readonly effects: readonly EffectsOfPass[];
}

/** A lane passes up to a place. */
export interface LanePass {
  readonly projectId: number;
  readonly upTo: number;
  /** The place before the first to which a line of the group refers, where any does. */
  readonly refersAfter?: number | undefined;
}

/** What events that pass leave for other stores. */
export interface EffectsOfPass {
  /** Events of the group up to the last one that passes with them. */
  readonly count: number;
  /** Joined by line breaks. */
  readonly lines: string;
}

/** Places in a lane: the last one that has passed, and the newest. */
export interface LaneState {
  readonly projectId: number;
  readonly passed: number;
  readonly end: number;
  /** Length of what waits, or somewhat more. */
  readonly chars: number;
}

export interface LogFileOptions {
  readonly path: string;
  /** New positions are greater than this one, whatever the file holds. */
  readonly after: number;
  /** The file takes no more events beyond this size; what is released makes room again. */
  readonly maxBytes: number;
  readonly retention: LogRetention;
}

/** What is released stays until the log is larger than this, or it is older. */
export interface LogRetention {
  readonly maxBytes: number;
  readonly maxAgeMs: number;
  /** And only while so much of its disk is free for others; 512 MiB unless given. */
  readonly reserveBytes?: number;
}

export type ToLogThread =
  | ({ readonly kind: "append" } & Group)
  | { readonly kind: "release"; readonly upTo: number }
  | { readonly kind: "forget-effects"; readonly upTo: number }
  | { readonly kind: "close" };

export type FromLogThread =
  | { readonly kind: "opened"; readonly end: number; readonly lanes: readonly LaneState[] }
  /** `end`: position of the last event of the append. `isShort`: of the disk little is left. */
  | { readonly kind: "appended"; readonly end: number; readonly isShort: boolean }
  | { readonly kind: "refused"; readonly reason: string }
  | { readonly kind: "closed" };

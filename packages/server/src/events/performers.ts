import type { PropertyCondition } from "./event-store.ts";

/** Doings of one event. */
export interface PerformersQuery {
  readonly projectId: number;
  readonly event: string;
  /** Exclusive; `null` for no bound. */
  readonly after: Date | null;
  /** Exclusive; `null` for no bound. */
  readonly before: Date | null;
  readonly properties: PropertyCondition | null;
}

/** A person who did it. */
export interface Performer {
  /** UUID of the person as known now: merges are followed. */
  readonly personId: string;
  readonly times: number;
}

/** Tells who did something, and how often. */
export interface PerformerSource {
  /**
   * Goes through all events in runs of bounded size, with room for other queries between them. A
   * person may come in several runs: the numbers add up. Rejects with `QueryTooLong` when one run
   * takes too long.
   */
  performers(query: PerformersQuery): AsyncIterable<readonly Performer[]>;
}

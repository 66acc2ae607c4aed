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

/** One doing of an event. */
export interface Moment {
  /** As in {@link Performer}. */
  readonly personId: string;
  readonly atMs: number;
}

/** Tells who did something, how often, and when. */
export interface PerformerSource {
  /**
   * Goes through all events in runs of bounded size, with room for other queries between them. A
   * person may come in several runs: the numbers add up. Rejects with `QueryTooLong` when one run
   * takes too long.
   */
  performers(query: PerformersQuery): AsyncIterable<readonly Performer[]>;

  /**
   * Goes through the events one by one, from the earliest on, in runs of bounded size with room for
   * other queries between them. Rejects as `performers` does.
   */
  moments(query: PerformersQuery): AsyncIterable<readonly Moment[]>;
}

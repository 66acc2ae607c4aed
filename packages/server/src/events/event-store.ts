import type { CapturedEvent } from "@hedgerow/core/events/event";
import type { JsonObject } from "@hedgerow/core/json";

/** An event ready to store: its log position, its person and the groups it belongs to. */
export interface EventRow {
  readonly position: number;
  readonly event: CapturedEvent;
  /** UUID of the person at that time. */
  readonly personId: string;
  /** Group keys by index of the group type; shorter than five, or with `null`, where there is none. */
  readonly groupKeys: readonly (string | null)[];
}

/** From now on events of person `from` count as events of `into`. */
export interface PersonMerge {
  /** Of the event that merged them. */
  readonly position: number;
  readonly projectId: number;
  readonly from: string;
  readonly into: string;
}

/** An event that cannot be stored, kept for an operator to look at. */
export interface DeadLetter {
  readonly position: number;
  readonly event: CapturedEvent;
  readonly reason: string;
}

/** What a run of log entries became. Everything in it lies above the end of the run before. */
export interface EventBatch {
  readonly rows: readonly EventRow[];
  readonly merges: readonly PersonMerge[];
  readonly deadLetters: readonly DeadLetter[];
  /** Position of the last entry of the run, stored or not. */
  readonly end: number;
}

export interface StoredEvent {
  readonly uuid: string;
  readonly event: string;
  readonly distinctId: string;
  /** UUID of the person as known now: merges are followed. */
  readonly personId: string;
  readonly properties: JsonObject;
  readonly timestamp: Date;
  readonly receivedAt: Date;
}

/** Events that a query found, in its order. */
export interface EventPage {
  readonly events: readonly StoredEvent[];
  /** True when more events match beyond these. */
  readonly hasMore: boolean;
}

/** A condition on properties, with what lets a store skip events without reading them. */
export interface PropertyCondition {
  /** Properties without which an event cannot match. */
  readonly requiredNames: readonly string[];
  /** May throw to end a search that takes too long. */
  matches(properties: JsonObject): boolean;
}

/** Which events, by what every store keeps in columns. */
export interface EventFilter {
  readonly projectId: number;
  readonly event?: string;
  readonly distinctId?: string;
  /** UUID of a person; events of persons merged into it count. */
  readonly personId?: string;
  readonly uuid?: string;
  /** Exclusive. */
  readonly after?: Date;
  /** Exclusive. */
  readonly before?: Date;
}

export interface EventQuery extends EventFilter {
  readonly properties?: PropertyCondition;
  readonly limit: number;
  readonly offset: number;
  /** By time, then by position. */
  readonly order: "newest-first" | "oldest-first";
}

/** The queryable store of events. One writer at a time. */
export interface EventStore {
  /**
   * Stores a batch and moves the consumer position to its end, in one durable transaction, or, where
   * the batch is large, in several that each store a part of the run with the position of its end.
   * What lies at or below the stored position, and rows whose uuid the project already has (of
   * those in one batch the first wins), are left out: a batch may be repeated after any failure.
   * An empty batch that ends at the stored position changes nothing, but fails when nothing can be
   * written now.
   */
  insert(batch: EventBatch): Promise<{ stored: number }>;

  /** The position up to which everything is stored; 0 at first. */
  position(): Promise<number>;

  /** Waits until the position has reached one; answers false when that takes longer. */
  reached(position: number, timeoutMs: number): Promise<boolean>;

  /**
   * Finds events. A page of very large events ends before its limit, so that reading them never
   * takes more than some tens of megabytes; it has at least one event where any matches.
   * Rejects with {@link QueryTooLong} when too many events have to be looked at.
   */
  events(query: EventQuery): Promise<EventPage>;

  /** How many events match; not by properties, since every text would have to be read. */
  count(filter: EventFilter): Promise<number>;

  /** Oldest first. */
  deadLetters(limit: number): Promise<readonly DeadLetter[]>;

  close(): Promise<void>;
}

/** A query has to look at more events than it may take time for: it should ask for fewer. */
export class QueryTooLong extends Error {
  override readonly name = "QueryTooLong";
  constructor(options?: { cause: unknown }) {
    super("the query takes too long", options);
  }
}

import type { CapturedEvent } from "@hedgerow/core/events/event";
import type { JsonObject } from "@hedgerow/core/json";

/** An event ready to store: its log position, its person, and the merges known with it. */
export interface EventRow {
  readonly position: number;
  readonly event: CapturedEvent;
  /** UUID of the person at that time. */
  readonly personId: string;
}

/** From now on events of person `from` count as events of `into`. */
export interface PersonMerge {
  readonly projectId: number;
  readonly from: string;
  readonly into: string;
}

export interface StoredEvent {
  readonly uuid: string;
  readonly event: string;
  readonly distinctId: string;
  readonly personId: string;
  readonly properties: JsonObject;
  readonly timestamp: Date;
  readonly receivedAt: Date;
}

export interface EventQuery {
  readonly projectId: number;
  readonly event?: string;
  readonly distinctId?: string;
  readonly personId?: string;
  readonly uuid?: string;
  readonly after?: Date;
  readonly before?: Date;
  /** Keeps events that satisfy all of these, by the flags' own operators. */
  readonly properties?: readonly JsonObject[];
  readonly limit: number;
  readonly offset: number;
  readonly order: "newest-first" | "oldest-first";
}

/** The queryable store of events. */
export interface EventStore {
  /**
   * Stores rows and merges and moves the consumer position to `end`, all in one transaction.
   * Rows at or below the stored position, and rows whose uuid the project already has, are left out.
   */
  insert(batch: {
    rows: readonly EventRow[];
    merges: readonly PersonMerge[];
    end: number;
  }): Promise<{ stored: number }>;
  /** The position up to which everything is stored; 0 at first. */
  position(): Promise<number>;
  events(query: EventQuery): Promise<readonly StoredEvent[]>;
  close(): Promise<void>;
}

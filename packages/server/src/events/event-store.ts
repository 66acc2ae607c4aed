import type { AddedProperties, CapturedEvent } from "@hedgerow/core/events/event";
import type { JsonObject } from "@hedgerow/core/json";

/** An event ready to store: its log position, its person and the groups it belongs to. */
export interface EventRow {
  readonly position: number;
  readonly event: CapturedEvent;
  /** UUID of the person at that time. */
  readonly personId: string;
  /** Group keys by index of the group type; shorter than five, or with `null`, where there is none. */
  readonly groupKeys: readonly (string | null)[];
  /** Names of the transformations that changed it, in order. */
  readonly changedBy: readonly string[];
  /**
   * The own properties of this very event as `encodeJson` writes them, where whoever made the row has
   * that text already: the store then need not write them again. The store believes it.
   */
  readonly propertiesText?: string | undefined;
  /** What is stored behind the event's own properties, none of which it has as well. */
  readonly added?: AddedProperties | undefined;
}

/**
 * Rows in the form in which a store takes them. It holds none of the objects that the rows consisted
 * of, so that many may wait; going through it makes them anew.
 */
export interface RowPack extends Iterable<EventRow> {
  readonly length: number;
  /** The rows of some projects; no others are made. */
  ofProjects(isWanted: (projectId: number) => boolean): Iterable<EventRow>;
  /** Bytes of memory that it holds beside what V8 looks through. */
  readonly memoryBytes: number;
  /** What it was put together of, where it was. */
  readonly parts?: readonly EventRows[];
  /** Gives its memory back: it is of no use from now on. Need not be called. */
  release(): void;
}

/** Rows as they are, or as a store has packed them. */
export type EventRows = readonly EventRow[] | RowPack;

/** An event that a step decided not to store. */
export interface DroppedEvent {
  readonly position: number;
  readonly projectId: number;
  readonly uuid: string;
  /** Name of the step. */
  readonly by: string;
  readonly reason: string;
  /** The time of storing unless given. */
  readonly droppedAt?: Date;
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
  readonly rows: EventRows;
  readonly merges: readonly PersonMerge[];
  readonly drops: readonly DroppedEvent[];
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

/** A stored event as whoever goes through all of them in order needs it. */
export interface PlacedEvent {
  readonly position: number;
  readonly event: Pick<CapturedEvent, "projectId" | "event" | "properties" | "receivedAt">;
  /** What there is beside the event's own properties. */
  readonly added?: AddedProperties | undefined;
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

/** Which dead letters, oldest first. */
export interface DeadLetterQuery {
  readonly projectId?: number;
  /** A position, exclusive. */
  readonly after?: number;
  readonly limit: number;
}

/** What identifies an event: two with the same identity are the same event sent again. */
export type EventIdentity = Pick<
  CapturedEvent,
  "uuid" | "event" | "distinctId" | "timestamp" | "properties"
> &
  Partial<Pick<CapturedEvent, "clientTimestamp">>;

/**
 * What a store knows of an event before it is sent to it. `duplicate`: the uuid is taken by this very
 * event. `conflict`: the uuid is taken by an event with another name, distinct id or time.
 */
export type Acquaintance = "new" | "duplicate" | "conflict";

/** An event that came with the uuid of a stored one. */
export interface Repetition {
  readonly position: number;
  readonly at: Date;
  readonly outcome: "duplicate" | "conflict";
}

/** What became of an event. */
export type EventReceipt =
  | {
      readonly outcome: "stored";
      readonly position: number;
      readonly storedAt: Date;
      readonly changedBy: readonly string[];
      /** The oldest of those that came later with its uuid; a bounded number. */
      readonly duplicates: readonly Repetition[];
      /** How many there were in all. */
      readonly duplicateCount: number;
      /** Why it was also kept as a dead letter; `null` when it was not. */
      readonly setAsideBecause: string | null;
    }
  | {
      readonly outcome: "dropped";
      readonly position: number;
      readonly at: Date;
      readonly by: string;
      readonly reason: string;
    }
  | { readonly outcome: "dead-lettered"; readonly position: number; readonly reason: string }
  /** Not stored: shortly before, another uuid came with the same `$insert_id`. */
  | {
      readonly outcome: "duplicate-of";
      readonly position: number;
      readonly at: Date;
      /** Of the event that came first; `null` where that is no longer known. */
      readonly uuid: string | null;
    };

/** A distinct id whose events belong to another person. */
export interface PersonMove {
  readonly distinctId: string;
  /** UUID of the person. */
  readonly personId: string;
}

/** The queryable store of events. One writer at a time. */
export interface EventStore {
  /**
   * Packs rows, in the order of their positions, for this store to insert them later; unpacked, they
   * are stored just the same. Never rejects: what cannot be stored is for `insert` to refuse.
   */
  pack(rows: readonly EventRow[]): Promise<EventRows>;

  /**
   * Stores a batch and moves the consumer position to its end, in one durable transaction, or, where
   * the batch is large, in several that each store a part of the run with the position of its end.
   * What lies at or below the stored position, and rows whose uuid the project already has (of
   * those in one batch the first wins), are left out: a batch may be repeated after any failure. So
   * are rows with the `$insert_id`, name and distinct id of one received within 48 hours before. A
   * row that could not be stored takes neither uuid nor `$insert_id`.
   * An empty batch that ends at the stored position changes nothing, but fails when nothing can be
   * written now. Drops, and rows left out because they came before, leave receipts in the same
   * transaction.
   */
  insert(batch: EventBatch): Promise<{ stored: number; duplicates: number }>;

  /**
   * What is known of events of one project, in order; cheap enough to ask for every captured event.
   * Events that are on their way to the store are new.
   */
  known(projectId: number, events: readonly EventIdentity[]): readonly Acquaintance[];

  /** What became of the events with a uuid; `undefined` when none reached the store. */
  receipt(projectId: number, uuid: string): Promise<EventReceipt | undefined>;

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

  /**
   * Events of all projects above a position, in order: at least one where there is any, and never
   * more than some megabytes of them.
   */
  eventsAfter(position: number, limit: number): Promise<readonly PlacedEvent[]>;

  /** Which of some projects have any event. */
  hasEvents(projectIds: readonly number[]): Promise<ReadonlySet<number>>;

  deadLetters(query: DeadLetterQuery): Promise<readonly DeadLetter[]>;

  /** The dead letter at a position, where there is one. */
  deadLetter(position: number): Promise<DeadLetter | undefined>;

  /** Forgets dead letters; their uuids are free unless their events are stored. */
  removeDeadLetters(positions: readonly number[]): Promise<void>;

  /**
   * Deletes the events of persons, and of those merged into them, that stand up to a position, which
   * must be stored already. Their uuids stay taken. Doing it again changes nothing.
   */
  deleteEventsOf(projectId: number, personIds: readonly string[], upTo: number): Promise<void>;

  /**
   * Gives the events of distinct ids to other persons: those up to a position, which must be stored
   * already. Doing it again changes nothing.
   */
  reassign(projectId: number, moves: readonly PersonMove[], upTo: number): Promise<void>;

  close(): Promise<void>;
}

/** A query has to look at more events than it may take time for: it should ask for fewer. */
export class QueryTooLong extends Error {
  override readonly name = "QueryTooLong";
  constructor(options?: { cause: unknown }) {
    super("the query takes too long", options);
  }
}

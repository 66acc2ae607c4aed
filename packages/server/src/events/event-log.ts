import type {
  AddedProperties,
  CapturedEvent,
  LoggedEvent,
  Passage,
} from "@hedgerow/core/events/event";

/** A run of events taken from the log, with the means to acknowledge it. */
export interface LogBatch {
  readonly entries: readonly LoggedEvent[];
  /**
   * Position of the last entry. Of an empty batch: the one up to which the log holds nothing after
   * the position asked for, because it was released or lost.
   */
  readonly end: number;
  /** Length of the entries as text: what they cost in memory, roughly. */
  readonly chars: number;
}

/**
 * The durable queue between capture and storage. Order holds per project and distinct id; delivery
 * is at least once: a consumer names the position up to which its effects are stored and reads on
 * from there.
 */
export interface EventLog {
  /**
   * Resolves once every event would survive a crash, with the position of each, in order.
   * Rejects with {@link LogUnavailable} when the disk is full, read-only or too slow; nothing of
   * the call is stored then.
   */
  append(events: readonly CapturedEvent[]): Promise<readonly number[]>;

  /**
   * The next events after `after`, at most `limit`, and fewer where they are large: some megabytes,
   * but at least one event where any is left. Waits until one was appended or the signal aborts
   * (then an empty batch that ends where it begins).
   */
  read(after: number, limit: number, signal: AbortSignal): Promise<LogBatch>;

  /**
   * Position of the first entry after `after` that is an event of a project with a uuid. Reads
   * everything on its way, in turns with others.
   */
  find(
    event: Pick<CapturedEvent, "projectId" | "uuid">,
    after: number,
  ): Promise<number | undefined>;

  /**
   * Why the last events were refused by the disk, for some seconds after it happened: whoever waits
   * for better times has to try again. `undefined` once it takes events.
   */
  refusing(): string | undefined;

  /** Position of the newest stored entry; 0 for an empty log. */
  end(): Promise<number>;

  /**
   * Tells that every consumer has passed a position. The log forgets entries at or below it once
   * they are beyond the size or age up to which it keeps them.
   */
  release(upTo: number): Promise<void>;

  /** What waits beside the entries above. */
  readonly lanes: LogLanes;

  /** Bytes that the log takes on its disk. */
  bytes(): Promise<number>;

  close(): Promise<void>;
}

/** What became of an event of a lane. */
export interface PassedEvent {
  readonly event: CapturedEvent;
  readonly passage: Passage;
  /** JSON text of the event's own properties, where it is at hand. */
  readonly propertiesText?: string | undefined;
  /** `false` where it is known that they hold no `bigint`. */
  readonly mayHoldBigInt?: boolean | undefined;
  /** What stands behind those. */
  readonly added?: AddedProperties | undefined;
  /** Its place in the lane, where it is the event that stands there, but for what was added. */
  readonly place?: number | undefined;
}

/** What events that passed have left for other stores. */
export interface PassedEffects {
  /** Position of the last event that passed with them. */
  readonly position: number;
  readonly lines: readonly string[];
}

/**
 * Events that have to pass their project's transformations before they become entries of the log
 * (decision record 24). Each project has a lane of its own; places in it grow by one and are no
 * positions of the log. What has passed is in its lane no more.
 */
export interface LogLanes {
  /** Whether the lane of a project holds anything, what is on its way to the disk included. */
  isWaiting(projectId: number): boolean;

  /** How many events wait on the disk, by project; without those of which none do. */
  waiting(): ReadonlyMap<number, number>;

  /** The last place of a lane that has passed; 0 where none has. */
  begin(projectId: number): number;

  /** Place of the newest event of a lane; 0 where there never was any. */
  end(projectId: number): number;

  /** Like {@link EventLog.append}, to a lane: answers places. */
  append(projectId: number, events: readonly CapturedEvent[]): Promise<readonly number[]>;

  /**
   * The next events of a lane after a place, as {@link EventLog.read} gives them, but at once. What has
   * passed is not there. Where there is nothing after the place, the batch ends at it.
   */
  read(projectId: number, after: number, limit: number): LogBatch;

  /**
   * Turns the beginning of a lane into entries of the log, in one commit: what became of its events
   * is appended, what was captured from them goes to the end of the lane, and the lane begins after
   * `upTo`. Rejects like {@link EventLog.append}; nothing has changed then.
   *
   * `effects`, lines of text, are kept in the same commit until they are forgotten, where any events
   * pass with them. It rejects also while too many of others are kept.
   */
  pass(
    projectId: number,
    passed: {
      readonly upTo: number;
      readonly events: readonly PassedEvent[];
      readonly captured: readonly CapturedEvent[];
      readonly effects?: readonly string[];
    },
  ): Promise<{ readonly positions: readonly number[]; readonly places: readonly number[] }>;

  /**
   * The next effects of all lanes that passed after a position, in the order of their commits: some
   * megabytes, but at least those of one pass where any are left.
   */
  effects(after: number): readonly PassedEffects[];

  /**
   * Whether those that are kept take more than half of the room that there is for them: what can wait
   * elsewhere should.
   */
  areEffectsMany(): boolean;

  /** Effects up to a position are where they belong: they are given no more, and forgotten soon. */
  forgetEffects(upTo: number): void;

  /**
   * Resolves once everything that a lane holds now has passed, or after a while (then `false`);
   * `undefined` when it holds nothing.
   */
  passed(projectId: number, maxWaitMs: number): Promise<boolean> | undefined;

  /** Whether an event waits in its project's lane. Reads all that waits there, in turns with others. */
  holds(event: Pick<CapturedEvent, "projectId" | "uuid">): Promise<boolean>;
}

/** The log cannot take events now; the caller answers 503 with `Retry-After`. */
export class LogUnavailable extends Error {
  override readonly name = "LogUnavailable";
  readonly retryAfterSeconds: number;
  constructor(message: string, options: { cause?: unknown; retryAfterSeconds: number }) {
    super(message, { cause: options.cause });
    this.retryAfterSeconds = options.retryAfterSeconds;
  }
}

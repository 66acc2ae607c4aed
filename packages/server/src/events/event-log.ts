import type { CapturedEvent, LoggedEvent } from "@hedgerow/core/events/event";

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

  /** Bytes that the log takes on its disk. */
  bytes(): Promise<number>;

  close(): Promise<void>;
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

import { setTimeout as delay } from "node:timers/promises";
import { type CompiledQuery, type DatabaseConnection, SqliteDriver } from "kysely";

/** How long a file may stay locked before statements fail of it. */
const MAX_LOCKED_MS = 5000;
/** Pauses between two tries grow up to this. */
const MAX_PAUSE_MS = 20;
/** A lock that was not met for so long has ended, if nothing told of that. */
const SAME_LOCK_MS = 1000;
/** What succeeds only while nobody else has the file locked. */
const WRITES = /^\s*(?:insert|update|delete|create|alter|drop)\b/i;

export interface LockWaitOptions {
  /** 5,000 unless given. */
  readonly maxLockedMs?: number;
  readonly nowMs?: () => number;
  readonly pause?: (ms: number) => Promise<unknown>;
}

/**
 * A driver that tries statements again while another process has the file locked, with pauses in which the
 * rest of the process goes on: waiting within the engine would hold up every request. Whoever comes behind
 * waits for the connection, as for any transaction. Once a file was locked for too long, statements fail at
 * their first try until the lock is gone: the time is that of the lock, and not of each that meets it.
 *
 * The engine must not wait by itself, and a statement that has met a lock must be over (`endLockedStatements`).
 */
export class LockWaitingDriver extends SqliteDriver {
  readonly #options: Required<LockWaitOptions>;
  readonly #known = new WeakSet<DatabaseConnection>();
  /** Since when the file is locked, and when that was last met. */
  #lock: { readonly sinceMs: number; readonly metMs: number } | undefined;

  constructor(
    config: ConstructorParameters<typeof SqliteDriver>[0],
    {
      maxLockedMs = MAX_LOCKED_MS,
      nowMs = () => performance.now(),
      pause = delay,
    }: LockWaitOptions = {},
  ) {
    super(config);
    this.#options = { maxLockedMs, nowMs, pause };
  }

  override async acquireConnection(): Promise<DatabaseConnection> {
    const connection = await super.acquireConnection();
    // It is the same object each time.
    if (!this.#known.has(connection)) {
      this.#known.add(connection);
      this.#waitOn(connection);
    }
    return connection;
  }

  #waitOn(connection: DatabaseConnection): void {
    const execute: DatabaseConnection["executeQuery"] = connection.executeQuery.bind(connection);
    connection.executeQuery = <Row>(query: CompiledQuery) => {
      // Statements run, and fail, before there is a promise: all that meet no lock cost nothing more.
      try {
        const result = execute<Row>(query);
        if (this.#lock && WRITES.test(query.sql)) this.#lock = undefined;
        return result;
      } catch (error) {
        return this.#again(() => execute<Row>(query), error);
      }
    };
  }

  async #again<Result>(run: () => Promise<Result>, error: unknown): Promise<Result> {
    let failure = error;
    for (let pauseMs = 1; ; pauseMs = Math.min(2 * pauseMs, MAX_PAUSE_MS)) {
      const { maxLockedMs, pause } = this.#options;
      if (!isPassingLock(failure) || this.#lockedForMs() >= maxLockedMs) throw failure;
      await pause(pauseMs);
      try {
        const result = await run();
        this.#lock = undefined;
        return result;
      } catch (again) {
        failure = again;
      }
    }
  }

  /** Notes that the file is locked; how long it has been. */
  #lockedForMs(): number {
    const nowMs = this.#options.nowMs();
    const lock = this.#lock;
    const sinceMs = lock && nowMs - lock.metMs <= SAME_LOCK_MS ? lock.sinceMs : nowMs;
    this.#lock = { sinceMs, metMs: nowMs };
    return nowMs - sinceMs;
  }
}

/** A transaction that has read what another process then changed can never write: waiting is in vain. */
function isPassingLock(error: unknown): boolean {
  const code = error instanceof Error && "code" in error ? String(error.code) : "";
  return code.startsWith("SQLITE_BUSY") && code !== "SQLITE_BUSY_SNAPSHOT";
}

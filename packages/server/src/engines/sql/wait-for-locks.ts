import { setTimeout as delay } from "node:timers/promises";
import { type DatabaseConnection, SqliteDriver } from "kysely";

/** How long a file may stay locked before statements fail of it. */
const MAX_LOCKED_MS = 5000;
/** Pauses between two tries grow up to this. */
const MAX_PAUSE_MS = 20;
/** A lock that was not met for so long has ended. */
const SAME_LOCK_MS = 1000;

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
  #sinceMs = 0;
  #lastMetMs = Number.NEGATIVE_INFINITY;

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
    connection.executeQuery = (query) => {
      // Statements run, and fail, before there is a promise: all that meet no lock cost nothing more.
      try {
        return execute(query);
      } catch (error) {
        return this.#again(() => execute(query), error);
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
        return await run();
      } catch (again) {
        failure = again;
      }
    }
  }

  /** Notes that the file is locked; how long it has been. */
  #lockedForMs(): number {
    const now = this.#options.nowMs();
    if (now - this.#lastMetMs > SAME_LOCK_MS) this.#sinceMs = now;
    this.#lastMetMs = now;
    return now - this.#sinceMs;
  }
}

/** A transaction that has read what another process then changed can never write: waiting is in vain. */
function isPassingLock(error: unknown): boolean {
  const code = error instanceof Error && "code" in error ? String(error.code) : "";
  return code.startsWith("SQLITE_BUSY") && code !== "SQLITE_BUSY_SNAPSHOT";
}

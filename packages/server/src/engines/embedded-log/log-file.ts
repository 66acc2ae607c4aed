import Database from "libsql";

/** Encoded events, joined by line breaks: what one row of the file holds. */
export interface Segment {
  readonly count: number;
  readonly lines: string;
}

export interface LogFileOptions {
  readonly path: string;
  /** New positions are greater than this one, whatever the file holds. */
  readonly after: number;
  /** The file takes no more events beyond this size; what is released makes room again. */
  readonly maxBytes: number;
}

export type ToLogThread =
  | { readonly kind: "append"; readonly segments: readonly Segment[] }
  | { readonly kind: "release"; readonly upTo: number }
  | { readonly kind: "close" };

export type FromLogThread =
  | { readonly kind: "opened"; readonly end: number }
  /** `end`: position of the last event of the append. */
  | { readonly kind: "appended"; readonly end: number }
  | { readonly kind: "refused"; readonly reason: string }
  | { readonly kind: "closed" };

/** Large pages: segments are long texts, and fewer pages mean fewer links to follow. */
const PAGE_BYTES = 16_384;
/** Released events are deleted with the next append, or after this long without one. */
const IDLE_RELEASE_MS = 250;

/** The writing half of the log, synchronous. One per file. */
export interface LogFile {
  readonly end: number;
  /** Stores all segments in one durable commit and answers the position of the last event. Throws when nothing was stored. */
  append(segments: readonly Segment[]): number;
  /** Forgets segments whose events all lie at or below a position, some time soon. */
  release(upTo: number): void;
  close(): void;
}

/** Opens a log file for writing, creating it where it is missing. Throws when that fails. */
export function openLogFile({ path, after, maxBytes }: LogFileOptions): LogFile {
  let connection = connect(path, maxBytes);
  let end = Math.max(after, connection.storedEnd());
  let releasable = 0;
  let idleTimer: NodeJS.Timeout | undefined;

  /** After a failed write the connection may be of no use any more: a new one tells. */
  function reconnect(): void {
    try {
      connection.close();
    } catch {
      // It failed already; what matters is whether a new one works.
    }
    connection = connect(path, maxBytes);
  }

  function deleteReleased(): void {
    clearTimeout(idleTimer);
    idleTimer = undefined;
    if (releasable === 0) return;
    connection.deleteUpTo(releasable);
    releasable = 0;
  }

  return {
    get end() {
      return end;
    },
    append(segments) {
      const write = () =>
        connection.inTransaction(() => {
          deleteReleased();
          let last = end;
          for (const { count, lines } of segments) {
            last += count;
            connection.insert(last, count, lines);
          }
          connection.storeEnd(last);
          return last;
        });
      try {
        end = write();
      } catch (error) {
        reconnect();
        throw error;
      }
      return end;
    },
    release(upTo) {
      releasable = Math.max(releasable, upTo);
      idleTimer ??= setTimeout(() => {
        try {
          deleteReleased();
        } catch {
          // Deleting needs room for its journal; the next append tries again and reports.
        }
      }, IDLE_RELEASE_MS).unref();
    },
    close() {
      clearTimeout(idleTimer);
      connection.close();
    },
  };
}

function connect(path: string, maxBytes: number) {
  const database = new Database(path);
  database.exec(`pragma page_size = ${PAGE_BYTES}`);
  database.exec("pragma journal_mode = wal");
  database.exec("pragma synchronous = full");
  database.exec("pragma busy_timeout = 5000");
  database.exec(`pragma journal_size_limit = ${64 * 1024 * 1024}`);
  database.exec(`pragma max_page_count = ${Math.ceil(maxBytes / PAGE_BYTES)}`);
  database.exec(
    `create table if not exists segments (
      last integer primary key,
      count integer not null,
      lines text not null
    )`,
  );
  database.exec(
    "create table if not exists progress (id integer primary key check (id = 1), end integer not null)",
  );
  const insert = database.prepare("insert into segments (last, count, lines) values (?, ?, ?)");
  const remove = database.prepare("delete from segments where last <= ?");
  const saveEnd = database.prepare("insert or replace into progress (id, end) values (1, ?)");
  return {
    storedEnd: (): number => {
      const [row] = database.prepare("select end from progress").all() as { end: number }[];
      return row?.end ?? 0;
    },
    inTransaction<Result>(work: () => Result): Result {
      database.exec("begin immediate");
      try {
        const result = work();
        database.exec("commit");
        return result;
      } catch (error) {
        if (database.inTransaction) database.exec("rollback");
        throw error;
      }
    },
    insert: (last: number, count: number, lines: string) => insert.run(last, count, lines),
    deleteUpTo: (position: number) => remove.run(position),
    storeEnd: (end: number) => saveEnd.run(end),
    close: () => database.close(),
  };
}

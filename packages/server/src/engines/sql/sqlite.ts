import {
  Kysely,
  SqliteAdapter,
  type SqliteDatabase,
  SqliteDialect,
  type SqliteDialectConfig,
  type SqliteStatement,
} from "kysely";
import Database from "libsql";
import { endLockedStatements } from "./end-locked-statements.ts";
import { migrate } from "./migrate.ts";
import { nameOutages } from "./name-outages.ts";
import type { Schema } from "./schema.ts";
import type { SqlDatabase } from "./sql-database.ts";
import { createSqliteFlusher } from "./sqlite-flusher.ts";
import { LockWaitingDriver, type LockWaitOptions } from "./wait-for-locks.ts";

/**
 * Pages of the write-ahead log at which a commit copies them into the file itself, as SQLite does by
 * default at a thousand: 64 MiB. It only comes to that where nobody flushes.
 */
const MAX_LOG_PAGES = 16_384;

/** Most memory for pages of the database that are read at once; the indexes of millions of rows fit in. */
const CACHE_KIB_AT_ONCE = 32_768;

/**
 * Opens (and brings up to date) the embedded metadata database. Commits are durable, those of
 * `replayable` with the next `flush`: WAL with `synchronous=FULL` (ADR 0013). One connection writes,
 * one reads, so that a read never waits for a write transaction, and one reads at once, so that it
 * never waits for, or reads from within, a longer look of the second.
 */
export async function openSqlite(
  path: string,
  lockWaits: LockWaitOptions = {},
): Promise<SqlDatabase> {
  const connect = () => {
    const connection = new Database(path);
    // First: the others may find the file locked, by a command that works on it too.
    connection.exec("pragma busy_timeout = 5000");
    connection.exec("pragma journal_mode = wal");
    connection.exec("pragma synchronous = full");
    connection.exec("pragma foreign_keys = on");
    connection.exec(`pragma wal_autocheckpoint = ${MAX_LOG_PAGES}`);
    // From now on it is the driver that waits, and the rest of the process goes on.
    connection.exec("pragma busy_timeout = 0");
    return connection;
  };
  const open = (connection: Database.Database) =>
    new Kysely<Schema>({
      dialect: nameOutages(
        new Dialect({ database: keepStatements(endLockedStatements(connection)) }, lockWaits),
      ),
    });
  const writer = connect();
  const writes = open(writer);
  const flusher = createSqliteFlusher(path);
  const database: SqlDatabase = {
    writes,
    reads: writes,
    readAtOnce: null,
    membershipChanges: { count: 0 },
    capabilities: {
      identity: (column) => column.primaryKey().autoIncrement(),
      isUniqueViolation: (error) =>
        error instanceof Error && /UNIQUE constraint failed/.test(error.message),
      isExclusive: true,
    },
    replayable: (work) =>
      writes.connection().execute(async (held) => {
        // Not as a statement: this pragma works while it is prepared, and those are kept.
        writer.exec("pragma synchronous = normal");
        try {
          return await held.transaction().execute(work);
        } finally {
          writer.exec("pragma synchronous = full");
        }
      }),
    flush: () => flusher.flush(),
    close: () => writes.destroy(),
  };
  await migrate(database);
  const reads = open(connect());
  const connection = connect();
  connection.exec(`pragma cache_size = -${CACHE_KIB_AT_ONCE}`);
  const statements = keepStatements(connection);
  return {
    ...database,
    reads,
    readAtOnce: {
      row: (text, parameters) => statements.prepare(text).get(parameters),
      rows: (text, parameters) => statements.prepare(text).all(parameters),
    },
    close: async () => {
      await flusher.close();
      statements.close();
      await reads.destroy();
      await writes.destroy();
    },
  };
}

/**
 * With tables made and changed in transactions, as SQLite can: an upgrade happens whole or not at all. And with
 * locks of other processes waited for.
 */
class Dialect extends SqliteDialect {
  readonly #config: SqliteDialectConfig;
  readonly #lockWaits: LockWaitOptions;

  constructor(config: SqliteDialectConfig, lockWaits: LockWaitOptions) {
    super(config);
    this.#config = config;
    this.#lockWaits = lockWaits;
  }

  override createDriver() {
    return new LockWaitingDriver(this.#config, this.#lockWaits);
  }

  override createAdapter() {
    return new Adapter();
  }
}

class Adapter extends SqliteAdapter {
  override get supportsTransactionalDdl() {
    return true;
  }
}

/** A connection, with statements that can do what its driver's can. */
interface Connection<Statement extends SqliteStatement> extends SqliteDatabase {
  prepare(text: string): Statement;
}

/** Statements kept for each connection, and the longest text that is worth keeping. */
const MAX_KEPT_STATEMENTS = 300;
const MAX_KEPT_LENGTH = 4000;

/**
 * The connection with its latest statements kept prepared: preparing one costs more than it takes to
 * run a point look-up.
 */
function keepStatements<Statement extends SqliteStatement>(
  connection: Connection<Statement>,
): Connection<Statement> {
  // In order of use, the longest unused first.
  const kept = new Map<string, Statement>();
  return {
    close: () => {
      kept.clear();
      connection.close();
    },
    prepare(text) {
      const known = kept.get(text);
      if (known) {
        kept.delete(text);
        kept.set(text, known);
        return known;
      }
      const statement = connection.prepare(text);
      if (text.length > MAX_KEPT_LENGTH) return statement;
      kept.set(text, statement);
      for (const oldest of kept.keys()) {
        if (kept.size <= MAX_KEPT_STATEMENTS) break;
        kept.delete(oldest);
      }
      return statement;
    },
  };
}

import { Kysely, type SqliteDatabase, SqliteDialect, type SqliteStatement } from "kysely";
import Database from "libsql";
import { migrate } from "./migrate.ts";
import { nameOutages } from "./name-outages.ts";
import type { Schema } from "./schema.ts";
import type { SqlDatabase } from "./sql-database.ts";

/**
 * Opens (and brings up to date) the embedded metadata database. Commits are durable: WAL with
 * `synchronous=FULL`. Two connections, so that a read never waits for a write transaction.
 */
export async function openSqlite(path: string): Promise<SqlDatabase> {
  const open = () => {
    const connection = new Database(path);
    // First: the others may find the file locked, by a command that works on it too.
    connection.exec("pragma busy_timeout = 5000");
    connection.exec("pragma journal_mode = wal");
    connection.exec("pragma synchronous = full");
    connection.exec("pragma foreign_keys = on");
    return new Kysely<Schema>({
      dialect: nameOutages(new SqliteDialect({ database: keepStatements(connection) })),
    });
  };
  const writes = open();
  const database: SqlDatabase = {
    writes,
    reads: writes,
    capabilities: {
      identity: (column) => column.primaryKey().autoIncrement(),
      isUniqueViolation: (error) =>
        error instanceof Error && /UNIQUE constraint failed/.test(error.message),
      isExclusive: true,
    },
    close: () => writes.destroy(),
  };
  await migrate(database);
  const reads = open();
  return {
    ...database,
    reads,
    close: async () => {
      await reads.destroy();
      await writes.destroy();
    },
  };
}

/** Statements kept for each connection, and the longest text that is worth keeping. */
const MAX_KEPT_STATEMENTS = 300;
const MAX_KEPT_LENGTH = 4000;

/**
 * The connection with its latest statements kept prepared: preparing one costs more than it takes to
 * run a point look-up.
 */
function keepStatements(connection: SqliteDatabase): SqliteDatabase {
  // In order of use, the longest unused first.
  const kept = new Map<string, SqliteStatement>();
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

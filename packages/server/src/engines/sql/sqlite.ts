import { Kysely, SqliteDialect } from "kysely";
import Database from "libsql";
import { migrate } from "./migrate.ts";
import type { Schema } from "./schema.ts";
import type { SqlDatabase } from "./sql-database.ts";

/**
 * Opens (and brings up to date) the embedded metadata database. Commits are durable: WAL with
 * `synchronous=FULL`. Two connections, so that a read never waits for a write transaction.
 */
export async function openSqlite(path: string): Promise<SqlDatabase> {
  const open = () => {
    const connection = new Database(path);
    connection.exec("pragma journal_mode = wal");
    connection.exec("pragma synchronous = full");
    connection.exec("pragma foreign_keys = on");
    connection.exec("pragma busy_timeout = 5000");
    return new Kysely<Schema>({ dialect: new SqliteDialect({ database: connection }) });
  };
  const writes = open();
  const database: SqlDatabase = {
    writes,
    reads: writes,
    capabilities: {
      identity: (column) => column.primaryKey().autoIncrement(),
      isUniqueViolation: (error) =>
        error instanceof Error && /UNIQUE constraint failed/.test(error.message),
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

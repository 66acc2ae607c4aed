import type { SqliteDatabase, SqliteStatement } from "kysely";

/** A connection that can do what is no query, such as setting a pragma. */
interface Connection extends SqliteDatabase {
  exec(text: string): unknown;
}

/** Statements that only read, or that begin and end transactions: they hold up no commit. */
const WRITES_NOTHING = /^\s*(?:select|pragma|begin|commit|rollback|savepoint|release)\b/i;

/**
 * The connection with statements that are over once they fail because another process had the file
 * locked. By themselves they stay in progress, as SQLite lets them be tried again, and no transaction
 * of the connection can commit until they are; the driver has nothing that resets them, and forgotten
 * ones are reset only when their memory is collected.
 */
export function endLockedStatements(connection: Connection): SqliteDatabase {
  return {
    close: () => connection.close(),
    prepare(text) {
      const statement = connection.prepare(text);
      if (WRITES_NOTHING.test(text)) return statement;
      const orEnd = <Result>(run: () => Result): Result => {
        try {
          return run();
        } catch (error) {
          if (isLocked(error)) end(statement, connection);
          throw error;
        }
      };
      return {
        reader: statement.reader,
        all: (parameters) => orEnd(() => statement.all(parameters)),
        run: (parameters) => orEnd(() => statement.run(parameters)),
        iterate: (parameters) => statement.iterate(parameters),
      };
    },
  };
}

function isLocked(error: unknown): boolean {
  const code = error instanceof Error && "code" in error ? String(error.code) : "";
  return code.startsWith("SQLITE_BUSY");
}

/** To be run again resets a statement; where nothing may be written it then fails before it begins. */
function end(statement: SqliteStatement, connection: Connection): void {
  connection.exec("pragma query_only = on");
  try {
    statement.run([]);
  } catch {
    // That nothing may be written: the statement is over.
  } finally {
    connection.exec("pragma query_only = off");
  }
}

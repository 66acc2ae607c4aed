import type { CompiledQuery, DatabaseConnection, Dialect, Driver } from "kysely";
import { StoreUnavailable } from "../../platform/store-unavailable.ts";

/** Codes of SQLite: no space, a disk that fails, a file that may not be written or stays locked. */
const SQLITE_OUTAGE = /^SQLITE_(?:FULL|IOERR|READONLY|CANTOPEN|BUSY)/;

/**
 * States of Postgres: lost connections, no resources (a full disk is 53100), shutting down, a
 * failing disk, a standby that only reads.
 */
const POSTGRES_OUTAGE = /^(?:08|53|57P0|58030|25006)/;

/** Codes of the connection to a server that is away. */
const NETWORK_OUTAGE = /^(?:ECONNREFUSED|ECONNRESET|ENOTFOUND|EAI_AGAIN|EPIPE|ETIMEDOUT)$/;

/** What the driver of Postgres says, without a code, of a connection that is lost. */
const LOST_CONNECTION = /^(?:Connection terminated|Client has encountered a connection error)/;

/** Whether an error of a database says that it cannot work for now. */
export function isOutage(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  if (!("code" in error) || error.code === undefined) return LOST_CONNECTION.test(error.message);
  const code = String(error.code);
  // A server that is reached by a socket takes it along when it ends.
  if (code === "ENOENT" && "syscall" in error && error.syscall === "connect") return true;
  return [SQLITE_OUTAGE, POSTGRES_OUTAGE, NETWORK_OUTAGE].some((outage) => outage.test(code));
}

/** A dialect whose statements fail with {@link StoreUnavailable} when the database is out of order. */
export function nameOutages(dialect: Dialect): Dialect {
  return {
    createAdapter: () => dialect.createAdapter(),
    createIntrospector: (database) => dialect.createIntrospector(database),
    createQueryCompiler: () => dialect.createQueryCompiler(),
    createDriver: () => namingDriver(dialect.createDriver()),
  };
}

function namingDriver(driver: Driver): Driver {
  const named = new WeakSet<DatabaseConnection>();
  /** Connections whose transaction an outage has ended. */
  const broken = new WeakSet<DatabaseConnection>();
  const { savepoint, rollbackToSavepoint, releaseSavepoint } = driver;

  /** The driver keeps state on its connections: they stay the same objects. */
  function nameOutagesOf(connection: DatabaseConnection): DatabaseConnection {
    if (named.has(connection)) return connection;
    named.add(connection);
    const execute: DatabaseConnection["executeQuery"] = connection.executeQuery.bind(connection);
    connection.executeQuery = async <Row>(query: CompiledQuery) => {
      try {
        return await execute<Row>(query);
      } catch (error) {
        if (isOutage(error)) broken.add(connection);
        throw nameOf(error);
      }
    };
    return connection;
  }

  return {
    init: () => driver.init(),
    acquireConnection: async () => {
      try {
        return nameOutagesOf(await driver.acquireConnection());
      } catch (error) {
        throw nameOf(error);
      }
    },
    beginTransaction: async (connection, settings) => {
      broken.delete(connection);
      await driver.beginTransaction(connection, settings);
    },
    commitTransaction: (connection) => driver.commitTransaction(connection),
    rollbackTransaction: async (connection) => {
      try {
        await driver.rollbackTransaction(connection);
      } catch (error) {
        // SQLite has rolled back by itself then; what matters is the outage that made it do so.
        if (!broken.has(connection)) throw error;
      }
    },
    ...(savepoint && { savepoint: savepoint.bind(driver) }),
    ...(rollbackToSavepoint && { rollbackToSavepoint: rollbackToSavepoint.bind(driver) }),
    ...(releaseSavepoint && { releaseSavepoint: releaseSavepoint.bind(driver) }),
    releaseConnection: (connection) => driver.releaseConnection(connection),
    destroy: () => driver.destroy(),
  };
}

function nameOf(error: unknown): unknown {
  if (!isOutage(error)) return error;
  return new StoreUnavailable("the metadata database is out of order", { cause: error });
}

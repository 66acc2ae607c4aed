import type { DuckDBConnection, DuckDBPreparedStatement } from "@duckdb/node-api";

/** Statements that a connection runs again and again: planning them takes longer than running them. */
export type Statements = (
  connection: DuckDBConnection,
  sql: string,
) => Promise<DuckDBPreparedStatement>;

/** Prepares each statement once for each connection, for as long as that lives. */
export function createStatements(): Statements {
  const ofConnections = new WeakMap<DuckDBConnection, Map<string, DuckDBPreparedStatement>>();
  return async (connection, sql) => {
    const known = ofConnections.get(connection) ?? new Map<string, DuckDBPreparedStatement>();
    ofConnections.set(connection, known);
    const statement = known.get(sql) ?? (await connection.prepare(sql));
    known.set(sql, statement);
    return statement;
  };
}

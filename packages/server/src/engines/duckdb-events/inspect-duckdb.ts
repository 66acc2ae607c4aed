import { DuckDBInstance } from "@duckdb/node-api";

/**
 * How many events a DuckDB file holds, read without changing it. Throws where the file cannot be
 * opened; a file that another process works in cannot be.
 */
export async function countEvents(path: string): Promise<number> {
  const instance = await DuckDBInstance.create(path, { access_mode: "READ_ONLY" });
  try {
    const connection = await instance.connect();
    const reader = await connection.runAndReadAll("select count(*) from events");
    return Number(reader.getRows()[0]?.[0] ?? 0);
  } finally {
    instance.closeSync();
  }
}

import type { SqlDatabase } from "./sql-database.ts";

/** Opens the metadata database: on Postgres where a URL is given, else in the file. */
export async function openMetadata(where: {
  databaseUrl: string | null;
  file: string;
}): Promise<SqlDatabase> {
  // Each engine's driver is loaded only where it is used.
  if (where.databaseUrl !== null) {
    const { openPostgres } = await import("./postgres.ts");
    return openPostgres(where.databaseUrl);
  }
  const { openSqlite } = await import("./sqlite.ts");
  return openSqlite(where.file);
}

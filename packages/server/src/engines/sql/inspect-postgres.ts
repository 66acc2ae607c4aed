import pg from "pg";
import { MIGRATION_NAMES } from "./migrate.ts";

/** Which steps of the schema a Postgres has, without changing it. */
export async function postgresState(
  url: string,
  schema = "public",
): Promise<{ pending: readonly string[]; unknown: readonly string[] }> {
  const client = new pg.Client({
    connectionString: url,
    connectionTimeoutMillis: 5000,
    options: `-c search_path=${schema}`,
  });
  // Of a lost connection its statements tell.
  client.on("error", () => {});
  await client.connect();
  try {
    const { rows: tables } = await client.query("select to_regclass('kysely_migration') as name");
    const { rows } = tables[0]?.name
      ? await client.query<{ name: string }>("select name from kysely_migration order by name")
      : { rows: [] };
    const done = rows.map((row) => row.name);
    return {
      pending: MIGRATION_NAMES.filter((name) => !done.includes(name)),
      unknown: done.filter((name) => !MIGRATION_NAMES.includes(name)),
    };
  } finally {
    await client.end();
  }
}

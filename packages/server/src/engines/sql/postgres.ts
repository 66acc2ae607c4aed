import { Kysely, PostgresDialect } from "kysely";
import pg from "pg";
import { migrate } from "./migrate.ts";
import { nameOutages } from "./name-outages.ts";
import type { Schema } from "./schema.ts";
import type { SqlDatabase } from "./sql-database.ts";

const INT8 = 20;

/** Opens (and brings up to date) a metadata database on Postgres, in the given schema. */
export async function openPostgres(url: string, schema = "public"): Promise<SqlDatabase> {
  const pool = new pg.Pool({
    connectionString: url,
    max: 10,
    options: `-c search_path=${schema}`,
    // Instants and counts are int8; all of ours are below 2^53.
    types: {
      getTypeParser: (id: number, format?: "text" | "binary") =>
        id === INT8 ? Number : pg.types.getTypeParser(id, format as "text"),
    },
  });
  // Whoever asks something of a lost connection is told. The pool replaces it; what is told while
  // nobody asks, the pool of those at rest and the driver of those lent out, ends a process that does
  // not listen.
  pool.on("error", () => {});
  pool.on("connect", (client) => client.on("error", () => {}));
  const kysely = new Kysely<Schema>({ dialect: nameOutages(new PostgresDialect({ pool })) });
  const database: SqlDatabase = {
    writes: kysely,
    reads: kysely,
    readAtOnce: null,
    membershipChanges: { count: 0 },
    capabilities: {
      identity: (column) => column.primaryKey().generatedByDefaultAsIdentity(),
      isUniqueViolation: (error) =>
        error instanceof Error && "code" in error && error.code === "23505",
      isExclusive: false,
    },
    // Others share the database: every commit is waited for.
    replayable: (work) => kysely.transaction().execute(work),
    flush: async () => {},
    close: () => kysely.destroy(),
  };
  await besideOthers(() => migrate(database, schema));
  return database;
}

/** Undefined schemas, tables and columns. */
const GONE = new Set(["3F000", "42P01", "42703"]);
const MAX_TRIES = 10;

/**
 * The migrator looks at the tables of all schemas, and is refused when another program drops one of
 * its own just then: that says nothing about ours. What is refused ten times is ours.
 */
async function besideOthers(work: () => Promise<void>): Promise<void> {
  for (let tries = 1; ; tries++) {
    try {
      return await work();
    } catch (error) {
      if (tries === MAX_TRIES || !isGone(error)) throw error;
    }
  }
}

function isGone(error: unknown): boolean {
  if (!(error instanceof Error)) return false;
  return ("code" in error && GONE.has(String(error.code))) || isGone(error.cause);
}

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import pg from "pg";
import { describe, inject } from "vitest";
import { openPostgres } from "./postgres.ts";
import type { SqlDatabase } from "./sql-database.ts";
import { openSqlite } from "./sqlite.ts";

/** Opens a fresh, empty database; its `close` also removes it. */
export type OpenDatabase = () => Promise<SqlDatabase>;

/**
 * Runs a suite once per SQL engine. Postgres is skipped, with the reason in the title, where the
 * machine has none.
 */
export function describeEachSqlEngine(title: string, suite: (open: OpenDatabase) => void): void {
  describe(`${title} on SQLite`, () => suite(openTemporarySqlite));
  const postgres = inject("postgres");
  if ("missing" in postgres)
    describe.skip(`${title} on Postgres (skipped: ${postgres.missing})`, () => {});
  else describe(`${title} on Postgres`, () => suite(() => openTemporaryPostgres(postgres.url)));
}

export async function openTemporarySqlite(): Promise<SqlDatabase> {
  const folder = mkdtempSync(join(tmpdir(), "hedgerow-sqlite-"));
  const database = await openSqlite(join(folder, "metadata.sqlite"));
  return {
    ...database,
    close: async () => {
      await database.close();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

let schemas = 0;

async function openTemporaryPostgres(url: string): Promise<SqlDatabase> {
  const schema = `test_${process.pid}_${schemas++}`;
  const admin = new pg.Client({ connectionString: url });
  await admin.connect();
  await admin.query(`create schema ${schema}`);
  const database = await openPostgres(url, schema);
  return {
    ...database,
    close: async () => {
      await database.close();
      await admin.query(`drop schema ${schema} cascade`);
      await admin.end();
    },
  };
}

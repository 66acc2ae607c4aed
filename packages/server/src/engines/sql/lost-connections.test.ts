import { sql } from "kysely";
import pg from "pg";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { StoreUnavailable } from "../../platform/store-unavailable.ts";
import { openPostgres } from "./postgres.ts";
import type { SqlDatabase } from "./sql-database.ts";

const postgres = inject("postgres");
const title = "a Postgres that ends connections";

if ("missing" in postgres) describe.skip(`${title} (skipped: ${postgres.missing})`, () => {});
else {
  const { url } = postgres;
  const schema = `lost_${process.pid}`;
  const admin = new pg.Client({ connectionString: url });
  let database: SqlDatabase;

  beforeAll(async () => {
    await admin.connect();
    await admin.query(`create schema ${schema}`);
    database = await openPostgres(url, schema);
  });
  afterAll(async () => {
    await database.close();
    await admin.query(`drop schema ${schema} cascade`);
    await admin.end();
  });

  const end = (pid: number) => admin.query("select pg_terminate_backend($1, 5000)", [pid]);
  const ownPid = async (connection: Pick<SqlDatabase, "reads">["reads"]) => {
    const { rows } = await sql<{ pid: number }>`select pg_backend_pid() as pid`.execute(connection);
    return rows[0]?.pid ?? 0;
  };
  /** Calls get another connection, once it is known that the lost one is. */
  const goesOn = () => {
    const ask = () => database.reads.selectFrom("organizations").selectAll().execute();
    return expect.poll(() => ask().catch((error: unknown) => error)).toEqual([]);
  };

  describe(title, () => {
    test("[ER-2] leaves the process in order while nothing is asked", async () => {
      await end(await ownPid(database.reads));
      await goesOn();
    });

    test("[ER-2] is out of order for the statement that it ends, and for no other", async () => {
      const ended = database.reads.connection().execute(async (connection) => {
        const pid = await ownPid(connection);
        await Promise.all([sql`select pg_sleep(60)`.execute(connection), end(pid)]);
      });
      await expect(ended).rejects.toBeInstanceOf(StoreUnavailable);
      await goesOn();
    });

    test("[ER-2] is so for a transaction between two of its statements", async () => {
      const ended = database.writes.transaction().execute(async (transaction) => {
        await end(await ownPid(transaction));
        // Whatever is told of the loss has been told by then.
        await admin.query("select pg_sleep(0.1)");
        await sql`select 1`.execute(transaction);
      });
      await expect(ended).rejects.toBeInstanceOf(StoreUnavailable);
      await goesOn();
    });
  });
}

import pg from "pg";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { openPostgres } from "./postgres.ts";

const postgres = inject("postgres");
const title = "a Postgres that other programs use";

if ("missing" in postgres) describe.skip(`${title} (skipped: ${postgres.missing})`, () => {});
else {
  const { url } = postgres;
  const own = `own_${process.pid}`;
  const theirs = `theirs_${process.pid}`;
  const admin = new pg.Client({ connectionString: url });
  const neighbour = new pg.Client({ connectionString: url });

  beforeAll(async () => {
    await Promise.all([admin.connect(), neighbour.connect()]);
  });
  afterAll(async () => {
    await Promise.all([admin.end(), neighbour.end()]);
  });

  describe(title, () => {
    test("opens while one of them makes and drops its tables", async () => {
      const tables = Array.from({ length: 30 }, (_, n) => `create table ${theirs}.t${n} (id int)`);
      let isOver = false;
      const coming = (async () => {
        while (!isOver) {
          await neighbour.query(`create schema ${theirs}; ${tables.join(";")}`);
          await neighbour.query(`drop schema ${theirs} cascade`);
        }
      })();
      try {
        for (let time = 0; time < 20; time++) {
          await admin.query(`create schema ${own}`);
          const database = await openPostgres(url, own);
          const rows = await database.reads.selectFrom("organizations").selectAll().execute();
          expect(rows).toEqual([]);
          await database.close();
          await admin.query(`drop schema ${own} cascade`);
        }
      } finally {
        isOver = true;
        await coming;
      }
    });
  });
}

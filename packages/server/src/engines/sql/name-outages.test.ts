import { sql } from "kysely";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { StoreUnavailable } from "../../platform/store-unavailable.ts";
import { isOutage } from "./name-outages.ts";
import { projectsAndUsers } from "./projects-and-users.setup.ts";
import type { SqlDatabase } from "./sql-database.ts";
import { describeEachSqlEngine, openTemporarySqlite } from "./sql-engines.contract.ts";

describeEachSqlEngine("[ER-2] a database that is out of order", (open) => {
  let database: SqlDatabase;
  beforeAll(async () => {
    database = await open();
  });
  afterAll(() => database.close());

  test("is no mistake of a statement", async () => {
    const mistake = sql`select * from nowhere`.execute(database.writes);
    await expect(mistake).rejects.not.toBeInstanceOf(StoreUnavailable);
    await expect(mistake).rejects.toThrow("nowhere");
  });
});

describe("an outage", () => {
  test("[ER-2] of a full disk is named, leaves nothing half done, and ends with its cause", async () => {
    const database = await openTemporarySqlite();
    const { newProject } = await projectsAndUsers(database);
    const organizations = () => database.reads.selectFrom("organizations").selectAll().execute();
    const before = await organizations();
    const { rows } = await sql<{ page_count: number }>`pragma page_count`.execute(database.writes);
    const pages = rows[0]?.page_count ?? 0;
    await sql.raw(`pragma max_page_count = ${pages}`).execute(database.writes);

    const fill = async () => {
      for (let n = 0; n < 1000; n++) await newProject();
    };
    const failure = await fill().catch((error: unknown) => error);
    expect(failure).toBeInstanceOf(StoreUnavailable);
    expect((failure as Error).cause).toMatchObject({ code: "SQLITE_FULL" });
    const inTransaction = database.writes.transaction().execute(async (transaction) => {
      await transaction.updateTable("organizations").set({ name: "half" }).execute();
      const text = "x".repeat(1_000_000);
      await transaction.updateTable("organizations").set({ slug: text }).execute();
    });
    await expect(inTransaction).rejects.toBeInstanceOf(StoreUnavailable);
    expect(await organizations()).toEqual(before);

    await sql.raw(`pragma max_page_count = ${pages + 1000}`).execute(database.writes);
    expect(await newProject()).toBeGreaterThan(0);
    await database.close();
  });

  test.each([
    ["SQLITE_FULL", true],
    ["SQLITE_IOERR_WRITE", true],
    ["SQLITE_READONLY", true],
    ["SQLITE_BUSY", true],
    ["SQLITE_CONSTRAINT_UNIQUE", false],
    ["SQLITE_ERROR", false],
    ["53100", true],
    ["25006", true],
    ["57P01", true],
    ["08006", true],
    ["23505", false],
    ["57014", false],
    ["ECONNREFUSED", true],
  ])("[ER-2] with the code %s: %s", (code, expected) => {
    expect(isOutage(Object.assign(new Error("x"), { code }))).toBe(expected);
  });
});

import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { readFile } from "node:fs/promises";
import { createConnection } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { sql } from "kysely";
import Database from "libsql";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { StoreUnavailable } from "../../platform/store-unavailable.ts";
import { isOutage } from "./name-outages.ts";
import { projectsAndUsers } from "./projects-and-users.setup.ts";
import type { SqlDatabase } from "./sql-database.ts";
import { describeEachSqlEngine, openTemporarySqlite } from "./sql-engines.contract.ts";
import { openSqlite } from "./sqlite.ts";

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

  test("[ER-2] of a locked file ends with the lock, whatever statement met it", async () => {
    const folder = mkdtempSync(join(tmpdir(), "hedgerow-locked-"));
    const path = join(folder, "metadata.sqlite");
    const database = await openSqlite(path, { maxLockedMs: 20 });
    const { newProject } = await projectsAndUsers(database);
    const project = await newProject();
    const other = new Database(path);
    const setPosition = (name: string, position: number) =>
      database.writes
        .insertInto("consumer_positions")
        .values({ name, position })
        .onConflict((conflict) => conflict.column("name").doUpdateSet({ position }))
        .execute();
    const rename = (name: string) =>
      database.writes
        .updateTable("projects")
        .set({ name })
        .where("id", "=", project)
        .returning("name")
        .execute();
    const inTransaction = (position: number) =>
      database.writes.transaction().execute(async (transaction) => {
        await transaction.selectFrom("consumer_positions").selectAll().execute();
        await transaction.updateTable("consumer_positions").set({ position }).execute();
      });
    // Too long to be kept prepared.
    const long = sql`delete from projects where name = ${sql.lit("x".repeat(5000))}`;

    other.exec("begin immediate");
    for (const change of [
      () => setPosition("locked", 1),
      () => rename("locked"),
      () => inTransaction(2),
      () => long.execute(database.writes),
    ]) {
      const failure = await change().catch((error: unknown) => error);
      expect(failure).toBeInstanceOf(StoreUnavailable);
      expect((failure as Error).cause).toMatchObject({ code: "SQLITE_BUSY" });
    }
    other.exec("rollback");

    await database.writes.transaction().execute(async (transaction) => {
      const position = { name: "free", position: 3 };
      await transaction.insertInto("consumer_positions").values(position).execute();
    });
    const positions = database.reads.selectFrom("consumer_positions").selectAll();
    expect(await positions.execute()).toEqual([{ name: "free", position: 3 }]);
    expect(await rename("free")).toEqual([{ name: "free" }]);
    await inTransaction(4);
    expect(await positions.execute()).toEqual([{ name: "free", position: 4 }]);
    other.close();
    await database.close();
    rmSync(folder, { recursive: true, force: true });
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

  test("[ER-2] of a server whose socket is away is one, and a missing file is none", async () => {
    const missing = join(tmpdir(), `hedgerow-missing-${process.pid}`);
    const [away] = await once(createConnection(missing), "error");
    expect(isOutage(away)).toBe(true);
    expect(isOutage(await readFile(missing).catch((error: unknown) => error))).toBe(false);
  });

  test.each([
    ["Connection terminated unexpectedly", true],
    ["Client has encountered a connection error and is not queryable", true],
    ["there is no such thing", false],
  ])("[ER-2] without a code: %s: %s", (message, expected) => {
    expect(isOutage(new Error(message))).toBe(expected);
  });
});

import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as delay } from "node:timers/promises";
import { sql } from "kysely";
import Database from "libsql";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import { StoreUnavailable } from "../../platform/store-unavailable.ts";
import type { SqlDatabase } from "./sql-database.ts";
import { openSqlite } from "./sqlite.ts";

describe("a file that another process has locked", () => {
  let folder: string;
  let database: SqlDatabase;
  let other: Database.Database;
  /** Time as the driver tells it, which passes in its pauses alone. */
  let nowMs: number;
  let pauses: number;
  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), "hedgerow-locks-"));
    nowMs = 0;
    pauses = 0;
    database = await openSqlite(join(folder, "metadata.sqlite"), {
      maxLockedMs: 1000,
      nowMs: () => nowMs,
      pause: async (ms) => {
        nowMs += ms;
        pauses++;
        await delay(1);
      },
    });
    other = new Database(join(folder, "metadata.sqlite"));
  });
  afterEach(async () => {
    other.close();
    await database.close();
    rmSync(folder, { recursive: true, force: true });
  });

  const write = (name: string, position = 1) =>
    database.writes.insertInto("consumer_positions").values({ name, position }).execute();
  const names = async () => {
    const rows = await database.reads.selectFrom("consumer_positions").select("name").execute();
    return rows.map(({ name }) => name);
  };
  const failureOf = (work: Promise<unknown>) =>
    work.then(
      () => undefined,
      (error: unknown) => error,
    );

  it("[ER-7] is waited for by what writes, while all else goes on, reads included", async () => {
    other.exec("begin immediate");
    const writing = write("late");
    await delay(20);
    expect(await names()).toEqual([]);
    other.exec("rollback");
    await writing;
    expect(await names()).toEqual(["late"]);
    expect(pauses).toBeGreaterThan(1);
  });

  it("[ER-7] lets a transaction that has begun go on whole, and those behind it come after it", async () => {
    const order: string[] = [];
    other.exec("begin immediate");
    const whole = database.writes.transaction().execute(async (transaction) => {
      await transaction.selectFrom("consumer_positions").selectAll().execute();
      await transaction
        .insertInto("consumer_positions")
        .values({ name: "a", position: 1 })
        .execute();
      await delay(5);
      await transaction
        .insertInto("consumer_positions")
        .values({ name: "b", position: 1 })
        .execute();
      order.push("whole");
    });
    const replayable = database.replayable(async (transaction) => {
      await transaction
        .insertInto("consumer_positions")
        .values({ name: "c", position: 1 })
        .execute();
      order.push("replayable");
    });
    const alone = write("d").then(() => order.push("alone"));
    await delay(20);
    expect(order).toEqual([]);
    other.exec("rollback");
    await Promise.all([whole, replayable, alone]);
    expect(order).toEqual(["whole", "replayable", "alone"]);
    expect(await names()).toEqual(["a", "b", "c", "d"]);
    const { rows } = await sql<{ synchronous: number }>`pragma synchronous`.execute(
      database.writes,
    );
    expect(rows).toEqual([{ synchronous: 2 }]);
  });

  it("[ER-7] fails statements once it was locked for too long, those behind at once, and none when it is free", async () => {
    other.exec("begin immediate");
    const outcomes = await Promise.all(["a", "b", "c"].map((name) => failureOf(write(name))));
    for (const outcome of outcomes) expect(outcome).toBeInstanceOf(StoreUnavailable);
    expect(nowMs).toBeLessThan(1100);
    const before = pauses;
    expect(await failureOf(write("d"))).toBeInstanceOf(StoreUnavailable);
    expect(pauses).toBe(before);
    other.exec("rollback");
    await write("e");
    expect(await names()).toEqual(["e"]);
    // Another lock, much later, is waited for again.
    nowMs += 60_000;
    other.exec("begin immediate");
    const writing = write("f");
    await delay(20);
    other.exec("rollback");
    await writing;
    expect(await names()).toEqual(["e", "f"]);
  });

  it("[ER-7] is waited for each time, however often it is locked for a while", async () => {
    for (const name of ["a", "b", "c", "d", "e", "f"]) {
      other.exec("begin immediate");
      const writing = write(name);
      await delay(10);
      nowMs += 300;
      other.exec("rollback");
      await writing;
    }
    // Also after one that lasted too long, as soon as something was written.
    other.exec("begin immediate");
    expect(await failureOf(write("g"))).toBeInstanceOf(StoreUnavailable);
    other.exec("rollback");
    await write("h");
    other.exec("begin immediate");
    const writing = write("i");
    await delay(10);
    other.exec("rollback");
    await writing;
    expect(await names()).toEqual(["a", "b", "c", "d", "e", "f", "h", "i"]);
  });

  it("[ER-7] is not waited for by a transaction that has read what was changed meanwhile", async () => {
    const failed = failureOf(
      database.writes.transaction().execute(async (transaction) => {
        await transaction.selectFrom("consumer_positions").selectAll().execute();
        other.exec("insert into consumer_positions (name, position) values ('other', 1)");
        await transaction
          .insertInto("consumer_positions")
          .values({ name: "a", position: 1 })
          .execute();
      }),
    );
    expect(await failed).toBeInstanceOf(StoreUnavailable);
    expect(pauses).toBe(0);
    await write("b");
    expect(await names()).toEqual(["b", "other"]);
  });
});

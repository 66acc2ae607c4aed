import { copyFileSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { sql } from "kysely";
import Database from "libsql";
import { afterEach, beforeEach, describe, expect, it } from "vitest";
import type { SqlDatabase } from "./sql-database.ts";
import { openSqlite } from "./sqlite.ts";

describe("commits that can be done again", () => {
  let folder: string;
  let database: SqlDatabase;
  beforeEach(async () => {
    folder = mkdtempSync(join(tmpdir(), "hedgerow-sqlite-"));
    database = await openSqlite(join(folder, "metadata.sqlite"));
  });
  afterEach(async () => {
    await database.close();
    rmSync(folder, { recursive: true, force: true });
  });

  const NORMAL = 1;
  const FULL = 2;
  async function synchronous(connection: Pick<SqlDatabase["writes"], "getExecutor">) {
    const { rows } = await sql<{ synchronous: number }>`pragma synchronous`.execute(connection);
    return rows[0]?.synchronous;
  }
  const move = (position: number) =>
    database.replayable(async (transaction) => {
      await transaction
        .insertInto("consumer_positions")
        .values({ name: "test", position })
        .onConflict((conflict) => conflict.column("name").doUpdateSet({ position }))
        .execute();
      return synchronous(transaction);
    });
  const positions = () => database.reads.selectFrom("consumer_positions").selectAll().execute();

  it("[PI-66] do not wait for the disk; all others do, also after one that failed", async () => {
    expect(await move(1)).toBe(NORMAL);
    expect(await positions()).toEqual([{ name: "test", position: 1 }]);
    expect(await synchronous(database.writes)).toBe(FULL);
    const failing = database.replayable(async (transaction) => {
      await transaction.deleteFrom("consumer_positions").execute();
      throw new Error("no");
    });
    await expect(failing).rejects.toThrow("no");
    expect(await positions()).toEqual([{ name: "test", position: 1 }]);
    expect(await synchronous(database.writes)).toBe(FULL);
  });

  it("[PI-66] are in the database file itself after a flush", async () => {
    for (const position of [1, 2, 3]) {
      await move(position);
      await database.flush();
      // The file alone, as it would be read without its log.
      const copy = join(folder, `copy-${position}.sqlite`);
      copyFileSync(join(folder, "metadata.sqlite"), copy);
      const read = new Database(copy, { readonly: true });
      expect(read.prepare("select position from consumer_positions").all()).toMatchObject([
        { position },
      ]);
      read.close();
    }
    await Promise.all([database.flush(), database.flush(), move(4), database.flush()]);
  });
});

describe("an upgrade", () => {
  let folder: string;
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "hedgerow-upgrade-"));
  });
  afterEach(() => rmSync(folder, { recursive: true, force: true }));

  it.each(["personal_keys", "transformation_versions"])(
    "[ER-5] that ends at any place, here before %s, leaves nothing half done: the next one goes on",
    async (table) => {
      const path = join(folder, "metadata.sqlite");
      const change = (text: string) => {
        const file = new Database(path);
        file.exec(text);
        file.close();
      };
      change(`create table ${table} (in_the_way)`);
      await expect(openSqlite(path)).rejects.toThrow("could not be brought up to date");
      change(`drop table ${table}`);
      const database = await openSqlite(path);
      expect(await database.reads.selectFrom("organizations").selectAll().execute()).toEqual([]);
      await database.close();
    },
  );
});

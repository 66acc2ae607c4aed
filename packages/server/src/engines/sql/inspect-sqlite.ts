import Database from "libsql";
import { MIGRATION_NAMES } from "./migrate.ts";

export interface SqliteState {
  /** What `pragma integrity_check` complains about; empty for a sound file. */
  readonly damage: readonly string[];
  /** Steps of the schema that are still to be taken; the next start takes them. */
  readonly pending: readonly string[];
  /** Steps that this version does not know: the file was used by a newer one. */
  readonly unknown: readonly string[];
}

/** Looks into an existing metadata file without changing it; works beside a running service. */
export function inspectSqlite(file: string): SqliteState {
  const connection = new Database(file);
  try {
    connection.exec("pragma query_only = on");
    connection.exec("pragma busy_timeout = 5000");
    const damage = damageOf(connection);
    const done = migrationsIn(connection);
    return {
      damage,
      pending: MIGRATION_NAMES.filter((name) => !done.includes(name)),
      unknown: done.filter((name) => !MIGRATION_NAMES.includes(name)),
    };
  } finally {
    connection.close();
  }
}

/** What is wrong with any SQLite file, in words; empty for a sound one. */
export function sqliteDamage(file: string): readonly string[] {
  const connection = new Database(file);
  try {
    connection.exec("pragma query_only = on");
    return damageOf(connection);
  } finally {
    connection.close();
  }
}

function damageOf(connection: Database.Database): string[] {
  const rows = connection.prepare("pragma integrity_check").all() as {
    integrity_check: string;
  }[];
  return rows.map((row) => row.integrity_check).filter((text) => text !== "ok");
}

function migrationsIn(connection: Database.Database): string[] {
  const tables = connection
    .prepare("select name from sqlite_master where name = 'kysely_migration'")
    .all();
  if (tables.length === 0) return [];
  const rows = connection.prepare("select name from kysely_migration order by name").all() as {
    name: string;
  }[];
  return rows.map((row) => row.name);
}

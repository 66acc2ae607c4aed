import type { Migration } from "kysely";
import type { SqlCapabilities } from "./sql-database.ts";

/** A migration, written once for every engine. */
export type SqlMigration = (capabilities: SqlCapabilities) => Migration;

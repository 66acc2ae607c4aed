import type { ColumnDefinitionBuilder, Kysely, Transaction } from "kysely";
import type { Schema } from "./schema.ts";

/**
 * A metadata database on some SQL engine. Stores are written once against it; what engines do
 * differently is a named capability here, never a question of which engine it is.
 */
export interface SqlDatabase {
  /** The connection that writes; transactions go here. */
  readonly writes: Kysely<Schema>;
  /** Reads that must not queue behind a running write transaction; they see every finished commit. */
  readonly reads: Kysely<Schema>;
  /**
   * Reads without a promise, each seeing every finished commit, where the engine can do that within
   * microseconds; `null` elsewhere.
   */
  readonly readAtOnce: ReadAtOnce | null;
  readonly capabilities: SqlCapabilities;
  readonly membershipChanges: MembershipChanges;
  /**
   * A transaction for work that can be done again from a durable source. It need not wait for the
   * disk: while the process dying loses nothing, the machine dying may lose it, together with
   * whatever was committed in this way after it, unless `flush` or any other commit came later.
   */
  replayable<Result>(work: (transaction: Transaction<Schema>) => Promise<Result>): Promise<Result>;
  /** Resolves once everything committed before the call survives whatever happens to the machine. */
  flush(): Promise<void>;
  close(): Promise<void>;
}

/** Runs statements that were compiled for this database. Throws what the engine throws. */
export interface ReadAtOnce {
  /** The first row alone, which is quicker. */
  row(text: string, parameters: readonly unknown[]): unknown;
  rows(text: string, parameters: readonly unknown[]): readonly unknown[];
}

/**
 * Counts the changes of who is in which cohort, but for those that come with changes of persons:
 * equal before and after a read, nobody's memberships changed meanwhile. Whoever writes memberships
 * counts between its commit and its answer.
 */
export interface MembershipChanges {
  count: number;
}

export interface SqlCapabilities {
  /** Turns an integer primary key into one that the database numbers, never reusing a number. */
  readonly identity: (column: ColumnDefinitionBuilder) => ColumnDefinitionBuilder;
  /** True when a failed insert broke a uniqueness rule of the given table columns. */
  readonly isUniqueViolation: (error: unknown) => boolean;
  /** True when no other process writes while this one is open, so that what was read may be remembered. */
  readonly isExclusive: boolean;
}

import { type Compilable, CompiledQuery, type RawBuilder, sql, type Transaction } from "kysely";
import type { Schema } from "./schema.ts";

/** Stands in a statement for the values of a row that are given at each call. */
export type RowBinds<Column extends string> = Readonly<Record<Column, RawBuilder<never>>>;

/** Runs a prepared statement with its rows, of which there must be one at least. */
export type RunWithRows<Column extends string, Result> = (
  transaction: Transaction<Schema>,
  rows: readonly Readonly<Record<Column, string | number>>[],
) => Promise<readonly Result[]>;

/**
 * A statement about a number of rows, whose SQL is built once for each number: building it for
 * dozens of rows costs more than running it. `build` writes the binds where values belong; it is
 * called with the first transaction, and is good for all of the same database.
 */
export function prepareRows<Column extends string, Result = unknown>(
  columns: readonly Column[],
  build: (
    transaction: Transaction<Schema>,
    rows: readonly [RowBinds<Column>, ...RowBinds<Column>[]],
  ) => Compilable<Result>,
): RunWithRows<Column, Result> {
  const statements = new Map<number, CompiledQuery>();

  function statementFor(transaction: Transaction<Schema>, count: number): CompiledQuery {
    const known = statements.get(count);
    if (known) return known;
    const bindsOf = (row: number) =>
      Object.fromEntries(
        columns.map((column) => [column, sql`${new Placeholder(row, column)}`]),
      ) as RowBinds<Column>;
    const others = Array.from({ length: count - 1 }, (_, index) => bindsOf(index + 1));
    const statement = build(transaction, [bindsOf(0), ...others]).compile();
    statements.set(count, statement);
    return statement;
  }

  return async (transaction, rows) => {
    const statement = statementFor(transaction, rows.length);
    const parameters = statement.parameters.map((parameter) =>
      parameter instanceof Placeholder
        ? rows[parameter.row]?.[parameter.column as Column]
        : parameter,
    );
    const query = CompiledQuery.raw(statement.sql, parameters);
    return (await transaction.executeQuery<Result>(query)).rows;
  };
}

class Placeholder {
  readonly row: number;
  readonly column: string;
  constructor(row: number, column: string) {
    this.row = row;
    this.column = column;
  }
}

import { CompiledQuery, type Kysely, type RawBuilder, sql } from "kysely";
import type { Schema } from "./schema.ts";
import type { ReadAtOnce } from "./sql-database.ts";

/** Stands in a query for a value that is given at each call. */
export type Bind = (name: string) => RawBuilder<never>;

/** Builds a query, with `bind(name)` where a value of the call belongs. */
type Build<Row> = (bind: Bind) => {
  compile(database: Kysely<Schema>): CompiledQuery<Row>;
};

/** What is given at each call, by name. */
type Values = Readonly<Record<string, string | number>>;

/**
 * A query whose SQL is built once and only bound at each call: building one costs more than a point
 * look-up runs.
 */
export function prepareQuery<Row>(
  database: Kysely<Schema>,
  build: Build<Row>,
): (values: Values) => Promise<readonly Row[]> {
  const { text, bind } = compileOnce(database, build);
  return async (values) => {
    const { rows } = await database.executeQuery<Row>(CompiledQuery.raw(text, bind(values)));
    return rows;
  };
}

/** The same for a database that reads at once: what costs most of a point look-up is waiting for it. */
export function prepareReadAtOnce<Row>(
  { reads, readAtOnce }: { readonly reads: Kysely<Schema>; readonly readAtOnce: ReadAtOnce },
  build: Build<Row>,
): {
  readonly row: (values: Values) => Row | undefined;
  readonly rows: (values: Values) => readonly Row[];
} {
  const { text, bind } = compileOnce(reads, build);
  return {
    row: (values) => readAtOnce.row(text, bind(values)) as Row | undefined,
    rows: (values) => readAtOnce.rows(text, bind(values)) as readonly Row[],
  };
}

function compileOnce<Row>(
  database: Kysely<Schema>,
  build: Build<Row>,
): { readonly text: string; readonly bind: (values: Values) => unknown[] } {
  const compiled = build((name) => sql`${new Placeholder(name)}`).compile(database);
  const parameters = compiled.parameters.map((parameter) =>
    parameter instanceof Placeholder ? parameter : { value: parameter },
  );
  return {
    text: compiled.sql,
    bind: (values) =>
      parameters.map((parameter) =>
        parameter instanceof Placeholder ? values[parameter.name] : parameter.value,
      ),
  };
}

class Placeholder {
  readonly name: string;
  constructor(name: string) {
    this.name = name;
  }
}

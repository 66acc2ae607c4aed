import { CompiledQuery, type Kysely, type RawBuilder, sql } from "kysely";
import type { Schema } from "./schema.ts";

/** Stands in a query for a value that is given at each call. */
export type Bind = (name: string) => RawBuilder<never>;

/**
 * A query whose SQL is built once and only bound at each call: building one costs more than a point
 * look-up runs. `build` writes `bind(name)` where a value of the call belongs.
 */
export function prepareQuery<Row>(
  database: Kysely<Schema>,
  build: (bind: Bind) => { compile(database: Kysely<Schema>): CompiledQuery<Row> },
): (values: Readonly<Record<string, string | number>>) => Promise<readonly Row[]> {
  const compiled = build((name) => sql`${new Placeholder(name)}`).compile(database);
  const parameters = compiled.parameters.map((parameter) =>
    parameter instanceof Placeholder ? parameter : { value: parameter },
  );
  return async (values) => {
    const bound = parameters.map((parameter) =>
      parameter instanceof Placeholder ? values[parameter.name] : parameter.value,
    );
    const { rows } = await database.executeQuery<Row>(CompiledQuery.raw(compiled.sql, bound));
    return rows;
  };
}

class Placeholder {
  readonly name: string;
  constructor(name: string) {
    this.name = name;
  }
}

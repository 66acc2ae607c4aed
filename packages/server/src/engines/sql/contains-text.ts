import { type Expression, type SqlBool, sql } from "kysely";

/**
 * Whether a text column contains a text, whatever the case; `%` and `_` mean themselves. SQLite
 * folds the case of ASCII letters only.
 */
export function containsText(column: Expression<string>, text: string): Expression<SqlBool> {
  const pattern = `%${text.toLowerCase().replace(/[\\%_]/g, "\\$&")}%`;
  return sql<SqlBool>`lower(${column}) like ${pattern} escape '\\'`;
}

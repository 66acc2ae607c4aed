import { type Expression, type SqlBool, sql } from "kysely";

/**
 * Whether a text column contains a text, whatever the case; `%` and `_` mean themselves. SQLite
 * folds the case of ASCII letters only: others are found as they are written.
 */
export function containsText(column: Expression<string>, text: string): Expression<SqlBool> {
  const pattern = `%${text.replace(/[\\%_]/g, "\\$&")}%`;
  return sql<SqlBool>`lower(${column}) like lower(${pattern}) escape '\\'`;
}

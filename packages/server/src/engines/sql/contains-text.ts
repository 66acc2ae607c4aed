import { type AliasableExpression, type Expression, type SqlBool, sql } from "kysely";

/**
 * Whether a text column contains a text, whatever the case; `%` and `_` mean themselves. SQLite
 * folds the case of ASCII letters only: others are found as they are written.
 */
export function containsText(column: Expression<string>, text: string): Expression<SqlBool> {
  return sql<SqlBool>`lower(${column}) like lower(${patternOf(text)}) escape '\\'`;
}

/** Whether a text column contains a text as it is written; SQLite folds the case of ASCII letters. */
export function likeText(column: Expression<string>, text: string): Expression<SqlBool> {
  return sql<SqlBool>`${column} like ${patternOf(text)} escape '\\'`;
}

/** How long a text is, told without reading it. */
export function bytesOf(column: Expression<string>): AliasableExpression<number> {
  return sql<number>`octet_length(${column})`;
}

function patternOf(text: string): string {
  return `%${text.replace(/[\\%_]/g, "\\$&")}%`;
}

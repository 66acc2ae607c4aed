import { cleanText } from "@hedgerow/core/events/clean-json";
import { type Expression, type SqlBool, sql } from "kysely";
import type { PersonMark, PersonQuery } from "../../persons/person-records.ts";
import { containsText, likeText } from "./contains-text.ts";

/** A condition on a person `p`. */
export type Condition = Expression<SqlBool>;

/** Behind a place of a list, newest first; everywhere without one. */
export function isAfter(mark: PersonMark | undefined): Condition {
  return sql<SqlBool>`(p.created_at, p.id) < (${mark?.createdAtMs}, ${mark?.id})`;
}

/** At a place of a list or before it. */
export function isUpTo({ createdAtMs, id }: PersonMark): Condition {
  return sql<SqlBool>`(p.created_at, p.id) >= (${createdAtMs}, ${id})`;
}

/** Conditions in SQL that rule out nobody who matches. */
export function conditionsOf(
  query: Pick<
    PersonQuery,
    "projectId" | "uuids" | "distinctId" | "email" | "memberOf" | "condition"
  > & {
    readonly search: string | undefined;
  },
  named: ReadonlySet<number>,
): readonly Condition[] {
  const conditions: Condition[] = [];
  const { projectId, uuids, distinctId, email, search, memberOf, condition } = query;
  if (uuids !== undefined) {
    conditions.push(
      uuids.length === 0
        ? sql<SqlBool>`1 = 0`
        : sql<SqlBool>`p.uuid in (${sql.join(uuids.map((uuid) => sql`${uuid}`))})`,
    );
  }
  if (distinctId !== undefined) {
    conditions.push(sql<SqlBool>`p.id in (
      select person_id from person_distinct_ids
      where project_id = ${projectId} and distinct_id = ${cleanText(distinctId)})`);
  }
  if (memberOf !== undefined) {
    conditions.push(sql<SqlBool>`exists (
      select 1 from cohort_members m where m.cohort_id = ${memberOf} and m.person_id = p.id)`);
  }
  if (email !== undefined) {
    conditions.push(likeText(PROPERTIES, `"email":${JSON.stringify(cleanText(email))}`));
  }
  if (search !== undefined) {
    // Of other letters only code knows which is the small form of which.
    const maySayName = /^[\0-\x7f]*$/.test(search)
      ? containsText(PROPERTIES, JSON.stringify(search).slice(1, -1))
      : sql<SqlBool>`1 = 1`;
    const isNamed =
      named.size > 0 ? sql<SqlBool>`p.id in (${sql.join([...named])})` : sql<SqlBool>`1 = 0`;
    conditions.push(sql<SqlBool>`(${isNamed} or ${maySayName})`);
  }
  for (const name of condition?.requiredNames ?? []) conditions.push(hasProperty(name));
  return conditions;
}

export const PROPERTIES = sql.ref<string>("p.properties");

/** Whether stored properties may have a name: texts are written by `encodeJson`, so in this spelling. */
export function hasProperty(name: string): Condition {
  return likeText(PROPERTIES, `${JSON.stringify(cleanText(name))}:`);
}

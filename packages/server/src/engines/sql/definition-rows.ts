import { type Expression, type ExpressionBuilder, type SqlBool, sql } from "kysely";
import type {
  DefinitionAuthorship,
  EventDefinition,
} from "../../event-definitions/event-definition-store.ts";
import {
  decodeBoolean,
  decodeInstant,
  decodeJson,
  encodeBoolean,
  encodeInstant,
  encodeJson,
} from "./codec.ts";
import { containsText } from "./contains-text.ts";
import type { Schema } from "./schema.ts";

type Table = "event_definitions" | "property_definitions";

/** What definitions of events and of properties have in common. */
type Common = Pick<
  EventDefinition,
  | "id"
  | "projectId"
  | "name"
  | "description"
  | "createdAt"
  | "updatedAt"
  | "updatedById"
  | "verified"
  | "verifiedAt"
  | "verifiedById"
  | "hidden"
  | "tags"
>;

/** Columns of a definition that nobody has touched yet. */
export const UNTOUCHED = {
  description: null,
  tags: encodeJson([]),
  updated_at: null,
  updated_by: null,
  verified: encodeBoolean(false),
  verified_at: null,
  verified_by: null,
  hidden: encodeBoolean(false),
} as const;

/** The common columns of the given fields. */
export function encodeCommon(change: Partial<Common>) {
  const { description, verified, verifiedAt, verifiedById, hidden, tags } = change;
  return {
    ...(description === undefined ? {} : { description }),
    ...(verified === undefined ? {} : { verified: encodeBoolean(verified) }),
    ...(verifiedAt === undefined ? {} : { verified_at: encodeInstantOrNull(verifiedAt) }),
    ...(verifiedById === undefined ? {} : { verified_by: verifiedById }),
    ...(hidden === undefined ? {} : { hidden: encodeBoolean(hidden) }),
    ...(tags === undefined ? {} : { tags: encodeJson(tags) }),
  };
}

/** Columns that say who changed a definition, and when. */
export function encodeAuthorship({ authorId, now }: DefinitionAuthorship) {
  return { updated_at: encodeInstant(now), updated_by: authorId };
}

/** The common fields of a row. */
export function decodeCommon(row: {
  readonly uuid: string;
  readonly project_id: number;
  readonly name: string;
  readonly description: string | null;
  readonly tags: string;
  readonly created_at: number;
  readonly updated_at: number | null;
  readonly updated_by: number | null;
  readonly verified: number;
  readonly verified_at: number | null;
  readonly verified_by: number | null;
  readonly hidden: number;
}): Common {
  return {
    id: row.uuid,
    projectId: row.project_id,
    name: row.name,
    description: row.description,
    createdAt: decodeInstant(row.created_at),
    updatedAt: decodeInstantOrNull(row.updated_at),
    updatedById: row.updated_by,
    verified: decodeBoolean(row.verified),
    verifiedAt: decodeInstantOrNull(row.verified_at),
    verifiedById: row.verified_by,
    hidden: decodeBoolean(row.hidden),
    tags: decodeJson<string[]>(row.tags),
  };
}

export function encodeInstantOrNull(value: Date | null): number | null {
  return value === null ? null : encodeInstant(value);
}

export function decodeInstantOrNull(value: number | null): Date | null {
  return value === null ? null : decodeInstant(value);
}

/** Conditions that lists of both kinds know. */
export function commonConditions(
  eb: ExpressionBuilder<Schema, Table>,
  projectId: number,
  query: {
    readonly words: readonly string[];
    readonly excludedNames: readonly string[];
    readonly excludeHidden: boolean;
    readonly verified: boolean | null;
    readonly tags: readonly string[] | null;
  },
): Expression<SqlBool>[] {
  const conditions: Expression<SqlBool>[] = [eb("project_id", "=", projectId)];
  for (const word of query.words) conditions.push(containsText(eb.ref("name"), word));
  if (query.excludedNames.length > 0) {
    conditions.push(eb("name", "not in", [...query.excludedNames]));
  }
  if (query.excludeHidden) conditions.push(eb("hidden", "=", encodeBoolean(false)));
  if (query.verified !== null) conditions.push(eb("verified", "=", encodeBoolean(query.verified)));
  if (query.tags !== null) {
    // A list of texts in JSON holds a text exactly where it holds the text's own JSON.
    conditions.push(eb.or(query.tags.map((tag) => containsText(eb.ref("tags"), encodeJson(tag)))));
  }
  return conditions;
}

/** Whether a name begins in a given way. */
export function beginsWith(column: Expression<string>, text: string): Expression<SqlBool> {
  return sql<SqlBool>`substr(${column}, 1, ${text.length}) = ${text}`;
}

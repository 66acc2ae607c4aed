import {
  type Expression,
  type ExpressionBuilder,
  type Selectable,
  type SqlBool,
  sql,
  type UpdateObject,
} from "kysely";
import type {
  Definition,
  DefinitionWrite,
} from "../../event-definitions/event-definition-store.ts";
import { keepActivity } from "./activity-log.ts";
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
import type { SqlDatabase } from "./sql-database.ts";

type Table = "event_definitions" | "property_definitions";

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
export function encodeCommon(change: Partial<Definition>) {
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
}): Definition {
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

function encodeInstantOrNull(value: Date | null): number | null {
  return value === null ? null : encodeInstant(value);
}

export function decodeInstantOrNull(value: number | null): Date | null {
  return value === null ? null : decodeInstant(value);
}

/** What lists of both kinds can ask for. */
interface CommonQuery {
  readonly words: readonly string[];
  readonly excludedNames: readonly string[];
  readonly excludeHidden: boolean;
  readonly verified: boolean | null;
  readonly tags: readonly string[] | null;
  readonly limit: number;
  readonly offset: number;
}

/** Rows of one kind of definitions: whatever does not depend on the kind is done here. */
export function createDefinitionRows<Name extends Table, Kind extends Definition>(
  { reads, writes }: Pick<SqlDatabase, "reads" | "writes">,
  { table, decode }: { table: Name; decode: (row: Selectable<Schema[Name]>) => Kind },
) {
  // Both tables have the columns that are used here, with the same types; the compiler looks at one.
  const common = table as "event_definitions";
  const decodeRow = decode as (row: object) => Kind;

  /** The definition with a value in a column that is unique within the project. */
  async function find(
    projectId: number,
    column: "uuid" | "name",
    value: string,
    from: Pick<typeof reads, "selectFrom"> = reads,
  ): Promise<Kind | undefined> {
    const row = await from
      .selectFrom(common)
      .selectAll()
      .where("project_id", "=", projectId)
      .where(column, "=", value)
      .executeTakeFirst();
    return row && decodeRow(row);
  }

  return {
    find,

    /** A new row; rejects with the driver's error where its name is taken. */
    create(
      row: Omit<Schema[Name], "id">,
      projectId: number,
      { authorId, now, describe }: DefinitionWrite<Kind>,
    ): Promise<Kind> {
      return writes.transaction().execute(async (transaction) => {
        const created = await transaction
          .insertInto(common)
          .values(row as unknown as Omit<Schema["event_definitions"], "id">)
          .returningAll()
          .executeTakeFirstOrThrow();
        const definition = decodeRow(created);
        const draft = describe?.(null, definition);
        await keepActivity(transaction, draft, { projectId, authorId, now });
        return definition;
      });
    },

    /** Sets columns; `undefined` when the project has no such definition. */
    update(
      projectId: number,
      id: string,
      columns: UpdateObject<Schema, Name, Name>,
      { authorId, now, describe }: DefinitionWrite<Kind>,
    ): Promise<Kind | undefined> {
      return writes.transaction().execute(async (transaction) => {
        const before = await find(projectId, "uuid", id, transaction);
        if (!before) return undefined;
        const changed = await transaction
          .updateTable(common)
          .set({
            ...(columns as object),
            updated_at: encodeInstant(now),
            updated_by: authorId,
          })
          .where("project_id", "=", projectId)
          .where("uuid", "=", id)
          .returningAll()
          .executeTakeFirst();
        if (!changed) return undefined;
        const after = decodeRow(changed);
        await keepActivity(transaction, describe?.(before, after), { projectId, authorId, now });
        return after;
      });
    },

    /** False when the project has no such definition. */
    delete(
      projectId: number,
      id: string,
      { authorId, now, describe }: DefinitionWrite<Kind>,
    ): Promise<boolean> {
      return writes.transaction().execute(async (transaction) => {
        const deleted = await transaction
          .deleteFrom(common)
          .where("project_id", "=", projectId)
          .where("uuid", "=", id)
          .returningAll()
          .executeTakeFirst();
        if (!deleted) return false;
        const draft = describe?.(decodeRow(deleted), null);
        await keepActivity(transaction, draft, { projectId, authorId, now });
        return true;
      });
    },

    /**
     * One page of those that fulfil the conditions of a query, and how many do.
     * @param conditions those that only this kind knows
     * @param marked rows that fulfil this come first, and are told apart
     * @param order what decides among the others; equals come by name
     */
    async list(
      projectId: number,
      query: CommonQuery,
      {
        conditions,
        marked = sql<SqlBool>`1 = 0`,
        order = [],
      }: {
        conditions: (eb: ExpressionBuilder<Schema, Name>) => readonly Expression<SqlBool>[];
        marked?: Expression<SqlBool>;
        order?: readonly { readonly by: Expression<unknown>; readonly descending: boolean }[];
      },
    ): Promise<{
      count: number;
      found: readonly { readonly definition: Kind; readonly isMarked: boolean }[];
    }> {
      const matching = reads
        .selectFrom(common)
        .where((eb) =>
          eb.and([
            ...commonConditions(eb, projectId, query),
            ...conditions(eb as unknown as ExpressionBuilder<Schema, Name>),
          ]),
        );
      const { count } = await matching
        .select((eb) => eb.fn.countAll().as("count"))
        .executeTakeFirstOrThrow();
      let ordered = matching
        .selectAll()
        .select(sql<number>`case when ${marked} then 1 else 0 end`.as("is_marked"))
        .orderBy("is_marked", "desc");
      for (const { by, descending } of order) {
        ordered = ordered.orderBy(by, (one) => (descending ? one.desc() : one.asc()).nullsLast());
      }
      const rows = await ordered.orderBy("name").limit(query.limit).offset(query.offset).execute();
      return {
        count: Number(count),
        found: rows.map((row) => ({
          definition: decodeRow(row),
          isMarked: decodeBoolean(row.is_marked),
        })),
      };
    },
  };
}

function commonConditions(
  eb: ExpressionBuilder<Schema, "event_definitions">,
  projectId: number,
  query: CommonQuery,
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

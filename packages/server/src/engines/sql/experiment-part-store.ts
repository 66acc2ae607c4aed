import type { JsonObject } from "@hedgerow/core/json";
import type { Selectable } from "kysely";
import type {
  ExperimentPartStore,
  PartFields,
  PartKind,
  PartRecord,
} from "../../experiments/experiment-part-store.ts";
import { keepActivity } from "./activity-log.ts";
import {
  decodeBoolean,
  decodeInstant,
  decodeJson,
  encodeBoolean,
  encodeInstant,
  encodeJson,
} from "./codec.ts";
import { nextRevision } from "./project-revisions.ts";
import type { Schema } from "./schema.ts";
import type { SqlDatabase } from "./sql-database.ts";

/** {@link ExperimentPartStore} of one kind on SQL. */
export function createExperimentPartStore(
  { reads, writes }: SqlDatabase,
  kind: PartKind,
): ExperimentPartStore {
  const live = (projectId: number) =>
    reads
      .selectFrom("experiment_parts")
      .where("project_id", "=", projectId)
      .where("kind", "=", kind)
      .where("deleted", "=", encodeBoolean(false));
  return {
    create: (projectId, fieldsOf, { authorId, now, describe }) =>
      writes.transaction().execute(async (transaction) => {
        const { id } = await transaction
          .insertInto("experiment_parts")
          .values({
            project_id: projectId,
            kind,
            name: "",
            description: null,
            content: encodeJson({}),
            tags: encodeJson([]),
            deleted: encodeBoolean(false),
            created_at: encodeInstant(now),
            updated_at: encodeInstant(now),
            created_by: authorId,
          })
          .returning("id")
          .executeTakeFirstOrThrow();
        const row = await transaction
          .updateTable("experiment_parts")
          .set(encodeFields(fieldsOf(id)))
          .where("id", "=", id)
          .returningAll()
          .executeTakeFirstOrThrow();
        const part = decodePart(row);
        await keepActivity(transaction, describe?.(null, part), { projectId, authorId, now });
        return part;
      }),

    update: (projectId, id, decide, { authorId, now, describe }) =>
      writes.transaction().execute(async (transaction) => {
        // Locks before it reads, so that two changes of one part see each other.
        await nextRevision(transaction, projectId);
        const current = await transaction
          .selectFrom("experiment_parts")
          .selectAll()
          .where("project_id", "=", projectId)
          .where("kind", "=", kind)
          .where("id", "=", id)
          .where("deleted", "=", encodeBoolean(false))
          .executeTakeFirst();
        if (!current) return undefined;
        const before = decodePart(current);
        const row = await transaction
          .updateTable("experiment_parts")
          .set({
            ...encodeFields({ ...before, ...decide(before) }),
            updated_at: encodeInstant(now),
          })
          .where("id", "=", id)
          .returningAll()
          .executeTakeFirstOrThrow();
        const part = decodePart(row);
        await keepActivity(transaction, describe?.(before, part), { projectId, authorId, now });
        return part;
      }),

    async parts(projectId, ids) {
      const possible = ids.filter((id) => id > 0 && id <= MAX_ID);
      if (possible.length === 0) return new Map();
      const rows = await live(projectId).selectAll().where("id", "in", possible).execute();
      return new Map(rows.map((row) => [row.id, decodePart(row)]));
    },

    async list(projectId, { limit, offset }) {
      const { count } = await live(projectId)
        .select((eb) => eb.fn.countAll<number>().as("count"))
        .executeTakeFirstOrThrow();
      const rows = await live(projectId)
        .selectAll()
        .orderBy("created_at", "desc")
        .orderBy("id", "desc")
        .limit(limit)
        .offset(offset)
        .execute();
      return { count: Number(count), parts: rows.map(decodePart) };
    },
  };
}

/** Larger than this no id of either engine is, and to one of them it is no id at all. */
const MAX_ID = 2 ** 31 - 1;

function encodeFields({ name, description, content, tags, deleted }: PartFields) {
  return {
    name,
    description,
    content: encodeJson(content),
    tags: encodeJson(tags),
    deleted: encodeBoolean(deleted),
  };
}

function decodePart(row: Selectable<Schema["experiment_parts"]>): PartRecord {
  return {
    id: row.id,
    projectId: row.project_id,
    name: row.name,
    description: row.description,
    content: decodeJson<JsonObject>(row.content),
    tags: decodeJson<string[]>(row.tags),
    deleted: decodeBoolean(row.deleted),
    createdAt: decodeInstant(row.created_at),
    updatedAt: decodeInstant(row.updated_at),
    createdById: row.created_by,
  };
}

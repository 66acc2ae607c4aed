import type { Attachment } from "@hedgerow/core/transformations/transformation";
import type { Selectable, Transaction } from "kysely";
import {
  type AttachmentChange,
  type ConfigView,
  type ConfigWrite,
  MAX_ORDER,
  type TransformationConfigFields,
  type TransformationConfigStore,
} from "../../transformations/transformation-config-store.ts";
import { keepActivity } from "./activity-log.ts";
import { encodeBoolean, encodeInstant, encodeJson } from "./codec.ts";
import type { Schema } from "./schema.ts";
import type { SqlDatabase } from "./sql-database.ts";
import { markProject, nextTransformationRevision } from "./transformation-revisions.ts";
import { decodeConfig, decodeVersion, viewOf, viewsOf } from "./transformation-rows.ts";

/** {@link TransformationConfigStore} on SQL. */
export function createTransformationConfigStore({
  reads,
  writes,
}: SqlDatabase): TransformationConfigStore {
  return {
    create: (projectId, fields, attachments, write) =>
      writes.transaction().execute(async (transaction) => {
        await beginChange(transaction, projectId);
        const known = await transaction
          .selectFrom("transformations")
          .select("id")
          .where("id", "=", fields.transformationId)
          .executeTakeFirst();
        if (!known) return undefined;
        const row = await transaction
          .insertInto("transformation_configs")
          .values({
            ...encodeFields({
              ...fields,
              order:
                fields.order === "last" ? await lastOrder(transaction, projectId) : fields.order,
            }),
            project_id: projectId,
            created_at: encodeInstant(write.now),
            updated_at: encodeInstant(write.now),
          })
          .returningAll()
          .executeTakeFirstOrThrow();
        await changeAttachments(transaction, row.id, attachments);
        const view = await viewOf(transaction, row);
        await tell(transaction, null, view, write);
        return view;
      }),

    update: (projectId, id, decide, attachments, write) =>
      writes.transaction().execute(async (transaction) => {
        await beginChange(transaction, projectId);
        const current = await transaction
          .selectFrom("transformation_configs")
          .selectAll()
          .where("project_id", "=", projectId)
          .where("id", "=", id)
          .where("deleted", "=", encodeBoolean(false))
          .executeTakeFirst();
        if (!current) return undefined;
        const before = await viewOf(transaction, current);
        const change = decide(before);
        const row = await transaction
          .updateTable("transformation_configs")
          .set({
            ...encodeFields({ ...before.config, ...change }),
            updated_at: encodeInstant(write.now),
          })
          .where("id", "=", id)
          .returningAll()
          .executeTakeFirstOrThrow();
        await changeAttachments(transaction, id, attachments);
        const after = await viewOf(transaction, row);
        await tell(transaction, before, after, write);
        return after;
      }),

    rearrange: (projectId, orders, write) =>
      writes.transaction().execute(async (transaction) => {
        await beginChange(transaction, projectId);
        const rows = await transaction
          .selectFrom("transformation_configs")
          .selectAll()
          .where("project_id", "=", projectId)
          .where("deleted", "=", encodeBoolean(false))
          .orderBy("id")
          .execute();
        for (const row of rows) {
          const order = orders.get(row.id);
          if (order === undefined || order === Number(row.run_order)) continue;
          const before = await viewOf(transaction, row);
          const changed = await transaction
            .updateTable("transformation_configs")
            .set({ run_order: order, updated_at: encodeInstant(write.now) })
            .where("id", "=", row.id)
            .returningAll()
            .executeTakeFirstOrThrow();
          await tell(transaction, before, { ...before, config: decodeConfig(changed) }, write);
        }
      }),

    async config(projectId, id) {
      const row = await reads
        .selectFrom("transformation_configs")
        .selectAll()
        .where("project_id", "=", projectId)
        .where("id", "=", id)
        .where("deleted", "=", encodeBoolean(false))
        .executeTakeFirst();
      return row && (await viewOf(reads, row));
    },

    async list(projectId, { transformationId, limit, offset }) {
      let matching = reads
        .selectFrom("transformation_configs")
        .where("project_id", "=", projectId)
        .where("deleted", "=", encodeBoolean(false));
      if (transformationId !== null) {
        matching = matching.where("transformation_id", "=", transformationId);
      }
      const { count } = await matching
        .select((eb) => eb.fn.countAll<number>().as("count"))
        .executeTakeFirstOrThrow();
      const rows = await matching
        .selectAll()
        .orderBy("run_order")
        .orderBy("transformation_id")
        .orderBy("id")
        .limit(limit)
        .offset(offset)
        .execute();
      const configs = await viewsOf(reads, rows);
      return { count: Number(count), configs };
    },

    async configsOf(transformationId) {
      const rows = await reads
        .selectFrom("transformation_configs")
        .selectAll()
        .where("transformation_id", "=", transformationId)
        .where("deleted", "=", encodeBoolean(false))
        .orderBy("id")
        .execute();
      return viewsOf(reads, rows);
    },

    async attachment(projectId, configId, key) {
      const row = await reads
        .selectFrom("transformation_attachments")
        .innerJoin(
          "transformation_configs",
          "transformation_configs.id",
          "transformation_attachments.config_id",
        )
        .selectAll("transformation_attachments")
        .where("project_id", "=", projectId)
        .where("config_id", "=", configId)
        .where("key", "=", key)
        .executeTakeFirst();
      return row && decodeAttachment(row);
    },

    async revisions(projectIds) {
      if (projectIds.length === 0) return new Map();
      const rows = await reads
        .selectFrom("transformation_revisions")
        .selectAll()
        .where("project_id", "in", [...projectIds])
        .execute();
      return new Map(rows.map(({ project_id, revision }) => [project_id, revision]));
    },

    async configsToRun(projectId) {
      const rows = await reads
        .selectFrom("transformation_configs")
        .selectAll()
        .where("project_id", "=", projectId)
        .where("enabled", "=", encodeBoolean(true))
        .where("deleted", "=", encodeBoolean(false))
        .orderBy("run_order")
        .orderBy("transformation_id")
        .orderBy("id")
        .execute();
      if (rows.length === 0) return [];
      const views = await viewsOf(reads, rows);
      const versions = await reads
        .selectFrom("transformation_versions")
        .innerJoin("transformations", (join) =>
          join
            .onRef("transformations.id", "=", "transformation_versions.transformation_id")
            .onRef("transformations.version", "=", "transformation_versions.version"),
        )
        .selectAll("transformation_versions")
        .where("transformations.id", "in", [
          ...new Set(views.map(({ transformation }) => transformation.id)),
        ])
        .execute();
      const versionOf = new Map(versions.map((row) => [row.transformation_id, decodeVersion(row)]));
      const attachments = await reads
        .selectFrom("transformation_attachments")
        .selectAll()
        .where(
          "config_id",
          "in",
          rows.map(({ id }) => id),
        )
        .orderBy("id")
        .execute();
      return views.flatMap(({ config, transformation }) => {
        const version = versionOf.get(transformation.id);
        if (!version) return [];
        return [
          {
            config,
            transformation,
            version,
            attachments: attachments
              .filter(({ config_id }) => config_id === config.id)
              .map(decodeAttachment),
          },
        ];
      });
    },

    async projectsToRun() {
      const rows = await reads
        .selectFrom("transformation_configs")
        .select("project_id")
        .distinct()
        .where("enabled", "=", encodeBoolean(true))
        .where("deleted", "=", encodeBoolean(false))
        .orderBy("project_id")
        .execute();
      return rows.map(({ project_id }) => project_id);
    },
  };
}

async function beginChange(transaction: Transaction<Schema>, projectId: number): Promise<void> {
  const revision = await nextTransformationRevision(transaction);
  await markProject(transaction, projectId, revision);
}

/** What runs after all that a project has. */
async function lastOrder(transaction: Transaction<Schema>, projectId: number): Promise<number> {
  const { highest } = await transaction
    .selectFrom("transformation_configs")
    .select((eb) => eb.fn.max("run_order").as("highest"))
    .where("project_id", "=", projectId)
    .where("deleted", "=", encodeBoolean(false))
    .executeTakeFirstOrThrow();
  return Math.min(Math.max(1, Number(highest ?? 0) + 1), MAX_ORDER);
}

async function tell(
  transaction: Transaction<Schema>,
  before: ConfigView | null,
  after: ConfigView,
  { authorId, now, describe }: ConfigWrite,
): Promise<void> {
  const { projectId } = after.config;
  for (const draft of describe(before, after)) {
    await keepActivity(transaction, draft, { projectId, authorId, now });
  }
}

async function changeAttachments(
  transaction: Transaction<Schema>,
  configId: number,
  { put, removeKeys }: AttachmentChange,
): Promise<void> {
  const replaced = [...removeKeys, ...put.map(({ key }) => key)];
  if (replaced.length > 0) {
    await transaction
      .deleteFrom("transformation_attachments")
      .where("config_id", "=", configId)
      .where("key", "in", replaced)
      .execute();
  }
  for (const { key, fileName, contentType, contents } of put) {
    await transaction
      .insertInto("transformation_attachments")
      .values({
        config_id: configId,
        key,
        file_name: fileName,
        content_type: contentType,
        size_bytes: contents.byteLength,
        contents: Buffer.from(contents).toString("base64"),
      })
      .execute();
  }
}

function encodeFields(fields: TransformationConfigFields) {
  return {
    transformation_id: fields.transformationId,
    enabled: encodeBoolean(fields.enabled),
    run_order: fields.order,
    config: encodeJson(fields.config),
    secret_keys: encodeJson(fields.secretKeys),
    name: fields.name,
    description: fields.description,
    allowed_hosts: encodeJson(fields.allowedHosts),
    problem: fields.problem?.message ?? null,
    problem_at: fields.problem && encodeInstant(fields.problem.at),
    deleted: encodeBoolean(fields.deleted),
  };
}

function decodeAttachment(row: Selectable<Schema["transformation_attachments"]>): Attachment {
  return {
    key: row.key,
    fileName: row.file_name,
    contentType: row.content_type,
    contents: new Uint8Array(Buffer.from(row.contents, "base64")),
  };
}

import type { JsonObject } from "@hedgerow/core/json";
import { configFieldsOf } from "@hedgerow/core/transformations/config-schema";
import type { Transformation } from "@hedgerow/core/transformations/transformation";
import { type ExpressionBuilder, type Insertable, sql, type Transaction } from "kysely";
import type { ConfigView } from "../../transformations/transformation-config-store.ts";
import type {
  SourceDraft,
  TransformationFields,
  TransformationStore,
} from "../../transformations/transformation-store.ts";
import { keepActivity } from "./activity-log.ts";
import { decodeInstant, decodeJson, encodeBoolean, encodeInstant, encodeJson } from "./codec.ts";
import type { Schema } from "./schema.ts";
import type { SqlDatabase } from "./sql-database.ts";
import { markProjectsOf, nextTransformationRevision } from "./transformation-revisions.ts";
import { decodeTransformation, decodeVersion, viewsOf } from "./transformation-rows.ts";

/** {@link TransformationStore} on SQL. */
export function createTransformationStore(database: SqlDatabase): TransformationStore {
  const { reads, writes, capabilities } = database;
  return {
    async create(organizationId, fields, source, { authorId, now, describe }) {
      try {
        return await writes.transaction().execute(async (transaction) => {
          await nextTransformationRevision(transaction);
          const row = await transaction
            .insertInto("transformations")
            .values({
              ...encodeFields(fields),
              url_key: fields.identity,
              organization_id: organizationId,
              version: source ? 1 : 0,
              created_at: encodeInstant(now),
              updated_at: encodeInstant(now),
            })
            .returningAll()
            .executeTakeFirstOrThrow();
          if (source) {
            await insertVersion(transaction, { id: row.id, version: 1, source, authorId, now });
          }
          const transformation = decodeTransformation(row);
          await keepActivity(transaction, describe(null, transformation), {
            organizationId,
            authorId,
            now,
          });
          return transformation;
        });
      } catch (error) {
        if (capabilities.isUniqueViolation(error)) return "duplicate";
        throw error;
      }
    },

    update: (id, decide, source, { authorId, now, describe }) =>
      writes.transaction().execute(async (transaction) => {
        const revision = await nextTransformationRevision(transaction);
        const current = await transaction
          .selectFrom("transformations")
          .selectAll()
          .where("id", "=", id)
          .executeTakeFirst();
        if (!current) return undefined;
        const before = decodeTransformation(current);
        if (source && source.ifVersion !== before.version) return "stale";
        const change = decide(before);
        const version = before.version + (source ? 1 : 0);
        const row = await transaction
          .updateTable("transformations")
          .set({
            ...encodeFields({ ...before, ...change }),
            version,
            updated_at: encodeInstant(now),
          })
          .where("id", "=", id)
          .returningAll()
          .executeTakeFirstOrThrow();
        if (source) await insertVersion(transaction, { id, version, source, authorId, now });
        await markProjectsOf(transaction, id, revision);
        const after = decodeTransformation(row);
        if (row.config_schema !== current.config_schema) await noteSecrets(transaction, after);
        await keepActivity(transaction, describe(before, after), {
          organizationId: before.organizationId,
          authorId,
          now,
        });
        return after;
      }),

    remove: (id, check, { authorId, now, describe }, ofConfig) =>
      writes.transaction().execute(async (transaction) => {
        const revision = await nextTransformationRevision(transaction);
        const current = await transaction
          .selectFrom("transformations")
          .selectAll()
          .where("id", "=", id)
          .executeTakeFirst();
        if (!current) return false;
        const before = decodeTransformation(current);
        check(before);
        await markProjectsOf(transaction, id, revision);
        for (const { view, organizationId } of await configsToGo(transaction, id)) {
          const { drafts, authorId: byWhom } = ofConfig(view, organizationId);
          const { projectId } = view.config;
          for (const draft of drafts) {
            await keepActivity(transaction, draft, { projectId, authorId: byWhom, now });
          }
        }
        await transaction.deleteFrom("transformations").where("id", "=", id).execute();
        await keepActivity(transaction, describe(before, null), {
          organizationId: before.organizationId,
          authorId,
          now,
        });
        return true;
      }),

    async transformation(organizationId, id) {
      const row = await reads
        .selectFrom("transformations")
        .selectAll()
        .where("id", "=", id)
        .where(isSeenBy(organizationId))
        .executeTakeFirst();
      return row && decodeTransformation(row);
    },

    async list(organizationId, { limit, offset }) {
      const matching = reads.selectFrom("transformations").where(isSeenBy(organizationId));
      const { count } = await matching
        .select((eb) => eb.fn.countAll<number>().as("count"))
        .executeTakeFirstOrThrow();
      const rows = await matching.selectAll().orderBy("id").limit(limit).offset(offset).execute();
      return { count: Number(count), transformations: rows.map(decodeTransformation) };
    },

    async unused() {
      const rows = await reads
        .selectFrom("transformations")
        .selectAll()
        .where("is_global", "=", encodeBoolean(true))
        .where(({ not, exists, selectFrom }) =>
          not(
            exists(
              selectFrom("transformation_configs")
                .select("transformation_configs.id")
                .whereRef("transformation_id", "=", "transformations.id")
                .where("enabled", "=", encodeBoolean(true)),
            ),
          ),
        )
        .orderBy("id")
        .execute();
      return rows.map(decodeTransformation);
    },

    async versions(id, { limit, offset }) {
      const matching = reads
        .selectFrom("transformation_versions")
        .where("transformation_id", "=", id);
      const { count } = await matching
        .select((eb) => eb.fn.countAll<number>().as("count"))
        .executeTakeFirstOrThrow();
      const rows = await matching
        .select(["version", "file_names", "tag", "restored_from", "created_at", "created_by"])
        .orderBy("version", "desc")
        .limit(limit)
        .offset(offset)
        .execute();
      return {
        count: Number(count),
        versions: rows.map((row) => ({
          transformationId: id,
          version: row.version,
          fileNames: decodeJson<string[]>(row.file_names),
          tag: row.tag,
          restoredFrom: row.restored_from,
          createdAt: decodeInstant(row.created_at),
          createdById: row.created_by,
        })),
      };
    },

    async version(id, version) {
      const row = await reads
        .selectFrom("transformation_versions")
        .selectAll()
        .where("transformation_id", "=", id)
        .where("version", "=", version)
        .executeTakeFirst();
      return row && decodeVersion(row);
    },

    async pruneVersions(replacedBefore, keepNewest) {
      const { numDeletedRows } = await writes
        .deleteFrom("transformation_versions as old")
        .where(({ exists, selectFrom }) =>
          exists(
            selectFrom("transformations")
              .select("id")
              .whereRef("transformations.id", "=", "old.transformation_id")
              .where("old.version", "<=", sql<number>`transformations.version - ${keepNewest}`),
          ),
        )
        .where(({ exists, selectFrom }) =>
          exists(
            selectFrom("transformation_versions as later")
              .select("later.version")
              .whereRef("later.transformation_id", "=", "old.transformation_id")
              .whereRef("later.version", ">", "old.version")
              .where("later.created_at", "<", encodeInstant(replacedBefore)),
          ),
        )
        .executeTakeFirst();
      return Number(numDeletedRows);
    },
  };
}

/** Own ones, global ones, and those with a config in the organization's projects. */
function isSeenBy(organizationId: string) {
  return ({ eb, or, selectFrom }: ExpressionBuilder<Schema, "transformations">) =>
    or([
      eb("organization_id", "=", organizationId),
      eb("is_global", "=", encodeBoolean(true)),
      eb(
        "id",
        "in",
        selectFrom("transformation_configs")
          .innerJoin("projects", "projects.id", "transformation_configs.project_id")
          .select("transformation_id")
          .where("projects.organization_id", "=", organizationId)
          .where("deleted", "=", encodeBoolean(false)),
      ),
    ]);
}

async function insertVersion(
  transaction: Transaction<Schema>,
  {
    id,
    version,
    source,
    authorId,
    now,
  }: { id: number; version: number; source: SourceDraft; authorId: number | null; now: Date },
): Promise<void> {
  await transaction
    .insertInto("transformation_versions")
    .values({
      transformation_id: id,
      version,
      files: encodeJson(source.files),
      file_names: encodeJson(Object.keys(source.files)),
      program: source.program && encodeJson(source.program),
      tag: source.tag,
      restored_from: source.restoredFrom,
      created_at: encodeInstant(now),
      created_by: authorId,
    })
    .execute();
}

/** Configs of a transformation, by id, and whose project each is in. */
async function configsToGo(
  transaction: Transaction<Schema>,
  id: number,
): Promise<readonly { readonly view: ConfigView; readonly organizationId: string }[]> {
  const rows = await transaction
    .selectFrom("transformation_configs")
    .innerJoin("projects", "projects.id", "transformation_configs.project_id")
    .selectAll("transformation_configs")
    .select("projects.organization_id")
    .where("transformation_id", "=", id)
    .where("deleted", "=", encodeBoolean(false))
    .orderBy("transformation_configs.id")
    .execute();
  const views = new Map(
    (await viewsOf(transaction, rows)).map((view) => [view.config.id, view] as const),
  );
  return rows.flatMap((row) => {
    const view = views.get(row.id);
    return view ? [{ view, organizationId: row.organization_id }] : [];
  });
}

/** Notes which stored settings and files are declared secret: they stay secret when they no longer are. */
async function noteSecrets(
  transaction: Transaction<Schema>,
  { id, configSchema }: Transformation,
): Promise<void> {
  const declared = configFieldsOf(configSchema).filter(({ secret }) => secret);
  if (declared.length === 0) return;
  const rows = await transaction
    .selectFrom("transformation_configs")
    .select(["id", "config", "secret_keys"])
    .where("transformation_id", "=", id)
    .execute();
  const files = await transaction
    .selectFrom("transformation_attachments")
    .innerJoin("transformation_configs", "transformation_configs.id", "config_id")
    .select(["config_id", "key"])
    .where("transformation_id", "=", id)
    .execute();
  for (const row of rows) {
    const config = decodeJson<JsonObject>(row.config);
    const isStored = (key: string) =>
      Object.hasOwn(config, key) ||
      files.some((file) => file.config_id === row.id && file.key === key);
    const known = new Set(decodeJson<string[]>(row.secret_keys));
    const fresh = declared.map(({ key }) => key).filter((key) => isStored(key) && !known.has(key));
    if (fresh.length === 0) continue;
    await transaction
      .updateTable("transformation_configs")
      .set({ secret_keys: encodeJson([...known, ...new Set(fresh)]) })
      .where("id", "=", row.id)
      .execute();
  }
}

function encodeFields(fields: TransformationFields) {
  return {
    type: fields.type,
    name: fields.name,
    description: fields.description,
    url: fields.url,
    icon: fields.icon,
    config_schema: encodeJson(fields.configSchema),
    tag: fields.tag,
    latest_tag: fields.latestTag,
    latest_tag_checked_at: fields.latestTagCheckedAt && encodeInstant(fields.latestTagCheckedAt),
    is_global: encodeBoolean(fields.isGlobal),
    capabilities: encodeJson(fields.capabilities),
    metrics: encodeJson(fields.metrics),
    public_jobs: encodeJson(fields.publicJobs),
  } satisfies Partial<Insertable<Schema["transformations"]>>;
}

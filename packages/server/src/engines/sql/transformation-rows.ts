import type { Json, JsonObject } from "@hedgerow/core/json";
import type {
  Transformation,
  TransformationConfig,
} from "@hedgerow/core/transformations/transformation";
import type { Kysely, Selectable } from "kysely";
import type { Program } from "../../transformations/sandbox.ts";
import type {
  AttachmentSummary,
  ConfigView,
} from "../../transformations/transformation-config-store.ts";
import { decodeBoolean, decodeInstant, decodeJson } from "./codec.ts";
import type { Schema } from "./schema.ts";

export function decodeTransformation(row: Selectable<Schema["transformations"]>): Transformation {
  return {
    id: row.id,
    organizationId: row.organization_id,
    type: row.type as Transformation["type"],
    name: row.name,
    description: row.description,
    url: row.url,
    icon: row.icon,
    configSchema: decodeJson<Json>(row.config_schema),
    tag: row.tag,
    latestTag: row.latest_tag,
    latestTagCheckedAt:
      row.latest_tag_checked_at === null ? null : decodeInstant(row.latest_tag_checked_at),
    isGlobal: decodeBoolean(row.is_global),
    capabilities: decodeJson<JsonObject>(row.capabilities),
    metrics: decodeJson<Json>(row.metrics),
    publicJobs: decodeJson<Json>(row.public_jobs),
    version: row.version,
    createdAt: decodeInstant(row.created_at),
    updatedAt: decodeInstant(row.updated_at),
  };
}

export function decodeVersion(row: Selectable<Schema["transformation_versions"]>) {
  return {
    transformationId: row.transformation_id,
    version: row.version,
    files: decodeJson<Record<string, string>>(row.files),
    program: row.program === null ? null : decodeJson<Program>(row.program),
    tag: row.tag,
    restoredFrom: row.restored_from,
    createdAt: decodeInstant(row.created_at),
    createdById: row.created_by,
  };
}

export type ConfigRow = Selectable<Schema["transformation_configs"]>;

export async function viewOf(db: Kysely<Schema>, row: ConfigRow): Promise<ConfigView> {
  const [view] = await viewsOf(db, [row]);
  if (!view) throw new Error(`transformation ${row.transformation_id} is gone`);
  return view;
}

/** Configs whose transformation was taken away since they were read are left out. */
export async function viewsOf(
  db: Kysely<Schema>,
  rows: readonly ConfigRow[],
): Promise<readonly ConfigView[]> {
  if (rows.length === 0) return [];
  const transformations = await db
    .selectFrom("transformations")
    .selectAll()
    .where("id", "in", [...new Set(rows.map(({ transformation_id }) => transformation_id))])
    .execute();
  const transformationOf = new Map(
    transformations.map((row) => [row.id, decodeTransformation(row)]),
  );
  const attachments = await db
    .selectFrom("transformation_attachments")
    .select(["id", "config_id", "key", "file_name", "content_type", "size_bytes"])
    .where(
      "config_id",
      "in",
      rows.map(({ id }) => id),
    )
    .orderBy("id")
    .execute();
  return rows.flatMap((row) => {
    const transformation = transformationOf.get(row.transformation_id);
    if (!transformation) return [];
    return [
      {
        config: decodeConfig(row),
        transformation,
        attachments: attachments
          .filter(({ config_id }) => config_id === row.id)
          .map(
            (attachment): AttachmentSummary => ({
              id: attachment.id,
              configId: attachment.config_id,
              key: attachment.key,
              fileName: attachment.file_name,
              contentType: attachment.content_type,
              sizeBytes: attachment.size_bytes,
            }),
          ),
      },
    ];
  });
}

export function decodeConfig(row: ConfigRow): TransformationConfig {
  return {
    id: row.id,
    projectId: row.project_id,
    transformationId: row.transformation_id,
    enabled: decodeBoolean(row.enabled),
    order: Number(row.run_order),
    config: decodeJson<JsonObject>(row.config),
    secretKeys: decodeJson<string[]>(row.secret_keys),
    name: row.name,
    description: row.description,
    allowedHosts: decodeJson<string[]>(row.allowed_hosts),
    problem:
      row.problem === null
        ? null
        : { message: row.problem, at: decodeInstant(Number(row.problem_at)) },
    deleted: decodeBoolean(row.deleted),
    createdAt: decodeInstant(row.created_at),
    updatedAt: decodeInstant(row.updated_at),
  };
}
